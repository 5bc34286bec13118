// Pixels to JPEGs.
#pragma once

#include "codec.h"

namespace bushel {

// Takes 1 or 3 channels; colours have half the resolution, as usual. Uses the fast DCT below a quality of 96, as
// TurboJPEG does. Throws EncodeError, also if there is no library to do it.
std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* pixels, ImageSize size, int quality);

}  // namespace bushel
