#include "build.h"
#include "check.h"
#include "rows.h"

using namespace bushel;
using build::entry;
using build::Exact;
using build::example;
using build::file_of;
using build::ints;

namespace {

const Name kInt{"i", false, Kind::none}, kFloat{"f", false, Kind::none}, kText{"b", false, Kind::none},
    kList{"s", true, Kind::none};

std::string int_record(const std::vector<std::int64_t>& values) { return example(entry("i", ints(values))); }

std::vector<std::string> rows_of(const std::vector<std::string>& records, const std::vector<Name>& names,
                                 std::size_t threads = 1) {
  const Exact file(file_of(records));
  const Decoded decoded = rows::decode_all(file.bytes(), names, threads);
  for (const Column& column : decoded.columns) CHECK(rows::is_sound(column));
  return rows::of(decoded, names, records.size());
}

std::string random_feature(build::Random& random, Kind kind, std::size_t width) {
  const std::size_t count = random.one_in(8) ? random.below(5) : width;
  if (kind == Kind::bytes) {
    std::vector<std::string> values(count);
    for (std::string& value : values) value = random.any_text(9);
    return build::strings(values);
  }
  if (kind == Kind::floats) return build::floats(std::vector<float>(count, static_cast<float>(random.below(100))));
  std::vector<std::int64_t> values(count);
  for (std::int64_t& value : values) value = random.any_int();
  return ints(values);
}

// Mostly what a file holds; now and then absent, of another kind, of another width, or malformed.
std::string random_record(build::Random& random, bool mostly_absent) {
  std::string entries, lists;
  const auto feature = [&](Kind kind, std::size_t width) {
    if (random.one_in(25)) return std::string();
    if (random.one_in(30)) return std::string("\x1a\x03\x0a\x01\x80", 5);
    if (random.one_in(30)) return build::field(3, build::field(1, std::string(10, '\x81') + '\x01'));
    return random_feature(random, random.one_in(20) ? static_cast<Kind>(1 + random.below(3)) : kind, width);
  };
  if (!random.one_in(mostly_absent ? 2 : 20)) entries += entry("i", feature(Kind::int64s, 3));
  if (!random.one_in(mostly_absent ? 2 : 20)) entries += entry("f", feature(Kind::floats, 1));
  if (!random.one_in(mostly_absent ? 2 : 20)) entries += entry("b", feature(Kind::bytes, 1));
  if (!random.one_in(5)) {
    std::vector<std::string> steps(random.below(4));
    const Kind kind = static_cast<Kind>(1 + (random.one_in(10) ? random.below(3) : 0));
    for (std::string& step : steps) step = feature(kind, 2);
    lists = build::lists(entry("s", build::steps(steps)));
  }
  return example(entries) + lists;
}

}  // namespace

TEST(columns, values_of_one_width_are_dense) {
  std::vector<std::string> records;
  for (int i = 0; i < 100; ++i)
    records.push_back(example(entry("f", build::floats({1.5f, float(i)})) + entry("i", ints({i}))));
  const Exact file(file_of(records));
  const Decoded decoded = rows::decode_all(file.bytes(), {kFloat, kInt});
  const Column &f = decoded.columns[0], &i = decoded.columns[1];
  CHECK(f.uniform && f.width == 2 && f.rows == 100 && f.values == 200 && !f.splits.data() && !f.present.data());
  CHECK(i.uniform && i.width == 1 && i.kind == Kind::int64s);
  CHECK(reinterpret_cast<std::uintptr_t>(f.numbers.data()) % 64 == 0);
  for (int row = 0; row < 100; ++row) {
    CHECK(f.numbers.as<float>()[2 * row] == 1.5f && f.numbers.as<float>()[2 * row + 1] == float(row));
    CHECK(i.numbers.as<std::int64_t>()[row] == row);
  }
}

TEST(columns, values_of_many_widths_are_ragged_wherever_the_first_other_width_comes) {
  for (std::size_t odd = 0; odd < 60; odd += 7) {
    std::vector<std::string> records(60, int_record({1, 2}));
    records[odd] = int_record({3, 4, 5});
    const auto found = rows_of(records, {kInt});
    for (std::size_t row = 0; row < 60; ++row) CHECK(found[row] == (row == odd ? "3[3,4,5,];" : "3[1,2,];"));
  }
}

