#include <algorithm>

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
