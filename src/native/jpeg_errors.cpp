#if defined(BUSHEL_HAS_JPEG)

#include "jpeg_errors.h"

#include <jerror.h>

#include <cstring>
#include <iterator>

namespace bushel {

namespace {

// The header has all messages, except for two that name the library.
#define JVERSION ""
#define JCOPYRIGHT ""
#define JCOPYRIGHT_SHORT ""
#define JMESSAGE(code, text) text,
constexpr const char* kMessages[] = {
#include <jerror.h>
};

void format(j_common_ptr common, char* buffer) {
  const jpeg_error_mgr& errors = *common->err;
  const bool is_known = errors.msg_code > 0 && errors.msg_code < static_cast<int>(std::size(kMessages));
  const char* const text = kMessages[is_known ? errors.msg_code : 0];
  const char* const first = std::strchr(text, '%');
  const int* const i = errors.msg_parm.i;
  if (first && first[1] == 's')
    std::snprintf(buffer, JMSG_LENGTH_MAX, text, errors.msg_parm.s);
  else
    std::snprintf(buffer, JMSG_LENGTH_MAX, text, is_known ? i[0] : errors.msg_code, i[1], i[2], i[3], i[4], i[5], i[6],
                  i[7]);
}

}  // namespace

void set_jpeg_errors(jpeg_error_mgr& errors, void (*leave)(j_common_ptr), void (*note)(j_common_ptr, int level)) {
  errors = {};
  errors.error_exit = leave;
  errors.emit_message = note;
  errors.output_message = [](j_common_ptr) {};
  errors.format_message = format;
  errors.reset_error_mgr = [](j_common_ptr common) { common->err->msg_code = 0; };
  errors.jpeg_message_table = kMessages;
  errors.last_jpeg_message = static_cast<int>(std::size(kMessages)) - 1;
}

}  // namespace bushel

#endif
