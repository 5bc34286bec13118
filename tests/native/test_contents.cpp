#include <vector>

#include "check.h"
#include "contents.h"

using namespace bushel;

TEST(contents, rows_are_sorted_by_partition_and_keep_their_order) {
  const std::uint64_t high = std::uint64_t{63} << 58;
  const std::vector<std::uint64_t> hashes = {high, 1, 5, 2, 0, 0, high | 9, 3, 7, 4};
  const std::vector<std::int64_t> labels = {10, 11, 12, 13, 14};
  std::array<std::int64_t, kPartitions> counts;
  const Buffer buffer = partition_contents(hashes, labels, 3, 100, counts);
  const auto* rows = buffer.as<ContentRow>();
  CHECK(buffer.size() == 4 * sizeof(ContentRow) && counts[0] == 2 && counts[63] == 2);
  const std::uint32_t records[] = {101, 104, 100, 103};
  const std::int64_t expected[] = {11, 14, 10, 13};
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(rows[i].record == records[i] && rows[i].label == expected[i] && rows[i].file == 3);
  CHECK(rows[0].hash == 5 && rows[0].check == 2 && rows[3].hash == (high | 9) && rows[3].check == 3);
}

TEST(contents, records_without_labels_have_the_label_0_and_none_have_rows) {
  std::array<std::int64_t, kPartitions> counts;
  const std::vector<std::uint64_t> hashes = {8, 8};
  CHECK(partition_contents(hashes, {}, 0, 0, counts).as<ContentRow>()->label == 0);
  CHECK(partition_contents({}, {}, 0, 0, counts).size() == 0 && counts[0] == 0);
}