TEST(columns, absent_rows_are_told_from_empty_lists) {
  CHECK(rows_of({int_record({1}), int_record({}), example(""), example(entry("i", "")), ""}, {kInt}) ==
        std::vector<std::string>({"3[1,];", "3[];", "absent;", "absent;", "absent;"}));
}

TEST(columns, a_feature_that_no_record_has_is_of_no_kind) {
  const Exact file(file_of({int_record({1}), int_record({2})}));
  const Decoded decoded = rows::decode_all(file.bytes(), {kText});
  CHECK(decoded.columns[0].kind == Kind::none && decoded.columns[0].rows == 2 && decoded.faults.empty());
}

TEST(columns, bytes_are_one_buffer_and_its_ends) {
  const Exact file(
      file_of({example(entry("b", build::strings({"x", ""}))), example(entry("b", build::strings({"yz"})))}));
  const Decoded decoded = rows::decode_all(file.bytes(), {kText});
  const Column& column = decoded.columns[0];
  CHECK(column.values == 3 && column.data.size() == 3 && std::memcmp(column.data.data(), "xyz", 3) == 0);
  CHECK(rows::is_sound(column));
}

TEST(columns, feature_lists_keep_their_steps) {
  const std::string two = build::lists(entry("s", build::steps({ints({1}), ints({2, 3})})));
  const std::string none = build::lists(entry("s", ""));
  CHECK(rows_of({two, none, "", two}, {kList}) ==
        std::vector<std::string>({"{3[1,];3[2,3,];};", "{};", "{};", "{3[1,];3[2,3,];};"}));
}

TEST(columns, a_record_at_fault_fails_alone) {
  const std::string good = example(entry("i", ints({1})) + entry("b", build::strings({"ok"})));
  const std::string other = example(entry("i", build::floats({1})) + entry("b", build::strings({"lost"})));
  const std::string eleven = example(entry("i", build::field(3, build::field(1, std::string(10, '\x81') + '\x01'))) +
                                     entry("b", build::strings({"x"})));
  for (const std::size_t threads : {1, 3}) {
    const auto found = rows_of({good, "\x0a\x05", good, other, good, eleven, good}, {kInt, kText}, threads);
    CHECK(found[1] == "fault 6 in -1" && found[3] == "fault 7 in 0" && found[5] == "fault 6 in 0");
    for (const std::size_t row : {0, 2, 4, 6}) CHECK(found[row] == "3[1,];1[<ok>];");
  }
}

TEST(columns, a_fault_in_a_list_of_bytes_leaves_the_values_around_it_alone) {
  const std::string good = build::lists(entry("s", build::steps({build::strings({"ab"}), build::strings({"c"})})));
  const std::string bad =
      build::lists(entry("s", build::steps({build::strings({"long before the fault"}), ints({1})})));
  for (const std::size_t threads : {1, 3})
    CHECK(rows_of({good, bad, good}, {kList}, threads) ==
          std::vector<std::string>({"{1[<ab>];1[<c>];};", "fault 7 in 0", "{1[<ab>];1[<c>];};"}));
}

TEST(columns, damage_is_found_where_it_is_and_what_it_looked_like_counts_for_nothing) {
  std::vector<std::string> records(40, example(entry("i", ints({7, 8, 9, 10}))));
  const std::string whole = file_of(records);
  const std::size_t record = whole.size() / 40;
  for (std::size_t at = kHeader; at < record; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      Exact file(whole);
      file.data()[at] ^= static_cast<std::uint8_t>(1 << bit);
      const Decoded decoded = rows::decode_all(file.bytes(), {kInt});
      const auto found = rows::of(decoded, {kInt}, 40);
      CHECK(found[0] == "fault 4 in -1" && decoded.faults.size() == 1 && found[1] == "3[7,8,9,10,];");
    }
  }
}

TEST(columns, damage_of_large_records_is_found_too) {
  std::vector<std::string> records;
  for (int i = 0; i < 20; ++i)
    records.push_back(
        example(entry("b", build::strings({std::string(8000, static_cast<char>('a' + i))})) + entry("i", ints({i}))));
  const std::string whole = file_of(records);
  const std::size_t size = whole.size() / 20;
  for (const std::size_t row : {0, 1, 7, 19}) {
    for (const std::size_t inside : {kHeader, kHeader + 5, kHeader + 4000, size - 3, size - 5}) {
      Exact file(whole);
      file.data()[row * size + inside] ^= 0x08;
      for (const std::size_t threads : {1, 3}) {
        const Decoded decoded = rows::decode_all(file.bytes(), {kText, kInt}, threads);
        CHECK(decoded.faults.size() == 1 && decoded.faults[0].row == row && decoded.faults[0].fault == Fault::data_crc);
        const auto found = rows::of(decoded, {kText, kInt}, 20);
        for (std::size_t i = 0; i < 20; ++i)
          if (i != row)
            CHECK(found[i] ==
                  "1[<" + std::string(8000, static_cast<char>('a' + i)) + ">];3[" + std::to_string(i) + ",];");
      }
    }
  }
}

