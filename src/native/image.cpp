#include "image.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "cpu.h"
#include "wide.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bushel {

namespace {

// Four channels at a time; the surplus of a pixel with fewer is overwritten by the next pixel.
using Lane = float __attribute__((vector_size(16)));
constexpr std::size_t kLane = 4;

Lane load(const float* p) {
  Lane lane;
  std::memcpy(&lane, p, sizeof lane);
  return lane;
}

void store(float* p, Lane lane) { std::memcpy(p, &lane, sizeof lane); }

// Two neighbours, weighted by distance; beyond the edge, the edge is repeated.
Taps near_taps(std::size_t from, std::size_t to) {
  Taps taps{.count = std::min<std::size_t>(from, 2), .first = {}, .weights = {}};
  taps.first.reserve(to);
  taps.weights.reserve(to * taps.count);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = std::max(0.0, (static_cast<double>(i) + 0.5) * scale - 0.5);
    const std::size_t left = std::min(static_cast<std::size_t>(centre), from - taps.count);
    const double right = taps.count == 1 ? 0.0 : std::min(1.0, centre - static_cast<double>(left));
    taps.first.push_back(left);
    taps.weights.push_back(static_cast<float>(1 - right));
    if (taps.count == 2) taps.weights.push_back(static_cast<float>(right));
  }
  return taps;
}

// All pixels within the scale, weighted by distance; those beyond the edge are left out.
Taps wide_taps(std::size_t from, std::size_t to) {
  Taps taps;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  taps.count = std::min(from, static_cast<std::size_t>(std::ceil(2 * scale)) + 1);
  taps.first.reserve(to);
  taps.weights.reserve(to * taps.count);
  std::vector<double> weights(taps.count);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const double begin = std::max(0.0, std::floor(centre - scale) + 1);
    const double end = std::min(static_cast<double>(from), std::ceil(centre + scale));
    const std::size_t first = std::min(static_cast<std::size_t>(begin), from - taps.count);
    std::fill(weights.begin(), weights.end(), 0.0);
    double sum = 0;
    for (double at = begin; at < end; ++at) {
      const double weight = std::max(0.0, 1 - std::abs(at - centre) / scale);
      weights[std::min(static_cast<std::size_t>(at) - first, taps.count - 1)] += weight;
      sum += weight;
    }
    taps.first.push_back(first);
    for (const double weight : weights) taps.weights.push_back(static_cast<float>(weight / sum));
  }
  return taps;
}

// All pixels within `reach`, weighted by their distance from the centre.
template <typename Weight>
Taps taps_within(std::size_t from, std::size_t to, double reach, Weight weight_of) {
  Taps taps;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  taps.count = std::min(from, static_cast<std::size_t>(std::ceil(2 * reach)) + 1);
  taps.first.reserve(to);
  taps.weights.reserve(to * taps.count);
  std::vector<double> weights(taps.count);
  for (std::size_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const double begin = std::max(0.0, std::ceil(centre - reach));
    const double end = std::min(static_cast<double>(from), std::floor(centre + reach) + 1);
    const std::size_t first = std::min(static_cast<std::size_t>(begin), from - taps.count);
    std::fill(weights.begin(), weights.end(), 0.0);
    double sum = 0;
    for (double at = begin; at < end; ++at) {
      const double weight = weight_of(at - centre);
      weights[std::min(static_cast<std::size_t>(at) - first, taps.count - 1)] += weight;
      sum += weight;
    }
    taps.first.push_back(first);
    for (const double weight : weights) taps.weights.push_back(static_cast<float>(weight / sum));
  }
  return taps;
}

// How much of a pixel at this distance lies within half the scale.
Taps area_taps(std::size_t from, std::size_t to) {
  const double half = static_cast<double>(from) / static_cast<double>(to) / 2;
  return taps_within(from, to, half + 0.5,
                     [half](double x) { return std::max(0.0, std::min(x + 0.5, half) - std::max(x - 0.5, -half)); });
}

Taps cubic_taps(std::size_t from, std::size_t to, bool antialias) {
  const double scale = antialias ? std::max(1.0, static_cast<double>(from) / static_cast<double>(to)) : 1.0;
  return taps_within(from, to, 2 * scale, [scale](double distance) {
    const double x = std::abs(distance) / scale;
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0.0;
  });
}

