// Images changed by arithmetic: colours, rotation, blanks. What is random about it was drawn by the caller.
#pragma once

#include <span>

#include "codec.h"

namespace bushel {

enum class Change : std::uint8_t {
  flip,        // upside down, left to right; each 0 or 1
  brightness,  // what is added
  contrast,    // factor by which values move from the mean of their channel
  saturation,  // factor by which colours move from their grey; of 3 channels
  hue,         // the matrix, row by row, that colours are multiplied by; of 3 channels
  rotate,      // degrees, and what comes from outside; as Pillow, between four pixels
  cutout,      // top, left, bottom, right, and what is put there
};

// How many numbers say how one image is changed.
std::size_t number_count(Change change);

// One change of every image of a batch: the numbers of each follow each other.
struct Step {
  Change change;
  std::span<const double> numbers;
};

// Changes the image at hand. Values are 0 to 255, and stay so; bytes are rounded. `spare` is for the caller to keep.
template <typename T>
void change_image(T* image, ImageSize size, Change change, const double* numbers, std::vector<T>& spare);

// Each row becomes `share` of itself and the rest of its partner.
template <typename T>
void mix_rows(const T* in, std::size_t values, std::span<const std::int64_t> partners, std::span<const double> shares,
              float* out);

// Each image with a part of its partner in it. A pixel is `size.channels` bytes, whatever they mean.
void paste_rows(const std::uint8_t* in, ImageSize size, std::span<const std::int64_t> partners,
                std::span<const Part> parts, std::uint8_t* out);

}  // namespace bushel
