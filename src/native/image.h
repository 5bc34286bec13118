// Resizing images: rows of pixels of a few channels each.
#pragma once

#include <vector>

#include "bytes.h"

namespace bushel {

struct ImageSize {
  std::size_t height, width, channels;
};

// Bilinear, with the centres of pixels at half coordinates, as tf.image.resize does it. `antialias` widens the filter
// when shrinking, so that every input pixel counts. `out` has room for height * width * channels; bytes are rounded.
template <typename In, typename Out>
void resize(const In* in, ImageSize from, Out* out, ImageSize to, bool antialias);

}  // namespace bushel
