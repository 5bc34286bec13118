// Changes to images by arithmetic: colours, rotation, blanks. The caller has drawn whatever is random.
#pragma once

#include <span>

#include "codec.h"

namespace bushel {

enum class Change : std::uint8_t {
  flip,        // vertical, horizontal; each 0 or 1
  brightness,  // the amount to add
  contrast,    // factor by which values move from the mean of their channel
  saturation,  // factor by which colours move from grey; 3 channels only
  hue,         // the matrix to multiply colours by, row by row; 3 channels only
  rotate,      // degrees, and the value beyond the edges; interpolates between four pixels, as Pillow does
  cutout,      // top, left, bottom, right, and the value to fill in
  shift,       // row and column that come to the upper left corner; the edge is repeated beyond itself
};

// How many numbers describe the change of one image.
std::size_t number_count(Change change);

// One change, applied to every image of a batch: the numbers of the images come one after the other.
struct Step {
  Change change;
  std::span<const double> numbers;
};

// Changes the image in place. Values are 0 to 255 and stay in that range; bytes are rounded. The caller keeps `spare`.
template <typename T>
void change_image(T* image, ImageSize size, Change change, const double* numbers, std::vector<T>& spare);

// Each row becomes `share` of itself and the rest of its partner.
template <typename T>
void mix_rows(const T* in, std::size_t values, std::span<const std::int64_t> partners, std::span<const double> shares,
              float* out);

// Pastes a part of its partner into each image. A pixel is `size.channels` bytes, whatever they mean.
void paste_rows(const std::uint8_t* in, ImageSize size, std::span<const std::int64_t> partners,
                std::span<const Part> parts, std::uint8_t* out);

}  // namespace bushel
