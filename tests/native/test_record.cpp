#include "build.h"
#include "check.h"
#include "crc32c.h"
#include "pause.h"
#include "record.h"

using namespace bushel;
using build::Exact;
using build::file_of;

namespace {

const std::vector<std::string> kRecords = {"", "a", std::string(40, 'x'), "", "the last"};

Scan scan_all(Bytes file) { return scan(file, 0, UINT64_MAX, UINT64_MAX); }

std::string header_of(std::uint64_t length) {
  std::string header(kHeader, '\0');
  auto* p = reinterpret_cast<std::uint8_t*>(header.data());
  store64(p, length);
  store32(p + 8, mask(crc32c_of_u64(length)));
  return header;
}

}  // namespace

TEST(record, an_empty_record_is_these_sixteen_bytes) {
  // As TensorFlow writes it: tests/golden/empty.tfrecord.
  CHECK(build::framed("") == std::string("\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2", 16));
}

TEST(record, a_file_is_scanned_to_its_end) {
  const Exact file(file_of(kRecords));
  const Scan found = scan_all(file.bytes());
  CHECK(found.fault == Fault::none && found.end == file.size() && found.extents.size() == kRecords.size());
  for (std::size_t i = 0; i < found.extents.size(); ++i) {
    const Extent extent = found.extents[i];
    CHECK(build::text(file.bytes().subspan(extent.offset + kHeader, extent.length)) == kRecords[i]);
    CHECK(verify(file.bytes(), extent) == Fault::none);
  }
  CHECK(scan_all({}).extents.empty() && scan_all({}).fault == Fault::none);
}

TEST(record, a_scan_stops_at_its_limits_and_goes_on_from_there) {
  const Exact file(file_of(kRecords));
  const Scan two = scan(file.bytes(), 0, 2, UINT64_MAX);
  CHECK(two.extents.size() == 2 && two.end == 33 && two.fault == Fault::none);
  CHECK(scan(file.bytes(), two.end, UINT64_MAX, UINT64_MAX).extents.size() == 3);
  CHECK(scan(file.bytes(), 0, UINT64_MAX, 17).extents.size() == 2);  // the record that crosses the limit is whole
  CHECK(scan(file.bytes(), file.size(), 5, 5).extents.empty());
}

TEST(record, a_file_cut_anywhere_gives_its_whole_records_and_says_where_it_ends) {
  const std::string whole = file_of(kRecords);
  const Scan all = scan_all(Exact(whole).bytes());
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const Exact file(std::string_view(whole).substr(0, cut));
    const Scan found = scan_all(file.bytes());
    std::size_t before = 0;
    while (before < all.extents.size() && all.extents[before].offset + 16 + all.extents[before].length <= cut) ++before;
    CHECK(found.extents.size() == before);
    const std::uint64_t end = before < all.extents.size() ? all.extents[before].offset : whole.size();
    CHECK(found.end == end);
    const Fault expected = cut == end            ? Fault::none
                           : cut - end < kHeader ? Fault::truncated_header
                                                 : Fault::truncated_data;
    CHECK(found.fault == expected);
  }
}

TEST(record, a_flip_anywhere_is_found_in_its_record_and_costs_no_other) {
  const std::string whole = file_of(kRecords);
  const Scan all = scan_all(Exact(whole).bytes());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Exact file(whole);
    file.data()[at] ^= 0x10;
    std::size_t record = all.extents.size() - 1;
    while (all.extents[record].offset > at) --record;
    const bool in_header = at - all.extents[record].offset < kHeader;
    CHECK(verify(file.bytes(), all.extents[record]) == (in_header ? Fault::length_crc : Fault::data_crc));
    const Scan found = scan_all(file.bytes());
    CHECK(found.fault == (in_header ? Fault::length_crc : Fault::none));
    if (!in_header) continue;
    CHECK(found.extents.size() == record && found.end == all.extents[record].offset);
    const std::uint64_t next = record + 1 < all.extents.size() ? all.extents[record + 1].offset : whole.size();
    CHECK(resynchronise(file.bytes(), found.end + 1) == next);
  }
}

