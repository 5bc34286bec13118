// How an image says that it was turned when it was taken.
#pragma once

#include "codec.h"

namespace bushel {

// Of EXIF: 1 is upright, and what is said wherever nothing valid is. 5 to 8 swap height and width.
int jpeg_orientation(Bytes data);
int png_orientation(Bytes data);

// `out` has room for the turned image: the size of `in`, with its sides swapped for 5 to 8.
void turn(const std::uint8_t* in, ImageSize size, int orientation, std::uint8_t* out);

inline ImageSize turned(ImageSize size, int orientation) {
  return orientation < 5 ? size : ImageSize{size.width, size.height, size.channels};
}

}  // namespace bushel
