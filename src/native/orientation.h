// The orientation that EXIF data give an image.
#pragma once

#include "codec.h"

namespace bushel {

// EXIF's number: 1 is upright, and the result if there is nothing valid. 5 to 8 swap height and width.
int jpeg_orientation(Bytes data);
int png_orientation(Bytes data);

// `out` has room for the turned image: the size of `in`, with its sides swapped for 5 to 8.
void turn(const std::uint8_t* in, ImageSize size, int orientation, std::uint8_t* out);

inline ImageSize turned(ImageSize size, int orientation) {
  return orientation < 5 ? size : ImageSize{size.width, size.height, size.channels};
}

}  // namespace bushel
