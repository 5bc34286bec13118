#include "image.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace bushel {

namespace {

// Four channels at a time; a pixel of fewer is written over by the next.
using Lane = float __attribute__((vector_size(16)));
constexpr std::size_t kLane = 4;

Lane load(const float* p) {
  Lane lane;
  std::memcpy(&lane, p, sizeof lane);
  return lane;
}

void store(float* p, Lane lane) { std::memcpy(p, &lane, sizeof lane); }

// Where each output coordinate takes its values from.
struct Taps {
  std::size_t count = 0;           // of each coordinate
  std::vector<std::size_t> first;  // input coordinate
  std::vector<float> weights;      // count of each coordinate
};

Taps taps_of(std::size_t from, std::size_t to, bool antialias) {
  Taps taps;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = antialias ? std::max(scale, 1.0) : 1.0;
  taps.count = std::min(from, static_cast<std::size_t>(std::ceil(2 * reach)) + (reach > 1.0));
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const double begin = std::floor(centre - reach) + 1;
    const auto last = static_cast<double>(from - taps.count);
    const auto first = static_cast<std::size_t>(std::clamp(begin, 0.0, last));
    std::vector<double> weights(taps.count, 0.0);
    double sum = 0;
    for (double at = begin; at <= std::ceil(centre + reach) - 1; ++at) {
      const double weight = std::max(0.0, 1 - std::abs(at - centre) / reach);
      // Beyond the edge the edge is repeated; a wide filter leaves out what is not there.
      if (antialias && (at < 0 || at >= static_cast<double>(from))) continue;
      const auto inside = static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(from - 1)));
      weights[std::min(inside - first, taps.count - 1)] += weight;
      sum += weight;
    }
    taps.first.push_back(first);
    for (const double weight : weights) taps.weights.push_back(static_cast<float>(sum > 0 ? weight / sum : weight));
  }
  return taps;
}

// How many pixels of a row can be written by lanes: one may run over the end of a pixel, where the next is written
// behind it, but not over the end of the row.
std::size_t wide_pixels(std::size_t width, std::size_t channels) {
  const std::size_t reach = (channels + kLane - 1) / kLane * kLane, row = width * channels;
  return row < reach ? 0 : (row - reach) / channels + 1;
}

// One row across: each pixel is `count` neighbours by their weights.
class Across {
 public:
  Across(const Taps& taps, std::size_t width, std::size_t channels)
      : taps_(taps), width_(width), channels_(channels), wide_(wide_pixels(width, channels)) {
    if (taps.count != 2 || channels > kLane) return;
    for (std::size_t x = 0; x < wide_; ++x) {
      pairs_.push_back(taps.weights[2 * x] + Lane{});
      pairs_.push_back(taps.weights[2 * x + 1] + Lane{});
    }
  }

  void resize(const float* in, float* out) const {
    if (pairs_.empty())
      resize_wide(in, out);
    else
      resize_pairs(in, out);
    for (std::size_t x = wide_; x < width_; ++x)
      for (std::size_t c = 0; c < channels_; ++c) {
        const float* const pixel = in + taps_.first[x] * channels_ + c;
        const float* const weights = taps_.weights.data() + x * taps_.count;
        float sum = pixel[0] * weights[0];
        for (std::size_t k = 1; k < taps_.count; ++k) sum += pixel[k * channels_] * weights[k];
        out[x * channels_ + c] = sum;
      }
  }

 private:
  // The common case: two neighbours, a pixel in one lane.
  void resize_pairs(const float* in, float* out) const {
    for (std::size_t x = 0; x < wide_; ++x) {
      const float* const pixel = in + taps_.first[x] * channels_;
      store(out + x * channels_, load(pixel) * pairs_[2 * x] + load(pixel + channels_) * pairs_[2 * x + 1]);
    }
  }

  void resize_wide(const float* in, float* out) const {
    for (std::size_t x = 0; x < wide_; ++x) {
      const float* const pixel = in + taps_.first[x] * channels_;
      const float* const weights = taps_.weights.data() + x * taps_.count;
      for (std::size_t c = 0; c < channels_; c += kLane) {
        Lane sum = load(pixel + c) * weights[0];
        for (std::size_t k = 1; k < taps_.count; ++k) sum += load(pixel + k * channels_ + c) * weights[k];
        store(out + x * channels_ + c, sum);
      }
    }
  }

  const Taps& taps_;
  std::size_t width_, channels_, wide_;
  std::vector<Lane> pairs_;
};

// Both are the same to the last bit: without fused multiplication, wider registers change nothing.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define BUSHEL_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define BUSHEL_WIDE
#endif

BUSHEL_WIDE void blend(const std::uint8_t* a, const std::uint8_t* b, float wa, float wb, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(a[i]) * wa + static_cast<float>(b[i]) * wb;
}

BUSHEL_WIDE void blend(const float* a, const float* b, float wa, float wb, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = a[i] * wa + b[i] * wb;
}

BUSHEL_WIDE void add(const std::uint8_t* in, float weight, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] += static_cast<float>(in[i]) * weight;
}

BUSHEL_WIDE void add(const float* in, float weight, std::size_t n, float* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] += in[i] * weight;
}

BUSHEL_WIDE void round_row(const float* in, std::size_t n, std::uint8_t* out) {
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::uint8_t>(std::clamp(in[i] + 0.5f, 0.0f, 255.0f));
}

}  // namespace

template <typename In, typename Out>
void resize(const In* in, ImageSize from, Out* out, ImageSize to, bool antialias) {
  const Taps columns = taps_of(from.width, to.width, antialias), down = taps_of(from.height, to.height, antialias);
  const Across across(columns, to.width, to.channels);
  const std::size_t in_row = from.width * from.channels, row = to.width * to.channels;
  std::vector<float> line(in_row + kLane), rounded(std::is_same_v<Out, float> ? 0 : row);
  for (std::size_t y = 0; y < to.height; ++y) {
    const In* const first = in + down.first[y] * in_row;
    const float* const weights = down.weights.data() + y * down.count;
    if (down.count == 1)
      blend(first, first, weights[0], 0, in_row, line.data());
    else
      blend(first, first + in_row, weights[0], weights[1], in_row, line.data());
    for (std::size_t k = 2; k < down.count; ++k) add(first + k * in_row, weights[k], in_row, line.data());
    float* target = rounded.data();
    if constexpr (std::is_same_v<Out, float>) target = out + y * row;
    across.resize(line.data(), target);
    if constexpr (!std::is_same_v<Out, float>) round_row(target, row, out + y * row);
  }
}

template void resize(const std::uint8_t*, ImageSize, std::uint8_t*, ImageSize, bool);
template void resize(const std::uint8_t*, ImageSize, float*, ImageSize, bool);
template void resize(const float*, ImageSize, float*, ImageSize, bool);

}  // namespace bushel