TEST(columns, without_verification_only_what_cannot_be_read_is_at_fault) {
  std::string file = file_of({int_record({1}), int_record({2})});
  file[file.size() - 1] ^= 1;
  CHECK(rows::decode_all(Exact(file).bytes(), {kInt}, 1, false).faults.empty());
  CHECK(rows::decode_all(Exact(file).bytes(), {kInt}, 1, true).faults.size() == 1);
}

TEST(columns, extents_that_do_not_fit_the_file_are_faults_and_not_read) {
  const Exact file(file_of({int_record({1})}));
  const std::vector<Extent> extents = {{0, 14},          {0, 15},  {5, UINT64_MAX}, {UINT64_MAX, 1},
                                       {file.size(), 0}, {30, 14}, {0, 3}};
  const Decoded decoded = decode(file.bytes(), extents, {kInt}, {});
  CHECK(decoded.faults.size() == 6 && decoded.faults[0].row == 1);
  CHECK(decoded.faults[1].fault == Fault::too_large && decoded.faults[2].fault == Fault::truncated_header);
}

TEST(columns, a_kind_that_is_asked_for_is_demanded) {
  const Exact file(file_of({example(entry("i", build::floats({1}))), int_record({2})}));
  const Decoded decoded = rows::decode_all(file.bytes(), {{"i", false, Kind::int64s}});
  CHECK(decoded.faults.size() == 1 && decoded.faults[0].row == 0 && decoded.faults[0].fault == Fault::wrong_kind);
}

TEST(columns, the_first_kind_is_the_columns_for_any_number_of_threads) {
  // The first records lack the feature, and the first that has it is in the first thread's part.
  std::vector<std::string> records(64, example(""));
  records[20] = int_record({1});
  for (std::size_t row = 21; row < 64; ++row)
    records[row] = row % 2 ? example(entry("i", build::floats({2}))) : int_record({3});
  const auto one = rows_of(records, {kInt}, 1);
  CHECK(one[20] == "3[1,];" && one[21] == "fault 7 in 0" && one[22] == "3[3,];");
  for (const std::size_t threads : {2, 3, 5}) CHECK(rows_of(records, {kInt}, threads) == one);
}

TEST(columns, any_records_decode_alike_for_any_number_of_threads) {
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    build::Random random(seed);
    std::vector<std::string> records(random.below(seed % 3 ? 40 : 200));
    for (std::string& record : records) record = random_record(random, seed % 4 == 0);
    std::string whole = file_of(records);
    if (!whole.empty() && seed % 5 == 0) whole[whole.size() - 1] ^= 1;
    const Exact file(whole);
    const std::vector<Name> names = {kInt, kFloat, kText, kList};
    const Decoded one = rows::decode_all(file.bytes(), names, 1), three = rows::decode_all(file.bytes(), names, 3);
    for (const Column& column : one.columns) CHECK(rows::is_sound(column));
    for (const Column& column : three.columns) CHECK(rows::is_sound(column));
    CHECK(rows::of(one, names, records.size()) == rows::of(three, names, records.size()));
  }
}

TEST(columns, names_not_asked_for_are_told_sorted_and_once) {
  const Exact file(
      file_of({int_record({1}), example(entry("z", "") + entry("y", ints({1}))) + build::lists(entry("i", ""))}));
  const Scan found = scan(file.bytes(), 0, UINT64_MAX, UINT64_MAX);
  for (const std::size_t threads : {1, 2}) {
    const Decoded decoded = decode(file.bytes(), found.extents, {kInt}, {true, threads, true});
    CHECK(decoded.others.size() == 3 && decoded.others[0].text == "y" && decoded.others[1].text == "z");
    CHECK(decoded.others[2].text == "i" && decoded.others[2].sequence);
  }
}
