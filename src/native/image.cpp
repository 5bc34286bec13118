#include "image.h"

#include <algorithm>
#include <cmath>

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

void resize_row(const float* in, std::size_t channels, const Taps& taps, std::size_t width, float* out) {
  const float* weights = taps.weights.data();
  for (std::size_t x = 0; x < width; ++x, weights += taps.count, out += channels) {
    const float* pixel = in + taps.first[x] * channels;
    for (std::size_t c = 0; c < channels; c += kLane) {
      Lane sum = load(pixel + c) * weights[0];
      for (std::size_t k = 1; k < taps.count; ++k) sum += load(pixel + k * channels + c) * weights[k];
      store(out + c, sum);
    }
  }
}

float to_value(float value, float*) { return value; }
std::uint8_t to_value(float value, std::uint8_t*) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5f, 0.0f, 255.0f));
}

}  // namespace

template <typename In, typename Out>
void resize(const In* in, ImageSize from, Out* out, ImageSize to, bool antialias) {
  const Taps across = taps_of(from.width, to.width, antialias), down = taps_of(from.height, to.height, antialias);
  const std::size_t in_row = from.width * from.channels, row = to.width * to.channels, stride = row + kLane;
  std::vector<float> line(in_row + kLane), sum(row);
  // Rows that were resized across, each kept until the output has passed it.
  std::vector<float> kept(down.count * stride);
  std::vector<std::size_t> holds(down.count, SIZE_MAX);
  for (std::size_t y = 0; y < to.height; ++y) {
    for (std::size_t k = 0; k < down.count; ++k) {
      const std::size_t wanted = down.first[y] + k, slot = wanted % down.count;
      float* const resized = kept.data() + slot * stride;
      if (holds[slot] != wanted) {
        const In* const source = in + wanted * in_row;
        for (std::size_t i = 0; i < in_row; ++i) line[i] = static_cast<float>(source[i]);
        resize_row(line.data(), from.channels, across, to.width, resized);
        holds[slot] = wanted;
      }
      const float weight = down.weights[y * down.count + k];
      if (k == 0)
        for (std::size_t i = 0; i < row; ++i) sum[i] = resized[i] * weight;
      else
        for (std::size_t i = 0; i < row; ++i) sum[i] += resized[i] * weight;
    }
    for (std::size_t i = 0; i < row; ++i) out[y * row + i] = to_value(sum[i], out);
  }
}

template void resize(const std::uint8_t*, ImageSize, std::uint8_t*, ImageSize, bool);
template void resize(const std::uint8_t*, ImageSize, float*, ImageSize, bool);
template void resize(const float*, ImageSize, float*, ImageSize, bool);

}  // namespace bushel