Taps taps_of(std::size_t from, std::size_t to, bool antialias, Kernel kernel) {
  if (kernel == Kernel::kBicubic) return cubic_taps(from, to, antialias);
  if (kernel == Kernel::kArea && from > to) return area_taps(from, to);
  return antialias && from > to ? wide_taps(from, to) : near_taps(from, to);
}

// In a mirrored output, each coordinate has the weights of the opposite one.
Taps taps_across(std::size_t from, std::size_t to, Scaling scaling, bool mirrored) {
  Taps taps = taps_of(from, to, scaling.antialias, scaling.kernel);
  if (!mirrored) return taps;
  std::reverse(taps.first.begin(), taps.first.end());
  for (std::size_t left = 0, right = to - 1; left < right; ++left, --right)
    std::swap_ranges(taps.weights.begin() + static_cast<std::ptrdiff_t>(left * taps.count),
                     taps.weights.begin() + static_cast<std::ptrdiff_t>((left + 1) * taps.count),
                     taps.weights.begin() + static_cast<std::ptrdiff_t>(right * taps.count));
  return taps;
}

// How many pixels of a row can be written as lanes: a lane may run past the end of a pixel, which the next pixel then
// overwrites, but not past the end of the row.
std::size_t wide_pixels(std::size_t width, std::size_t channels) {
  const std::size_t reach = (channels + kLane - 1) / kLane * kLane, row = width * channels;
  return row < reach ? 0 : (row - reach) / channels + 1;
}

constexpr std::size_t kOctet = 8;
constexpr std::size_t kStreamed = 256 << 10;  // bytes of an image that leaves the cache before it is used

bool is_aligned(const float* p) { return reinterpret_cast<std::uintptr_t>(p) % (kOctet * sizeof(float)) == 0; }

// Empty if the values are too far apart, as when an image shrinks a lot.
std::vector<Octet> octets_of(const Taps& taps, std::size_t width, std::size_t channels) {
  std::vector<Octet> octets(taps.count == 2 ? width * channels / kOctet : 0);
  for (std::size_t at = 0; Octet& octet : octets) {
    std::size_t least = ~std::size_t{0}, most = 0;
    std::size_t places[kOctet];
    for (std::size_t i = 0; i < kOctet; ++i, ++at) {
      const std::size_t x = at / channels;
      places[i] = taps.first[x] * channels + at % channels;
      least = std::min(least, places[i]);
      most = std::max(most, places[i] + channels);
      octet.left_weight[i] = taps.weights[2 * x];
      octet.right_weight[i] = taps.weights[2 * x + 1];
    }
    if (most - least >= 2 * kOctet) return {};
    octet.first = least;
    for (std::size_t i = 0; i < kOctet; ++i) {
      octet.left[i] = static_cast<std::int32_t>(places[i] - least);
      octet.right[i] = octet.left[i] + static_cast<std::int32_t>(channels);
    }
  }
  return octets;
}

#if defined(__x86_64__)
const bool kHasAvx2 = cpu().has_avx2;

// Picks eight of sixteen values by their places.
[[gnu::target("avx2")]] inline __m256 pick(__m256 low, __m256 high, const std::int32_t* places) {
  const __m256i at = _mm256_load_si256(reinterpret_cast<const __m256i*>(places));
  const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(at, 28));  // bit 3 to where a blend looks
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, at), _mm256_permutevar8x32_ps(high, at), is_high);
}

// `streams` bypasses the cache; `out` must then be aligned.
template <bool streams>
[[gnu::target("avx2")]] void blend_octets(const std::vector<Octet>& octets, const float* in, float* out) {
  for (const Octet& octet : octets) {
    const __m256 low = _mm256_loadu_ps(in + octet.first), high = _mm256_loadu_ps(in + octet.first + kOctet);
    const __m256 left = _mm256_mul_ps(pick(low, high, octet.left), _mm256_load_ps(octet.left_weight));
    const __m256 right = _mm256_mul_ps(pick(low, high, octet.right), _mm256_load_ps(octet.right_weight));
    const __m256 sum = _mm256_add_ps(left, right);
    if constexpr (streams)
      _mm256_stream_ps(out, sum);
    else
      _mm256_storeu_ps(out, sum);
    out += kOctet;
  }
}
#else
constexpr bool kHasAvx2 = false;
template <bool streams>
void blend_octets(const std::vector<Octet>&, const float*, float*) {}
#endif

