#include "augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "wide.h"

namespace bushel {

namespace {

constexpr float kFull = 255;
constexpr float kRed = 0.299f, kGreen = 0.587f, kBlue = 0.114f;

// Clipped to the range, and rounded to even if it is a byte, as NumPy's rint does: adding a large number rounds.
template <typename T>
[[gnu::always_inline]] inline T pixel_of(float value) {
  if constexpr (std::is_same_v<T, float>) return std::min(std::max(value, 0.0f), kFull);
  constexpr float kRounder = 12582912.0f;
  return static_cast<T>((std::min(kFull, std::max(0.0f, value)) + kRounder) - kRounder);
}

template <typename T>
[[gnu::always_inline]] inline void add_values(T* image, std::size_t n, float number) {
  for (std::size_t i = 0; i < n; ++i) image[i] = pixel_of<T>(static_cast<float>(image[i]) + number);
}

template <typename T>
[[gnu::always_inline]] inline void spread_values(T* image, std::size_t n, float factor, float mean) {
  for (std::size_t i = 0; i < n; ++i) image[i] = pixel_of<T>((static_cast<float>(image[i]) - mean) * factor + mean);
}

// One mean per channel, for three channels.
template <typename T>
[[gnu::always_inline]] inline void spread_colours(T* image, std::size_t pixels, float factor, const float* means) {
  const float red = means[0], green = means[1], blue = means[2];
  for (std::size_t i = 0; i < pixels; ++i) {
    T* const p = image + 3 * i;
    p[0] = pixel_of<T>((static_cast<float>(p[0]) - red) * factor + red);
    p[1] = pixel_of<T>((static_cast<float>(p[1]) - green) * factor + green);
    p[2] = pixel_of<T>((static_cast<float>(p[2]) - blue) * factor + blue);
  }
}

template <typename T>
[[gnu::always_inline]] inline void saturate_colours(T* image, std::size_t pixels, float factor) {
  for (std::size_t i = 0; i < pixels; ++i) {
    T* const p = image + 3 * i;
    const auto red = static_cast<float>(p[0]), green = static_cast<float>(p[1]), blue = static_cast<float>(p[2]);
    const float grey = red * kRed + green * kGreen + blue * kBlue;
    p[0] = pixel_of<T>((red - grey) * factor + grey);
    p[1] = pixel_of<T>((green - grey) * factor + grey);
    p[2] = pixel_of<T>((blue - grey) * factor + grey);
  }
}

template <typename T>
[[gnu::always_inline]] inline void turn_colours(T* image, std::size_t pixels, const float* m) {
  for (std::size_t i = 0; i < pixels; ++i) {
    T* const p = image + 3 * i;
    const auto red = static_cast<float>(p[0]), green = static_cast<float>(p[1]), blue = static_cast<float>(p[2]);
    p[0] = pixel_of<T>(red * m[0] + green * m[1] + blue * m[2]);
    p[1] = pixel_of<T>(red * m[3] + green * m[4] + blue * m[5]);
    p[2] = pixel_of<T>(red * m[6] + green * m[7] + blue * m[8]);
  }
}

// One function per type, since templates cannot be cloned.
BUSHEL_WIDE void brighten(std::uint8_t* image, std::size_t n, float number) { add_values(image, n, number); }
BUSHEL_WIDE void brighten(float* image, std::size_t n, float number) { add_values(image, n, number); }
BUSHEL_WIDE void spread(std::uint8_t* image, std::size_t n, float f, float mean) { spread_values(image, n, f, mean); }
BUSHEL_WIDE void spread(float* image, std::size_t n, float f, float mean) { spread_values(image, n, f, mean); }
BUSHEL_WIDE void spread3(std::uint8_t* image, std::size_t n, float f, const float* m) {
  spread_colours(image, n, f, m);
}
BUSHEL_WIDE void spread3(float* image, std::size_t n, float f, const float* m) { spread_colours(image, n, f, m); }
BUSHEL_WIDE void saturate(std::uint8_t* image, std::size_t n, float factor) { saturate_colours(image, n, factor); }
BUSHEL_WIDE void saturate(float* image, std::size_t n, float factor) { saturate_colours(image, n, factor); }
BUSHEL_WIDE void turn_hue(std::uint8_t* image, std::size_t n, const float* m) { turn_colours(image, n, m); }
BUSHEL_WIDE void turn_hue(float* image, std::size_t n, const float* m) { turn_colours(image, n, m); }

// Row by row, so that sums of floats stay small.
template <typename T>
std::vector<float> means_of(const T* image, ImageSize size) {
  using Sum = std::conditional_t<std::is_same_v<T, float>, float, std::uint32_t>;
  std::vector<double> sums(size.channels, 0.0);
  for (std::size_t y = 0; y < size.height; ++y)
    for (std::size_t c = 0; c < size.channels; ++c) {
      const T* const row = image + y * size.row() + c;
      Sum sum = 0;
      for (std::size_t x = 0; x < size.width; ++x) sum += row[x * size.channels];
      sums[c] += static_cast<double>(sum);
    }
  std::vector<float> means;
  for (const double sum : sums)
    means.push_back(static_cast<float>(sum / static_cast<double>(size.height * size.width)));
  return means;
}

template <typename T>
void contrast(T* image, ImageSize size, float factor) {
  const std::vector<float> means = means_of(image, size);
  if (size.channels == 1) return spread(image, size.values(), factor, means[0]);
  if (size.channels == 3) return spread3(image, size.height * size.width, factor, means.data());
  for (std::size_t i = 0; i < size.values(); ++i) spread(image + i, 1, factor, means[i % size.channels]);
}

template <typename T>
void flip(T* image, ImageSize size, bool down, bool across) {
  for (std::size_t top = 0, bottom = size.height - 1; down && top < bottom; ++top, --bottom)
    std::swap_ranges(image + top * size.row(), image + (top + 1) * size.row(), image + bottom * size.row());
  for (std::size_t y = 0; across && y < size.height; ++y) {
    T* const row = image + y * size.row();
    for (std::size_t left = 0, right = size.width - 1; left < right; ++left, --right)
      std::swap_ranges(row + left * size.channels, row + (left + 1) * size.channels, row + right * size.channels);
  }
}

// Where the pixels of a rotated image come from: one point per pixel.
struct Rotation {
  double a, b, c, d, e, f;

