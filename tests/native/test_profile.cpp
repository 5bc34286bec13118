#include <algorithm>
#include <cmath>
#include <limits>

#include "build.h"
#include "check.h"
#include "profile.h"

using namespace bushel;
using build::entry;
using build::example;
using build::floats;
using build::ints;
using build::strings;

namespace {

ProfileRows add_to(Profile& profile, const std::vector<std::string>& records, std::uint32_t file = 0,
                   std::uint64_t first = 0) {
  const build::Exact exact(build::file_of(records));
  return profile.add(exact.bytes(), scan(exact.bytes(), 0, UINT64_MAX, UINT64_MAX).extents, file, first);
}

ProfileRequest hashing(std::vector<std::string> identity = {}) {
  ProfileRequest request;
  request.identity = std::move(identity);
  request.hashes = true;
  return request;
}

const FeatureProfile& feature(const Profile& profile, std::string_view name) {
  for (const FeatureProfile& found : profile.features())
    if (found.name == name) return found;
  std::abort();
}

bool same(const Sightings& a, const Sightings& b) {
  if (a.count != b.count || a.first.size() != b.first.size()) return false;
  for (std::size_t i = 0; i < a.first.size(); ++i)
    if (a.first[i].file != b.first[i].file || a.first[i].record != b.first[i].record) return false;
  return true;
}

bool same(const FeatureProfile& a, const FeatureProfile& b) {
  return a.records == b.records && a.values == b.values && a.kinds == b.kinds && a.lengths.counts == b.lengths.counts &&
         a.min_count == b.min_count && a.max_count == b.max_count && same(a.nans, b.nans) &&
         same(a.infinities, b.infinities) && a.finite == b.finite && a.zeros == b.zeros && a.min == b.min &&
         a.max == b.max && a.at_min == b.at_min && a.at_max == b.at_max && a.scalars.counts == b.scalars.counts &&
         a.positions == b.positions && (!a.positions || a.position_min == b.position_min) && a.formats == b.formats &&
         a.texts == b.texts && a.numeric_texts == b.numeric_texts && same(a.empty, b.empty) &&
         same(a.padded, b.padded) && same(a.not_text, b.not_text) && a.sizes.counts == b.sizes.counts &&
         a.texts_by_hash == b.texts_by_hash;
}

std::string any_record(build::Random& random) {
  std::string entries;
  if (!random.one_in(4)) entries += entry("i", ints({random.any_int() % 7, random.any_int() % 5}));
  if (!random.one_in(4)) entries += entry("label", ints({static_cast<std::int64_t>(random.below(3))}));
  if (!random.one_in(3)) {
    const float odd[] = {0.0f, -1.5f, NAN, std::numeric_limits<float>::infinity(), 3e30f, 7.0f};
    entries += entry("f", floats({odd[random.below(6)], odd[random.below(6)], odd[random.below(6)]}));
  }
  if (!random.one_in(3))
    entries += entry("t", strings({std::vector<std::string>{"a ", "7", "", "word"}[random.below(4)]}));
  return example(entries);
}

// One value, mostly of few kinds, so that it waits for others; now and then something that cannot.
std::string any_value(build::Random& random, std::uint64_t distinct) {
  const float odd[] = {NAN, -std::numeric_limits<float>::infinity(), 3e38f, -0.0f};
  const std::string texts[] = {"", " padded", "\x01", "7.5", "a text of more than sixteen bytes", "\xff\xd8\xff\xe0"};
  const std::uint64_t n = random.below(distinct);
  switch (random.below(40)) {
    case 0:
      return floats({odd[random.below(4)]});
    case 1:
      return ints({random.any_int(), 5});
    case 2:
      return strings({texts[random.below(6)]});
    case 3:
      return strings({"two", "texts"});
    case 4:
      return ints({INT64_MIN + static_cast<std::int64_t>(n)});
    default:
      break;
  }
  const std::uint64_t kind = distinct % 3;
  if (kind == 0) return floats({static_cast<float>(n) - 3});
  if (kind == 1) return ints({static_cast<std::int64_t>(n) - 3});
  return strings({"text " + std::to_string(n)});
}

}  // namespace

