#include <algorithm>

#include "check.h"
#include "pad.h"

using namespace bushel;

namespace {

const std::vector<std::int32_t> kValues = {1, 2, 3, 4, 5, 6};
const std::vector<std::int64_t> kSplits = {0, 3, 3, 6};
const std::int32_t kFill = -1;

Rows rows() {
  return {{reinterpret_cast<const std::uint8_t*>(kValues.data()), kValues.size() * sizeof(std::int32_t)},
          sizeof(std::int32_t),
          kSplits};
}

const std::uint8_t* fill() { return reinterpret_cast<const std::uint8_t*>(&kFill); }

bool holds(const Buffer& buffer, const std::vector<std::int32_t>& expected) {
  return buffer.size() == expected.size() * sizeof(std::int32_t) &&
         std::equal(expected.begin(), expected.end(), buffer.as<std::int32_t>());
}

}  // namespace

TEST(pad, rows_are_filled_up_or_cut) {
  const Padded longer = pad(rows(), 4, fill());
  CHECK(holds(longer.values, {1, 2, 3, -1, -1, -1, -1, -1, 4, 5, 6, -1}));
  CHECK(std::count(longer.mask.data(), longer.mask.data() + longer.mask.size(), 1) == 6);
  CHECK(holds(pad(rows(), 2, fill()).values, {1, 2, -1, -1, 4, 5}));
  CHECK(pad(rows(), 0, fill()).values.size() == 0);
}

TEST(pad, splits_that_do_not_fit_are_noticed) {
  const std::vector<std::int64_t> beyond = {0, 7}, backwards = {0, 3, 2}, negative = {-1, 2};
  CHECK(rows().is_valid());
  for (const auto& splits : {beyond, backwards, negative}) {
    Rows wrong = rows();
    wrong.splits = splits;
    CHECK(!wrong.is_valid());
  }
}

TEST(pad, bins_are_filled_by_the_longest_first) {
  std::int64_t bins = 0;
  const std::vector<std::int64_t> lengths = {2, 5, 3, 9, 0};
  const std::vector<std::int64_t> bin_of = pack(lengths, 5, bins);
  CHECK(bins == 3);  // 5 | 9, which counts as 5 | 3 and 2
  CHECK(bin_of[0] == bin_of[2]);
  CHECK(bin_of[1] != bin_of[3]);
}

TEST(pad, rows_of_a_bin_lie_side_by_side) {
  const std::vector<std::int64_t> bins = {0, 0, 0};
  const Packed packed = lay_out(rows(), bins, 1, 8, fill());
  CHECK(holds(packed.values, {1, 2, 3, 4, 5, 6, -1, -1}));
  CHECK(holds(packed.segments, {1, 1, 1, 3, 3, 3, 0, 0}));
  CHECK(holds(packed.positions, {0, 1, 2, 0, 1, 2, 0, 0}));
}

TEST(pad, what_does_not_fit_a_bin_is_cut) {
  const std::vector<std::int64_t> bins = {0, 0, 0};
  CHECK(holds(lay_out(rows(), bins, 1, 4, fill()).values, {1, 2, 3, 4}));
}
