// What a JPEG says of itself before its pixels, where it is of the plain kind that most are.
#pragma once

#include "bytes.h"

namespace bushel {

struct JpegHeader {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
};

// False for whatever is not a whole JPEG of 8 bits, one or three channels and no EXIF data: what that is, and whether
// it can be used, is for somebody with more words to say.
bool read_plain_jpeg(Bytes data, JpegHeader& header);

}  // namespace bushel