#if defined(__x86_64__)
[[gnu::target("avx2")]] inline __m256 eight_bytes(const std::uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// Returns how many were done.
[[gnu::target("avx2")]] std::size_t blend_eights(const std::uint8_t* a, const std::uint8_t* b, float wa, float wb,
                                                 std::size_t n, float* out) {
  const __m256 left = _mm256_set1_ps(wa), right = _mm256_set1_ps(wb);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 sum = _mm256_add_ps(_mm256_mul_ps(eight_bytes(a + i), left), _mm256_mul_ps(eight_bytes(b + i), right));
    _mm256_storeu_ps(out + i, sum);
  }
  return i;
}
// Many rows at once: sums stay in registers, and are the same to the last bit as row by row.
[[gnu::target("avx2")]] std::size_t sum_eights(const std::uint8_t* rows, std::size_t stride, const float* weights,
                                               std::size_t count, std::size_t n, float* out) {
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const std::uint8_t* at = rows + i;
    __m256 low = _mm256_mul_ps(eight_bytes(at), _mm256_set1_ps(weights[0]));
    __m256 high = _mm256_mul_ps(eight_bytes(at + 8), _mm256_set1_ps(weights[0]));
    for (std::size_t k = 1; k < count; ++k) {
      at += stride;
      const __m256 weight = _mm256_set1_ps(weights[k]);
      low = _mm256_add_ps(low, _mm256_mul_ps(eight_bytes(at), weight));
      high = _mm256_add_ps(high, _mm256_mul_ps(eight_bytes(at + 8), weight));
    }
    _mm256_storeu_ps(out + i, low);
    _mm256_storeu_ps(out + i + 8, high);
  }
  return i;
}
[[gnu::target("avx2")]] inline __m256i eight_rounded(const float* p) {
  return _mm256_cvttps_epi32(_mm256_add_ps(_mm256_loadu_ps(p), _mm256_set1_ps(0.5f)));
}

// Packs two lanes of sixteen bytes, each from its own halves, and restores their order.
[[gnu::target("avx2")]] std::size_t round_many(const float* in, std::size_t n, std::uint8_t* out) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i low = _mm256_packs_epi32(eight_rounded(in + i), eight_rounded(in + i + 8));
    const __m256i high = _mm256_packs_epi32(eight_rounded(in + i + 16), eight_rounded(in + i + 24));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bytes);
  }
  return i;
}
#else
std::size_t round_many(const float*, std::size_t, std::uint8_t*) { return 0; }
std::size_t blend_eights(const std::uint8_t*, const std::uint8_t*, float, float, std::size_t, float*) { return 0; }
std::size_t sum_eights(const std::uint8_t*, std::size_t, const float*, std::size_t, std::size_t, float*) { return 0; }
#endif

void blend(const std::uint8_t* a, const std::uint8_t* b, float wa, float wb, std::size_t n, float* out) {
  for (std::size_t i = kHasAvx2 ? blend_eights(a, b, wa, wb, n, out) : 0; i < n; ++i)
    out[i] = static_cast<float>(a[i]) * wa + static_cast<float>(b[i]) * wb;
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

// One row down: `count` rows of n values by their weights.
template <typename In>
void sum_rows(const In* rows, std::size_t stride, const float* weights, std::size_t count, std::size_t n, float* out) {
  std::size_t done = 0;
  if constexpr (std::is_same_v<In, std::uint8_t>) {
    if (kHasAvx2 && count > 2) done = sum_eights(rows, stride, weights, count, n, out);
  }
  rows += done, out += done, n -= done;
  if (count == 1)
    blend(rows, rows, weights[0], 0, n, out);
  else
    blend(rows, rows + stride, weights[0], weights[1], n, out);
  for (std::size_t k = 2; k < count; ++k) add(rows + k * stride, weights[k], n, out);
}

}  // namespace

Across::Across(Taps taps, std::size_t width, std::size_t channels)
    : taps_(std::move(taps)), width_(width), channels_(channels), wide_(wide_pixels(width, channels)) {
  if (kHasAvx2) octets_ = octets_of(taps_, width, channels);
  if (!octets_.empty() || taps_.count != 2 || channels > kLane) return;
  for (std::size_t x = 0; x < wide_; ++x) {
    pairs_.push_back(taps_.weights[2 * x] + Lane{});
    pairs_.push_back(taps_.weights[2 * x + 1] + Lane{});
  }
}