TEST(profile, numbers_are_counted_and_the_extremes_are_finite) {
  Profile profile({});
  const float infinity = std::numeric_limits<float>::infinity();
  add_to(profile, {example(entry("f", floats({1, 0, NAN, -2}))), example(entry("f", floats({infinity, -2, 5, 5})))}, 3);
  const FeatureProfile& f = feature(profile, "f");
  CHECK(f.records == 2 && f.values == 8 && f.finite == 6 && f.zeros == 1 && f.nans.count == 1 &&
        f.infinities.count == 1);
  CHECK(f.min == -2 && f.at_min == 2 && f.max == 5 && f.at_max == 2 && f.sum == 7);
  CHECK(f.nans.first[0].file == 3 && f.nans.first[0].record == 0 && f.infinities.first[0].record == 1);
  CHECK(f.max_place.record == 1 && f.min_place.record == 0);
  CHECK(f.positions && f.position_min.size() == 4 && f.position_min[1] == -2 && f.position_max[3] == 5);
}

TEST(profile, values_that_are_all_infinite_have_no_extremes) {
  Profile profile({});
  add_to(profile, {example(entry("f", floats({std::numeric_limits<float>::infinity()})))});
  CHECK(feature(profile, "f").finite == 0 && feature(profile, "f").at_min == 0 && feature(profile, "f").at_max == 0);
}

TEST(profile, the_ends_of_int64_are_counted_where_a_double_cannot_hold_them) {
  Profile profile({});
  add_to(profile, {example(entry("i", ints({INT64_MAX, INT64_MAX, INT64_MIN, 0})))});
  CHECK(feature(profile, "i").at_max == 2 && feature(profile, "i").at_min == 1 && feature(profile, "i").zeros == 1);
}

TEST(profile, numbers_too_large_to_be_squared_are_finite) {
  Profile profile({});
  add_to(profile, {example(entry("f", floats({3e38f, -3e38f})))});
  CHECK(feature(profile, "f").finite == 2 && feature(profile, "f").infinities.count == 0);
  CHECK(feature(profile, "f").max == static_cast<double>(3e38f));
}

TEST(profile, text_is_told_from_bytes_and_what_is_odd_about_it_is_counted) {
  Profile profile({});
  add_to(profile, {example(entry("t", strings({"word"}))), example(entry("t", strings({"12.5e-3"}))),
                   example(entry("t", strings({" padded"}))), example(entry("t", strings({""}))),
                   example(entry("t", strings({"\x01"}))), example(entry("t", strings({"\xff\xd8\xff\xe0"})))});
  const FeatureProfile& t = feature(profile, "t");
  CHECK(t.texts == 3 && t.numeric_texts == 1 && t.padded.count == 1 && t.empty.count == 1 && t.not_text.count == 2);
  CHECK(t.min_size == 0 && t.max_size == 7 && t.formats[static_cast<std::size_t>(Format::jpeg)] == 1);
  CHECK(t.padded.first[0].record == 2 && t.not_text.first[0].record == 4);
  CHECK(t.texts_by_hash.size() == 3);
}

TEST(profile, columns_hold_a_scalar_a_record_and_say_where_there_is_none) {
  ProfileRequest request;
  request.columns = {"label", "name", "share"};
  Profile profile(request);
  const ProfileRows rows = add_to(profile, {example(entry("label", ints({7})) + entry("name", strings({"a"}))),
                                            example(entry("label", ints({1, 2}))),
                                            example(entry("name", strings({"a"})) + entry("share", floats({0.5f})))});
  CHECK(rows.columns[0][0] == 7 && rows.columns[0][1] == kMissing && rows.columns[0][2] == kMissing);
  CHECK(rows.columns[1][0] == rows.columns[1][2] && rows.columns[1][1] == kMissing);
  CHECK(rows.columns[2][2] == std::bit_cast<std::int64_t>(0.5));
}