  // Counterclockwise by this many degrees about the centre, as Pillow computes it.
  Rotation(double degrees, ImageSize size) {
    const double angle = -degrees * (std::numbers::pi / 180);
    const double middle_x = static_cast<double>(size.width) / 2, middle_y = static_cast<double>(size.height) / 2;
    const auto rounded = [](double v) { return std::nearbyint(v * 1e15) / 1e15; };
    a = rounded(std::cos(angle));
    b = rounded(std::sin(angle));
    d = rounded(-std::sin(angle));
    e = rounded(std::cos(angle));
    c = -a * middle_x - b * middle_y + middle_x;
    f = -d * middle_x - e * middle_y + middle_y;
  }
};

// Interpolates one pixel between four; the edge is repeated beyond itself.
template <typename T, std::size_t most>
inline void blend_pixel(const T* in, ImageSize size, double x, double y, T* out) {
  x -= 0.5, y -= 0.5;
  const double floor_x = std::floor(x), floor_y = std::floor(y);
  const double right = x - floor_x, below = y - floor_y;
  const auto clipped = [](double v, std::size_t n) {
    return std::min(static_cast<std::size_t>(std::max(v, 0.0)), n - 1);
  };
  const std::size_t x0 = clipped(floor_x, size.width) * size.channels;
  const std::size_t x1 = clipped(floor_x + 1, size.width) * size.channels;
  const T* const upper = in + clipped(floor_y, size.height) * size.row();
  const T* const lower =
      floor_y + 1 < static_cast<double>(size.height) ? in + clipped(floor_y + 1, size.height) * size.row() : upper;
  for (std::size_t c = 0; c < (most ? most : size.channels); ++c) {
    const double u0 = upper[x0 + c], u1 = upper[x1 + c], l0 = lower[x0 + c], l1 = lower[x1 + c];
    const double v1 = u0 + (u1 - u0) * right, v2 = l0 + (l1 - l0) * right;
    out[c] = static_cast<T>(v1 + (v2 - v1) * below);
  }
}

template <typename T, std::size_t most>
void rotate(const T* in, ImageSize size, const Rotation& r, T fill, T* out) {
  const auto width = static_cast<double>(size.width), height = static_cast<double>(size.height);
  for (std::size_t y = 0; y < size.height; ++y)
    for (std::size_t x = 0; x < size.width; ++x, out += size.channels) {
      const double at_x = static_cast<double>(x) + 0.5, at_y = static_cast<double>(y) + 0.5;
      const double from_x = r.a * at_x + r.b * at_y + r.c, from_y = r.d * at_x + r.e * at_y + r.f;
      if (from_x < 0 || from_x >= width || from_y < 0 || from_y >= height)
        std::fill_n(out, size.channels, fill);
      else
        blend_pixel<T, most>(in, size, from_x, from_y, out);
    }
}

template <typename T>
void rotate(T* image, ImageSize size, double degrees, double fill, std::vector<T>& spare) {
  const double turned = std::fmod(std::fmod(degrees, 360) + 360, 360);
  if (turned == 0) return;
  if (turned == 180) return flip(image, size, true, true);
  spare.assign(image, image + size.values());
  const Rotation rotation(degrees, size);
  const auto colour = static_cast<T>(std::clamp(fill, 0.0, 255.0));
  if (size.channels == 3) return rotate<T, 3>(spare.data(), size, rotation, colour, image);
  if (size.channels == 1) return rotate<T, 1>(spare.data(), size, rotation, colour, image);
  rotate<T, 0>(spare.data(), size, rotation, colour, image);
}

template <typename T>
void cutout(T* image, ImageSize size, const double* numbers) {
  const auto within = [](double v, std::size_t n) {
    return static_cast<std::size_t>(std::clamp(v, 0.0, static_cast<double>(n)));
  };
  const std::size_t top = within(numbers[0], size.height), bottom = within(numbers[2], size.height);
  const std::size_t left = within(numbers[1], size.width), right = std::max(left, within(numbers[3], size.width));
  for (std::size_t y = top; y < bottom; ++y)
    std::fill_n(image + y * size.row() + left * size.channels, (right - left) * size.channels,
                static_cast<T>(std::clamp(numbers[4], 0.0, 255.0)));
}

template <typename T>
void shift(T* image, ImageSize size, const double* numbers, std::vector<T>& spare) {
  // Comparisons that are false for NaN, which must not become an integer.
  const auto within = [](double v, std::size_t n) {
    const auto most = static_cast<double>(n);
    return static_cast<std::ptrdiff_t>(v > -most ? std::min(v, most) : -most);
  };
  const std::ptrdiff_t down = within(numbers[0], size.height), across = within(numbers[1], size.width);
  if (down == 0 && across == 0) return;
  const auto height = static_cast<std::ptrdiff_t>(size.height), width = static_cast<std::ptrdiff_t>(size.width);
  const auto channels = static_cast<std::ptrdiff_t>(size.channels);
  const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, -across), end = std::min(width, width - across);
  spare.assign(image, image + size.values());
  for (std::ptrdiff_t y = 0; y < height; ++y) {
    const T* const from = spare.data() + std::clamp<std::ptrdiff_t>(y + down, 0, height - 1) * width * channels;
    T* const to = image + y * width * channels;
    for (std::ptrdiff_t x = 0; x < begin; ++x) std::copy_n(from, channels, to + x * channels);
    if (begin < end) std::copy_n(from + (begin + across) * channels, (end - begin) * channels, to + begin * channels);
    for (std::ptrdiff_t x = end; x < width; ++x)
      std::copy_n(from + (width - 1) * channels, channels, to + x * channels);
  }
}

}  // namespace