TEST(record, an_extent_that_is_not_the_records_is_refused) {
  const Exact file(file_of(kRecords));
  CHECK(verify(file.bytes(), {0, 1}) == Fault::length_crc);
  CHECK(verify(file.bytes(), {1, 0}) == Fault::length_crc);
  CHECK(verify(file.bytes(), {file.size(), 0}) == Fault::truncated_header);
  CHECK(verify(file.bytes(), {file.size() + 1, 0}) == Fault::truncated_header);
  CHECK(verify(file.bytes(), {UINT64_MAX, UINT64_MAX}) == Fault::truncated_header);
}

TEST(record, resynchronise_wants_both_checksums) {
  // An intact header whose data is not: it must not be taken for a record.
  std::string lure = build::framed("lure");
  lure[14] ^= 1;
  const Exact file("garbage" + lure + "more" + build::framed("found"));
  CHECK(resynchronise(file.bytes(), 0) == 7 + lure.size() + 4);
  CHECK(resynchronise(file.bytes(), file.size()) == file.size());
  CHECK(resynchronise(Exact("short").bytes(), 0) == 5);
}

TEST(record, a_length_above_two_gib_is_too_large_and_the_largest_one_is_only_cut) {
  CHECK(scan_all(Exact(header_of(kMaxRecord + 1)).bytes()).fault == Fault::too_large);
  CHECK(scan_all(Exact(header_of(UINT64_MAX)).bytes()).fault == Fault::too_large);
  CHECK(scan_all(Exact(header_of(kMaxRecord)).bytes()).fault == Fault::truncated_data);
}

TEST(record, headers_that_lead_nowhere_cost_their_own_bytes_and_not_what_they_claim) {
  // 50,000 intact headers in a row, each with a length that reaches to the end: read one by one they are 15 GB.
  constexpr std::size_t kCount = 50000;
  std::string lure;
  for (std::size_t i = 0; i < kCount; ++i) lure += header_of((kCount - i - 1) * kHeader);
  const Exact file(lure + build::framed("found"));
  static std::size_t breaths;
  breaths = 0;
  on_pause = [] { ++breaths; };  // once every few megabytes of work
  CHECK(resynchronise(file.bytes(), 0) == lure.size());
  on_pause = nullptr;
  CHECK(breaths < 8);
}

TEST(record, looking_for_the_next_record_can_be_ended) {
  const Exact file(std::string(std::size_t{16} << 20, 'x'));
  struct Enough {};
  on_pause = [] { throw Enough{}; };
  bool ended = false;
  try {
    resynchronise(file.bytes(), 0);
  } catch (const Enough&) {
    ended = true;
  }
  on_pause = nullptr;
  CHECK(ended);
}

TEST(record, a_record_that_is_taken_in_pieces_has_the_same_checksum) {
  std::string large(std::size_t{40} << 20, '\0');
  build::Random random(7);
  for (std::size_t i = 0; i < large.size(); i += 4096) large[i] = static_cast<char>(random.next());
  Exact file(build::framed(large));
  CHECK(is_intact(file.bytes(), {0, large.size()}));
  file.data()[kHeader + (std::size_t{33} << 20)] ^= 4;
  CHECK(!is_intact(file.bytes(), {0, large.size()}));
}

TEST(record, framing_is_the_header_and_footer_of_each_record_that_is_inside_the_file) {
  const std::string text = build::framed("first") + build::framed("") + build::framed("third one");
  const Exact file(text);
  const std::vector<std::uint64_t> offsets{0, 21, 37};
  const std::vector<std::uint32_t> lengths{5, 0, 9};
  std::string out(3 * (kHeader + kFooter), 0);
  auto* const to = reinterpret_cast<std::uint8_t*>(out.data());
  CHECK(copy_framing(file.bytes(), offsets, lengths, to));
  CHECK(out ==
        text.substr(0, 12) + text.substr(17, 4) + text.substr(21, 16) + text.substr(37, 12) + text.substr(58, 4));
  for (const std::uint64_t offset : {std::uint64_t{38}, std::uint64_t{1000}, ~std::uint64_t{0} - 3})
    CHECK(!copy_framing(file.bytes(), {{offset}}, {{9}}, to));
}
