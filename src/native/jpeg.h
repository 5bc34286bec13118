// The header of a JPEG: what it says before its pixels.
#pragma once

#include <functional>

#include "bytes.h"

namespace bushel {

struct JpegFrame {
  std::size_t height = 0, width = 0, channels = 0;
  int bits = 0;
};

// The frame of a JPEG, and all EXIF data before it; false if it is not a complete JPEG with an end.
bool walk_jpeg(Bytes data, JpegFrame& frame, const std::function<void(Bytes)>& exif);

// Whether there is an end marker anywhere from `from` on.
bool has_jpeg_end(Bytes data, std::size_t from);

}  // namespace bushel
