#include <algorithm>
#include <numeric>

#include "check.h"
#include "order.h"

using namespace bushel;

namespace {

std::vector<std::int64_t> places(std::uint64_t size, std::uint64_t key) {
  std::vector<std::int64_t> positions(size);
  std::iota(positions.begin(), positions.end(), 0);
  Permutation(size, key).apply(positions);
  return positions;
}

}  // namespace

TEST(order, every_place_is_taken_once) {
  for (const std::uint64_t size : {1u, 2u, 3u, 7u, 8u, 9u, 255u, 256u, 257u, 1000u, 65'537u}) {
    std::vector<std::int64_t> taken = places(size, size * 31 + 7);
    std::sort(taken.begin(), taken.end());
    bool all = true;
    for (std::uint64_t i = 0; i < size; ++i) all = all && taken[i] == static_cast<std::int64_t>(i);
    CHECK(all);
  }
}

TEST(order, a_position_alone_goes_where_it_goes_among_others) {
  const std::vector<std::int64_t> together = places(1000, 5);
  for (const std::int64_t position : {0, 1, 499, 999}) {
    std::int64_t alone = position;
    Permutation(1000, 5).apply({&alone, 1});
    CHECK(alone == together[static_cast<std::size_t>(position)]);
  }
}

TEST(order, the_largest_sizes_stay_inside) {
  const std::uint64_t size = std::uint64_t{1} << 62;
  std::vector<std::int64_t> positions = {0, 1, static_cast<std::int64_t>(size - 1)};
  Permutation(size, 9).apply(positions);
  for (const std::int64_t place : positions) CHECK(place >= 0 && static_cast<std::uint64_t>(place) < size);
}

TEST(order, keys_give_other_orders) { CHECK(places(100, 1) != places(100, 2)); }
