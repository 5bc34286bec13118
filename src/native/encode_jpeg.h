// Pixels to JPEGs.
#pragma once

#include <stdexcept>

#include "codec.h"

namespace bushel {

struct JpegError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Takes 1 or 3 channels; colours have half the resolution, as usual. Uses the fast DCT below a quality of 96, as
// TurboJPEG does. Throws JpegError, also if there is no library to do it.
std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* pixels, ImageSize size, int quality);

}  // namespace bushel
