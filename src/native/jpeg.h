// What a JPEG says of itself before its pixels.
#pragma once

#include <functional>

#include "bytes.h"

namespace bushel {

struct JpegHeader {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
};

struct JpegFrame : JpegHeader {
  int bits = 0;
};

// The frame of a JPEG, and on the way to it all EXIF data; false for what is not a whole JPEG, with an end.
bool walk_jpeg(Bytes data, JpegFrame& frame, const std::function<void(Bytes)>& exif);

// False for whatever is not a whole JPEG of 8 bits, one or three channels and no EXIF data: what that is, and whether
// it can be used, is for somebody with more words to say.
bool read_plain_jpeg(Bytes data, JpegHeader& header);

// Whether the marker of the end stands anywhere from `from` on.
bool has_jpeg_end(Bytes data, std::size_t from);

}  // namespace bushel