void Across::resize(const float* in, float* out, bool streams) const {
  if (!octets_.empty()) {
    (streams && is_aligned(out) ? blend_octets<true> : blend_octets<false>)(octets_, in, out);
    resize_values(in, out, octets_.size() * kOctet);
  } else {
    if (pairs_.empty())
      resize_wide(in, out);
    else
      resize_pairs(in, out);
    resize_values(in, out, wide_ * channels_);
  }
}

// Two neighbours, a pixel in one lane.
void Across::resize_pairs(const float* in, float* out) const {
  for (std::size_t x = 0; x < wide_; ++x) {
    const float* const pixel = in + taps_.first[x] * channels_;
    store(out + x * channels_, load(pixel) * pairs_[2 * x] + load(pixel + channels_) * pairs_[2 * x + 1]);
  }
}

void Across::resize_wide(const float* in, float* out) const {
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

// The rest, one by one.
void Across::resize_values(const float* in, float* out, std::size_t from) const {
  for (std::size_t at = from; at < width_ * channels_; ++at) {
    const std::size_t x = at / channels_;
    const float* const pixel = in + taps_.first[x] * channels_ + at % channels_;
    const float* const weights = taps_.weights.data() + x * taps_.count;
    float sum = pixel[0] * weights[0];
    for (std::size_t k = 1; k < taps_.count; ++k) sum += pixel[k * channels_] * weights[k];
    out[at] = sum;
  }
}

Resizer::Resizer(ImageSize from, ImageSize to, Scaling scaling, bool mirrored)
    : from_(from),
      to_(to),
      scaling_(scaling),
      mirrored_(mirrored),
      down_(taps_of(from.height, to.height, scaling.antialias, scaling.kernel)),
      across_(taps_across(from.width, to.width, scaling, mirrored), to.width, to.channels),
      line_(from.row() + Across::kSlack) {}

bool Resizer::fits(ImageSize from, ImageSize to, Scaling scaling, bool mirrored) const {
  return from_ == from && to_ == to && scaling_ == scaling && mirrored_ == mirrored;
}

template <typename In>
void Resizer::make_row(const In* rows, std::size_t stride, std::size_t y, float* out, bool streams) {
  sum_rows(rows, stride, down_.weights.data() + y * down_.count, down_.count, from_.row(), line_.data());
  across_.resize(line_.data(), out, streams);
}

template void Resizer::make_row(const std::uint8_t*, std::size_t, std::size_t, float*, bool);
template void Resizer::make_row(const float*, std::size_t, std::size_t, float*, bool);

// Waiting after each row would mean waiting for memory each time.
void finish_streams() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

bool is_streamed(ImageSize size) { return size.values() * sizeof(float) >= kStreamed; }

void round_values(const float* in, std::size_t n, std::uint8_t* out) {
  for (std::size_t i = kHasAvx2 ? round_many(in, n, out) : 0; i < n; ++i)
    out[i] = static_cast<std::uint8_t>(std::clamp(in[i] + 0.5f, 0.0f, 255.0f));
}

template <typename In, typename Out>
void resize(const In* in, ImageSize from, Out* out, ImageSize to, bool antialias, Kernel kernel) {
  Resizer resizer(from, to, {kernel, antialias});
  std::vector<float> exact(std::is_same_v<Out, float> ? 0 : to.row());
  for (std::size_t y = 0; y < to.height; ++y) {
    const In* const first = in + resizer.first_row(y) * from.row();
    if constexpr (std::is_same_v<Out, float>) {
      resizer.make_row(first, from.row(), y, out + y * to.row(), is_streamed(to));
    } else {
      resizer.make_row(first, from.row(), y, exact.data(), false);
      round_values(exact.data(), to.row(), out + y * to.row());
    }
  }
  finish_streams();
}

template void resize(const std::uint8_t*, ImageSize, std::uint8_t*, ImageSize, bool, Kernel);
template void resize(const std::uint8_t*, ImageSize, float*, ImageSize, bool, Kernel);
template void resize(const float*, ImageSize, float*, ImageSize, bool, Kernel);

}  // namespace bushel
