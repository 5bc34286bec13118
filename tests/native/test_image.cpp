#include <algorithm>
#include <cmath>

#include "check.h"
#include "image.h"

using namespace bushel;

TEST(image, a_flat_image_stays_flat_at_any_size) {
  for (const std::size_t channels : {1u, 2u, 3u, 4u, 5u})
    for (const std::size_t side : {1u, 2u, 3u, 17u})
      for (const std::size_t target : {1u, 2u, 5u, 40u})
        for (const bool antialias : {false, true}) {
          const std::vector<std::uint8_t> in(side * side * channels, 100);
          std::vector<std::uint8_t> bytes(target * target * channels, 0);
          std::vector<float> floats(bytes.size(), 0);
          resize(in.data(), {side, side, channels}, bytes.data(), {target, target, channels}, antialias);
          resize(in.data(), {side, side, channels}, floats.data(), {target, target, channels}, antialias);
          CHECK(std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t v) { return v == 100; }));
          CHECK(std::all_of(floats.begin(), floats.end(), [](float v) { return v > 99.99f && v < 100.01f; }));
        }
}

TEST(image, the_same_size_gives_the_same_pixels) {
  std::vector<float> in(7 * 5 * 3), out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 37 % 256);
  resize(in.data(), {7, 5, 3}, out.data(), {7, 5, 3}, false);
  CHECK(in == out);
}

TEST(image, half_the_size_is_the_mean_of_neighbours) {
  const std::vector<std::uint8_t> in = {0, 10, 20, 30};
  std::vector<float> out(2);
  resize(in.data(), {1, 4, 1}, out.data(), {1, 2, 1}, false);
  CHECK(out[0] == 5 && out[1] == 25);
}

// Written down from the definition, one value at a time.
float plain_value(const std::vector<std::uint8_t>& in, ImageSize from, ImageSize to, std::size_t y, std::size_t x,
                  std::size_t c) {
  const auto near = [](std::size_t i, std::size_t n, std::size_t m, std::size_t& left, std::size_t& right) {
    const double at = std::max(0.0, (double(i) + 0.5) * double(n) / double(m) - 0.5);
    left = std::min(std::size_t(at), n - 1);
    right = std::min(left + 1, n - 1);
    return float(std::min(1.0, at - double(left)));
  };
  std::size_t top, bottom, left, right;
  const float down = near(y, from.height, to.height, top, bottom), across = near(x, from.width, to.width, left, right);
  const auto at = [&](std::size_t row, std::size_t column) {
    return float(in[(row * from.width + column) * from.channels + c]);
  };
  return (at(top, left) * (1 - across) + at(top, right) * across) * (1 - down) +
         (at(bottom, left) * (1 - across) + at(bottom, right) * across) * down;
}

TEST(image, every_value_is_that_of_the_definition_whatever_the_size) {
  for (const std::size_t channels : {1u, 2u, 3u, 4u, 5u, 9u})
    for (const std::size_t side : {1u, 2u, 9u, 31u, 64u})
      for (const std::size_t target : {1u, 3u, 8u, 33u, 57u, 130u}) {
        const ImageSize from{side, side + 1, channels}, to{target, target + 2, channels};
        std::vector<std::uint8_t> in(from.height * from.width * channels);
        for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
        std::vector<float> out(to.height * to.width * channels);
        resize(in.data(), from, out.data(), to, false);
        float worst = 0;
        for (std::size_t i = 0; i < out.size(); ++i) {
          const std::size_t pixel = i / channels;
          const float expected = plain_value(in, from, to, pixel / to.width, pixel % to.width, i % channels);
          worst = std::max(worst, std::abs(out[i] - expected));
        }
        CHECK(worst < 0.01f);
      }
}

TEST(image, a_flat_image_stays_flat_with_every_kernel) {
  for (const Kernel kernel : {Kernel::kArea, Kernel::kBicubic})
    for (const std::size_t side : {1u, 2u, 3u, 17u})
      for (const std::size_t target : {1u, 2u, 5u, 40u})
        for (const bool antialias : {false, true}) {
          const std::vector<std::uint8_t> in(side * side * 3, 100);
          std::vector<float> out(target * target * 3, 0);
          resize(in.data(), {side, side, 3}, out.data(), {target, target, 3}, antialias, kernel);
          CHECK(std::all_of(out.begin(), out.end(), [](float v) { return v > 99.99f && v < 100.01f; }));
        }
}

TEST(image, an_area_is_the_mean_of_what_it_covers_parts_of_pixels_too) {
  const std::vector<std::uint8_t> in = {0, 10, 20, 30, 40};
  std::vector<float> out(2);
  resize(in.data(), {1, 5, 1}, out.data(), {1, 2, 1}, false, Kernel::kArea);
  CHECK(std::abs(out[0] - (0 + 10 + 20 * 0.5f) / 2.5f) < 1e-4f);
  CHECK(std::abs(out[1] - (20 * 0.5f + 30 + 40) / 2.5f) < 1e-4f);
}

TEST(image, a_large_image_is_the_same_wherever_it_is_written) {
  const ImageSize from{256, 256, 3}, to{224, 224, 3};
  const std::size_t count = to.height * to.width * to.channels;
  std::vector<std::uint8_t> in(from.height * from.width * from.channels);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i * 7919 >> 3);
  Buffer aligned(count * sizeof(float)), other((count + 1) * sizeof(float));
  resize(in.data(), from, aligned.as<float>(), to, false);
  resize(in.data(), from, other.as<float>() + 1, to, false);
  CHECK(std::memcmp(aligned.data(), other.data() + sizeof(float), count * sizeof(float)) == 0);
}
