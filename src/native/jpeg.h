// The header of a JPEG: what it says before its pixels.
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

// The frame of a JPEG, and all EXIF data before it; false if it is not a complete JPEG with an end.
bool walk_jpeg(Bytes data, JpegFrame& frame, const std::function<void(Bytes)>& exif);

// False for anything but a complete JPEG of 8 bits, one or three channels and no EXIF data. Callers then find out what
// it is and whether it can be used.
bool read_plain_jpeg(Bytes data, JpegHeader& header);

// Whether there is an end marker anywhere from `from` on.
bool has_jpeg_end(Bytes data, std::size_t from);

}  // namespace bushel
