#include "build.h"
#include "check.h"
#include "gather.h"
#include "rows.h"

using namespace bushel;
using build::entry;
using build::Exact;
using build::example;
using build::file_of;
using build::ints;

namespace {

const std::vector<Name> kNames{{"i", false, Kind::none}};

std::vector<std::string> some_records() {
  std::vector<std::string> records;
  for (std::int64_t i = 0; i < 40; ++i) records.push_back(example(entry("i", ints({i, 1 << i % 30, -i}))));
  return records;
}

// Cuts a file into pieces of `size` bytes, each in memory of its own or all in one, and finds its records in them.
struct Cut {
  std::string file;
  std::deque<Exact> own;
  std::vector<Bytes> pieces;
  std::vector<Place> places;
  std::vector<std::int64_t> lengths;

  Cut(const std::vector<std::string>& records, std::size_t size, bool is_one) : file(file_of(records)) {
    const Bytes whole{reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
    for (std::size_t at = 0; at < file.size(); at += size) {
      if (!is_one) own.emplace_back(file.substr(at, size));
      pieces.push_back(is_one ? whole.subspan(at, std::min(size, file.size() - at)) : own.back().bytes());
    }
    std::size_t at = 0;
    for (const std::string& record : records) {
      lengths.push_back(static_cast<std::int64_t>(kHeader + record.size() + kFooter));
      for (std::size_t end = at + kHeader + record.size() + kFooter; at < end;) {
        const std::size_t stop = std::min(end, (at / size + 1) * size);
        places.push_back({static_cast<std::uint32_t>(at / size), at % size, stop - at});
        at = stop;
      }
    }
  }
};

}  // namespace

TEST(gather, records_in_pieces_decode_as_those_of_one_file) {
  const std::vector<std::string> records = some_records();
  const Exact file(file_of(records));
  const std::vector<std::string> expected = rows::of(rows::decode_all(file.bytes(), kNames, 1), kNames, records.size());
  for (const bool is_one : {true, false}) {
    for (const std::size_t size : {7, 64, 200, 1000, 100000}) {
      const Cut cut(records, size, is_one);
      Scattered found;
      CHECK(find_scattered(cut.pieces, cut.places, cut.lengths, found));
      const Decoded decoded = decode(found.span, found.extents, kNames, {});
      CHECK(decoded.faults.empty());
      CHECK(rows::of(decoded, kNames, records.size()) == expected);
    }
  }
}

TEST(gather, records_stay_where_they_are_unless_they_are_cut_or_at_an_end) {
  const Cut cut(some_records(), 1000, true);
  Scattered found;
  CHECK(find_scattered(cut.pieces, cut.places, cut.lengths, found));
  CHECK(!found.copies.empty());
  CHECK(found.copies.size() < 20);
}

TEST(gather, ranges_that_are_not_those_of_the_records_are_refused) {
  Cut cut(some_records(), 200, true);
  Scattered found;
  std::vector<Place> places = cut.places;
  places[3].length = 201;
  CHECK(!find_scattered(cut.pieces, places, cut.lengths, found));
  places = cut.places;
  places.pop_back();
  CHECK(!find_scattered(cut.pieces, places, cut.lengths, found));
  cut.lengths[0] = 3;
  CHECK(!find_scattered(cut.pieces, cut.places, cut.lengths, found));
}

TEST(gather, rows_of_several_columns_are_found_by_their_offsets) {
  const std::vector<std::int64_t> one{0, 2, 2, 5}, other{4, 7};
  const std::vector<std::span<const std::int64_t>> columns{one, other};
  const std::vector<std::int64_t> which{1, 0, 0}, rows{0, 2, 1};
  std::vector<Place> found;
  CHECK(find_rows(columns, which, rows, found));
  CHECK(found.size() == 3);
  CHECK(found[0].piece == 1 && found[0].start == 4 && found[0].length == 3);
  CHECK(found[1].piece == 0 && found[1].start == 2 && found[1].length == 3);
  CHECK(found[2].length == 0);
  for (const auto& [column, row] : {std::pair{0, 3}, {1, 1}, {2, 0}, {-1, 0}, {0, -1}}) {
    const std::vector<std::int64_t> of{column}, at{row};
    CHECK(!find_rows(columns, of, at, found));
  }
  const std::vector<std::int64_t> wrong{5, 3}, first{0};
  CHECK(!find_rows({wrong}, first, first, found));
}