std::size_t number_count(Change change) {
  switch (change) {
    case Change::flip:
    case Change::rotate:
    case Change::shift:
      return 2;
    case Change::hue:
      return 9;
    case Change::cutout:
      return 5;
    default:
      return 1;
  }
}

template <typename T>
void change_image(T* image, ImageSize size, Change change, const double* numbers, std::vector<T>& spare) {
  const auto number = static_cast<float>(numbers[0]);
  switch (change) {
    case Change::flip:
      return flip(image, size, numbers[0] != 0, numbers[1] != 0);
    case Change::brightness:
      return brighten(image, size.values(), number);
    case Change::contrast:
      return contrast(image, size, number);
    case Change::saturation:
      return saturate(image, size.height * size.width, number);
    case Change::hue: {
      float matrix[9];
      std::transform(numbers, numbers + 9, matrix, [](double v) { return static_cast<float>(v); });
      return turn_hue(image, size.height * size.width, matrix);
    }
    case Change::rotate:
      return rotate(image, size, numbers[0], numbers[1], spare);
    case Change::cutout:
      return cutout(image, size, numbers);
    case Change::shift:
      return shift(image, size, numbers, spare);
  }
}

template void change_image(std::uint8_t*, ImageSize, Change, const double*, std::vector<std::uint8_t>&);
template void change_image(float*, ImageSize, Change, const double*, std::vector<float>&);

namespace {

template <typename T>
[[gnu::always_inline]] inline void mix(const T* one, const T* other, std::size_t n, float share, float* out) {
  const float rest = 1 - share;
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(one[i]) * share + static_cast<float>(other[i]) * rest;
}

BUSHEL_WIDE void mix_row(const std::uint8_t* a, const std::uint8_t* b, std::size_t n, float s, float* out) {
  mix(a, b, n, s, out);
}
BUSHEL_WIDE void mix_row(const float* a, const float* b, std::size_t n, float s, float* out) { mix(a, b, n, s, out); }

}  // namespace

template <typename T>
void mix_rows(const T* in, std::size_t values, std::span<const std::int64_t> partners, std::span<const double> shares,
              float* out) {
  for (std::size_t row = 0; row < partners.size(); ++row)
    mix_row(in + row * values, in + static_cast<std::size_t>(partners[row]) * values, values,
            static_cast<float>(shares[row]), out + row * values);
}

template void mix_rows(const std::uint8_t*, std::size_t, std::span<const std::int64_t>, std::span<const double>,
                       float*);
template void mix_rows(const float*, std::size_t, std::span<const std::int64_t>, std::span<const double>, float*);

void paste_rows(const std::uint8_t* in, ImageSize size, std::span<const std::int64_t> partners,
                std::span<const Part> parts, std::uint8_t* out) {
  if (size.values() > 0) std::memcpy(out, in, partners.size() * size.values());
  for (std::size_t row = 0; row < partners.size(); ++row) {
    const std::uint8_t* const other = in + static_cast<std::size_t>(partners[row]) * size.values();
    const Part& part = parts[row];
    for (std::size_t y = part.top; y < part.top + part.height; ++y) {
      const std::size_t at = y * size.row() + part.left * size.channels;
      std::memcpy(out + row * size.values() + at, other + at, part.width * size.channels);
    }
  }
}

}  // namespace bushel
