// Resizing images: rows of pixels of a few channels each.
#pragma once

#include <vector>

#include "bytes.h"

namespace bushel {

struct ImageSize {
  std::size_t height, width, channels;
};

// How values between pixels are made.
//   bilinear  by nearness, as tf.image.resize
//   area      the mean of what a pixel covers, as cv2's INTER_AREA; bilinear where an image does not shrink
//   bicubic   Keys' cubic with a = -0.5, as Pillow and tf.image.resize; what is beyond the edge is left out
enum class Kernel : std::uint8_t { kBilinear, kArea, kBicubic };

// The centres of pixels are at half coordinates. `antialias` widens the kernel when shrinking, so that every input
// pixel counts; an area always does. `out` has room for height * width * channels; bytes are rounded.
template <typename In, typename Out>
void resize(const In* in, ImageSize from, Out* out, ImageSize to, bool antialias, Kernel kernel = Kernel::kBilinear);

}  // namespace bushel
