// Pixels to JPEGs.
#pragma once

#include <stdexcept>

#include "codec.h"

namespace bushel {

struct JpegError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Of 1 or 3 channels; colours at half the resolution, as is usual. Below a quality of 96 with the fast DCT, as
// TurboJPEG does it. Throws JpegError, also where there is no library to do it.
std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* pixels, ImageSize size, int quality);

}  // namespace bushel
