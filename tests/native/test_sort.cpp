#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "build.h"
#include "check.h"
#include "hash.h"
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

std::vector<std::uint64_t> hashes_of(std::size_t count, std::uint64_t spread) {
  build::Random random(2);
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i < count; ++i) hashes.push_back(static_cast<std::uint64_t>(random.any_int()) % spread);
  return hashes;
}

std::vector<std::int64_t> drawn_of(const std::vector<std::uint64_t>& hashes, const std::vector<std::int64_t>* rows,
                                   Effort effort) {
  std::vector<std::int64_t> out(rows ? rows->size() : hashes.size());
  CHECK(order_drawn({hashes, rows ? rows->data() : nullptr, out.size()}, 7, effort, out.data()));
  return out;
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

TEST(sort, rows_come_in_the_order_of_their_draws_whatever_the_threads_and_how_many_at_once) {
  for (const std::size_t count : {0, 1, 2, 3000, 150000})
    for (const std::uint64_t spread : {std::uint64_t{1}, std::uint64_t{1000}, UINT64_MAX}) {
      const std::vector<std::uint64_t> hashes = hashes_of(count, spread);
      std::vector<std::uint64_t> draws, some_draws;
      std::vector<std::int64_t> some;
      for (const std::uint64_t hash : hashes) draws.push_back(xxh64(hash, 7));
      for (std::size_t row = count; row-- > 0;)
        if (row % 3) some.push_back(static_cast<std::int64_t>(row)), some_draws.push_back(draws[row]);
      std::vector<std::int64_t> some_expected;
      for (const std::int64_t at : expected(some_draws)) some_expected.push_back(some[static_cast<std::size_t>(at)]);
      for (const Effort effort : {Effort{1}, Effort{3}, Effort{3, 1000}, Effort{1, 1}}) {
        CHECK(drawn_of(hashes, nullptr, effort) == expected(draws));
        CHECK(drawn_of(hashes, &some, effort) == some_expected);
      }
    }
}

TEST(sort, a_row_that_is_not_there_is_refused_before_anything_is_written) {
  const std::vector<std::uint64_t> hashes{5, 6};
  for (const std::int64_t row : {std::int64_t{2}, std::int64_t{-1}, INT64_MIN, INT64_MAX}) {
    const std::vector<std::int64_t> rows{0, row};
    std::vector<std::int64_t> out{8, 9};
    CHECK(!order_drawn({hashes, rows.data(), rows.size()}, 7, {2}, out.data()));
    CHECK(out == std::vector<std::int64_t>({8, 9}));
  }
}

TEST(sort, repeated_hashes_are_found_once_each_in_order) {
  for (const std::size_t count : {0, 1, 3000, 150000})
    for (const std::uint64_t spread : {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{1} << 33, UINT64_MAX}) {
      std::vector<std::uint64_t> hashes = hashes_of(count, spread), repeats;
      if (count > 1) hashes.front() = hashes.back() = UINT64_MAX;
      std::vector<std::uint64_t> sorted = hashes;
      std::sort(sorted.begin(), sorted.end());
      for (std::size_t i = 1; i < count; ++i)
        if (sorted[i] == sorted[i - 1] && (repeats.empty() || repeats.back() != sorted[i]))
          repeats.push_back(sorted[i]);
      for (const Effort effort : {Effort{1}, Effort{3}, Effort{3, 1000}, Effort{1, 1}})
        CHECK(find_repeated(hashes, effort) == repeats);
    }
}

TEST(sort, an_order_is_inverted_and_places_outside_are_refused) {
  const auto inverted = [](const std::vector<std::int64_t>& order, std::size_t size, std::size_t threads) {
    std::vector<std::int64_t> out(size, 7);
    CHECK(invert(order, threads, out));
    return out;
  };
  CHECK(inverted({}, 0, 2).empty());
  CHECK(inverted({}, 2, 2) == std::vector<std::int64_t>({-1, -1}));
  CHECK(inverted({3, 0}, 4, 1) == std::vector<std::int64_t>({1, -1, -1, 0}));
  const std::vector<std::int64_t> order = expected(hashes_of(150000, UINT64_MAX)), back = inverted(order, 150001, 3);
  for (std::size_t i = 0; i < order.size(); ++i)
    CHECK(back[static_cast<std::size_t>(order[i])] == static_cast<std::int64_t>(i));
  CHECK(back.back() == -1);
  std::vector<std::int64_t> out(2);
  for (const std::int64_t outside : {std::int64_t{2}, std::int64_t{-1}, INT64_MIN})
    CHECK(!invert(std::vector<std::int64_t>{0, outside}, 1, out));
}

TEST(sort, rows_are_numbered_with_as_many_digits_as_they_need) {
  for (const std::uint64_t first : {0, 7, 95, 98765})
    for (const std::size_t count : {0, 1, 20, 2000}) {
      const std::string prefix = "a:";
      const NumberKeys keys =
          make_number_keys(first, count, {reinterpret_cast<const std::uint8_t*>(prefix.data()), prefix.size()});
      const std::int64_t* offsets = keys.offsets.as<std::int64_t>();
      CHECK(offsets[0] == 0 && static_cast<std::size_t>(offsets[count]) == keys.data.size());
      for (std::size_t i = 0; i < count; ++i)
        CHECK(std::string(keys.data.data() + offsets[i], keys.data.data() + offsets[i + 1]) ==
              prefix + std::to_string(first + i));
    }
}
