// Pixels to PNGs.
#pragma once

#include "codec.h"

namespace bushel {

// Of 1, 3 or 4 channels of 8 bits. Each row is stored as the difference from its neighbours that has the smallest
// values. Throws EncodeError, also where there is no library to do it.
std::vector<std::uint8_t> encode_png(const std::uint8_t* pixels, ImageSize size);

}  // namespace bushel