TEST(profile, content_is_hashed_without_what_only_names_it_and_in_any_order) {
  Profile profile(hashing({"id"}));
  const std::string x = entry("x", ints({1, 2, 3})), y = entry("y", floats({1}));
  const ProfileRows rows =
      add_to(profile, {example(x + y + entry("id", ints({1}))), example(y + entry("id", ints({2})) + x),
                       example(entry("x", ints({1, 2, 4})) + y), example(entry("z", ints({1, 2, 3})))});
  const std::vector<std::uint64_t>& h = rows.hashes;
  CHECK(h.size() == 8 && h[0] == h[2] && h[1] == h[3] && h[0] != h[4] && h[1] != h[5] && h[0] != h[6]);
}

TEST(profile, a_record_at_fault_leaves_nothing_of_itself) {
  Profile profile({});
  const std::string bad = example(entry("i", ints({100})) + entry("j", "\x1a\x05"));
  const ProfileRows rows = add_to(profile, {example(entry("i", ints({1}))), bad}, 2, 40);
  CHECK(rows.faults.size() == 1 && rows.faults[0].row == 1 && rows.faults[0].fault == Fault::malformed);
  CHECK(profile.records() == 1 && feature(profile, "i").max == 1 && profile.malformed().first[0].record == 41);
  std::string damaged = build::file_of({example(entry("i", ints({100})))});
  damaged[kHeader + 3] ^= 1;
  const build::Exact file(damaged);
  const ProfileRows more = profile.add(file.bytes(), scan(file.bytes(), 0, 9, UINT64_MAX).extents, 2, 42);
  CHECK(more.faults.size() == 1 && more.faults[0].fault == Fault::data_crc && profile.records() == 1);
}

TEST(profile, places_and_distinct_values_are_capped_and_counts_are_not) {
  Profile profile({});
  std::vector<std::string> records;
  for (std::int64_t i = 0; i < 200; ++i) records.push_back(example(entry("i", ints({i})) + entry("f", floats({NAN}))));
  add_to(profile, records);
  CHECK(feature(profile, "f").nans.count == 200 && feature(profile, "f").nans.first.size() == kShown);
  CHECK(feature(profile, "i").scalars.full && feature(profile, "i").scalars.counts.size() == kTally);
}

TEST(profile, a_sample_of_the_values_stays_bounded) {
  Profile profile({});
  std::vector<std::string> records;
  for (int i = 0; i < 200; ++i) records.push_back(example(entry("f", floats(std::vector<float>(128, 1.0f)))));
  add_to(profile, records);
  const std::size_t kept = feature(profile, "f").sample.values.size();
  CHECK(kept >= kSample / 2 && kept <= 2 * kSample);
}

TEST(profile, two_profiles_merged_are_one_over_all_records) {
  build::Random random(7);
  std::vector<std::string> records;
  for (int i = 0; i < 120; ++i) records.push_back(any_record(random));
  for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{59}, records.size()}) {
    Profile whole(hashing({"label"})), first(hashing({"label"})), second(hashing({"label"}));
    const auto middle = records.begin() + static_cast<std::ptrdiff_t>(cut);
    add_to(whole, records);
    add_to(first, {records.begin(), middle});
    add_to(second, {middle, records.end()}, 0, cut);
    first.merge(second);
    CHECK(first.records() == whole.records() && same(first.empty(), whole.empty()));
    CHECK(first.signatures().counts == whole.signatures().counts);
    for (const FeatureProfile& expected : whole.features()) CHECK(same(feature(first, expected.name), expected));
  }
}

