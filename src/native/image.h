// Resizing images: rows of pixels of a few channels each.
#pragma once

#include <vector>

#include "bytes.h"

namespace bushel {

struct ImageSize {
  std::size_t height, width, channels;

  std::size_t row() const { return width * channels; }
  std::size_t values() const { return height * row(); }
  bool operator==(const ImageSize&) const = default;
};

// How values between pixels are computed.
//   bilinear  by nearness, as tf.image.resize
//   area      the mean of the area that a pixel covers, as cv2's INTER_AREA; bilinear if the image does not shrink
//   bicubic   Keys' cubic with a = -0.5, as Pillow and tf.image.resize; pixels beyond the edge are left out
enum class Kernel : std::uint8_t { kBilinear, kArea, kBicubic };

// The centres of pixels are at half coordinates. `antialias` widens the kernel when shrinking, so that every input
// pixel counts; an area always does.
struct Scaling {
  Kernel kernel = Kernel::kBilinear;
  bool antialias = false;

  bool operator==(const Scaling&) const = default;
};

// Where each output coordinate takes its values from.
struct Taps {
  std::size_t count = 0;           // of each coordinate
  std::vector<std::size_t> first;  // input coordinate
  std::vector<float> weights;      // count of each coordinate
};

// Eight values of an output row whose two neighbours are among sixteen values of the input row.
struct alignas(32) Octet {
  float left_weight[8], right_weight[8];
  std::int32_t left[8], right[8];  // among the sixteen
  std::size_t first;               // of the sixteen in the row
};

// One row across: each pixel is a few neighbours by their weights.
class Across {
 public:
  Across(Taps taps, std::size_t width, std::size_t channels);

  // May read kSlack values after `in`. `streams`: `out` is too large for the cache to be worth using for it.
  void resize(const float* in, float* out, bool streams) const;

  static constexpr std::size_t kSlack = 16;

 private:
  using Lane = float __attribute__((vector_size(16)));

  void resize_pairs(const float* in, float* out) const;
  void resize_wide(const float* in, float* out) const;
  void resize_values(const float* in, float* out, std::size_t from) const;

  Taps taps_;
  std::size_t width_, channels_, wide_;
  std::vector<Octet> octets_;
  std::vector<Lane> pairs_;
};

// Resizes images from one size to another: prepared once, then used row by row for many. One thread at a time.
class Resizer {
 public:
  // `mirrored`: left to right.
  Resizer(ImageSize from, ImageSize to, Scaling scaling, bool mirrored = false);

  bool fits(ImageSize from, ImageSize to, Scaling scaling, bool mirrored) const;

  // Row `y` is made of this many rows of the input, starting with this one.
  std::size_t first_row(std::size_t y) const { return down_.first[y]; }
  std::size_t row_count() const { return down_.count; }

  // Row `y` of the output; `rows` is the first that it is made of, the others follow at `stride` values.
  template <typename In>
  void make_row(const In* rows, std::size_t stride, std::size_t y, float* out, bool streams);

 private:
  ImageSize from_, to_;
  Scaling scaling_;
  bool mirrored_;
  Taps down_;
  Across across_;
  std::vector<float> line_;
};

// Other threads see streamed rows only after this.
void finish_streams();

// Whether float32 images of this size leave the cache before they are used.
bool is_streamed(ImageSize size);

// Values to bytes: rounded and clipped to their range.
void round_values(const float* in, std::size_t n, std::uint8_t* out);

// `out` has room for height * width * channels; bytes are rounded.
template <typename In, typename Out>
void resize(const In* in, ImageSize from, Out* out, ImageSize to, bool antialias, Kernel kernel = Kernel::kBilinear);

}  // namespace bushel
