#include <algorithm>
#include <numeric>
#include <vector>

#include "build.h"
#include "check.h"
#include "sort.h"

using namespace bushel;

namespace {

std::vector<std::int64_t> order_of(const std::vector<std::uint64_t>& keys, std::size_t threads) {
  std::vector<std::int64_t> order(keys.size());
  sort_order(keys, threads, order.data());
  return order;
}

std::vector<std::int64_t> expected(const std::vector<std::uint64_t>& keys) {
  std::vector<std::int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
  });
  return order;
}

}  // namespace

TEST(sort, nothing_one_key_and_equal_keys_keep_their_order) {
  CHECK(order_of({}, 2).empty());
  CHECK(order_of({7}, 2) == std::vector<std::int64_t>{0});
  CHECK(order_of({5, 5, 5, 4, 5}, 2) == std::vector<std::int64_t>({3, 0, 1, 2, 4}));
  CHECK(order_of({UINT64_MAX, 0, UINT64_MAX, 1}, 1) == std::vector<std::int64_t>({1, 3, 0, 2}));
}

TEST(sort, keys_of_any_spread_come_in_order_and_equal_ones_as_they_were) {
  build::Random random(1);
  for (const std::size_t count : {2, 100, 3000, 150000})
    for (const std::uint64_t spread : {std::uint64_t{1}, std::uint64_t{10}, std::uint64_t{1} << 20, UINT64_MAX}) {
      std::vector<std::uint64_t> keys;
      for (std::size_t i = 0; i < count; ++i) keys.push_back(static_cast<std::uint64_t>(random.any_int()) % spread);
      CHECK(order_of(keys, 1) == expected(keys));
      CHECK(order_of(keys, 3) == expected(keys));
    }
}