TEST(profile, values_that_are_counted_together_count_as_if_each_came_alone) {
  build::Random random(11);
  for (const std::uint64_t distinct : {3, 4, 5, 63, 64, 65, 300, 301, 302}) {
    std::vector<std::string> records;
    for (int i = 0; i < 1500; ++i)
      records.push_back(example(entry("some", any_value(random, distinct)) +
                                (random.one_in(20) ? "" : entry("other", ints({random.any_int() % 7})))));
    Profile together(hashing()), alone(hashing());
    const ProfileRows rows = add_to(together, records, 2);
    for (std::size_t i = 0; i < records.size(); ++i) {
      const ProfileRows row = add_to(alone, {records[i]}, 2, i);
      CHECK(row.hashes[0] == rows.hashes[2 * i] && row.hashes[1] == rows.hashes[2 * i + 1]);
    }
    CHECK(together.save() == alone.save());
  }
}

TEST(profile, the_first_of_zeros_of_both_signs_is_the_extreme) {
  build::Random random(12);
  for (int round = 0; round < 8; ++round) {
    std::vector<std::string> records;
    for (int i = 0; i < 300; ++i)
      records.push_back(example(entry("a", floats({random.one_in(9) ? (random.one_in(2) ? -0.0f : 0.0f) : 1.0f}))));
    Profile together(hashing()), alone(hashing());
    add_to(together, records, 2);
    for (std::size_t i = 0; i < records.size(); ++i) add_to(alone, {records[i]}, 2, i);
    CHECK(together.save() == alone.save());
  }
}

TEST(profile, sizes_are_counted_until_there_are_too_many) {
  std::vector<std::string> records(20, example(entry("a", strings({"text"}))));
  for (std::size_t size = 1; size <= 70; ++size)
    records.push_back(example(entry("a", strings({std::string(size, '\xff')}))));
  records.insert(records.end(), records.begin(), records.begin() + 20);
  Profile profile(hashing());
  add_to(profile, records);
  const Tally& sizes = profile.features()[0].sizes;
  CHECK(sizes.full && sizes.counts.at(4) == 21 && sizes.counts.at(5) == 1);
}

TEST(profile, contents_of_any_size_have_different_hashes) {
  Profile profile(hashing());
  std::vector<std::string> records;
  for (std::int64_t i = 0; i < 20000; ++i)
    records.push_back(example(entry("a", ints({i % 100})) + entry("b", ints({(i / 100) << (i % 50)})) +
                              entry("c", strings({std::string(static_cast<std::size_t>(i % 24), 'c')}))));
  const ProfileRows rows = add_to(profile, records);
  std::vector<std::uint64_t> first, second;
  for (std::size_t i = 0; i < records.size(); ++i) {
    first.push_back(rows.hashes[2 * i]);
    second.push_back(rows.hashes[2 * i + 1]);
  }
  std::sort(records.begin(), records.end());
  const auto distinct = std::unique(records.begin(), records.end()) - records.begin();
  for (std::vector<std::uint64_t>* hashes : {&first, &second}) {
    std::sort(hashes->begin(), hashes->end());
    CHECK(std::unique(hashes->begin(), hashes->end()) - hashes->begin() == distinct);
  }
}

TEST(profile, records_of_more_kinds_than_are_told_apart_can_be_merged_again_and_again) {
  Profile first({}), second({}), all({});
  for (int i = 0; i < 100; ++i) {
    add_to(first, {example(entry("a" + std::to_string(i), ints({1})))});
    add_to(second, {example(entry("b" + std::to_string(i), ints({1})))});
  }
  first.merge(second);
  all.merge(first);
  CHECK(all.records() == 200 && all.signatures().full && all.signatures().counts.size() == kTally);
  CHECK(all.signature_names().size() == kTally);
}

TEST(profile, records_that_differ_only_in_what_names_them_are_of_two_kinds) {
  Profile first(hashing({"id", "key"})), second(hashing({"id", "key"}));
  add_to(first, {example(entry("id", ints({1})))});
  add_to(second, {example(entry("key", ints({1})))});
  first.merge(second);
  CHECK(first.signatures().counts.size() == 2);
}
