#include "build.h"
#include "check.h"
#include "rows.h"

using namespace bushel;
using build::entry;
using build::Exact;
using build::example;
using build::framed;
using build::ints;

namespace {

// A column with its own memory.
struct Owned {
  Name name;
  std::vector<std::int64_t> numbers, ends, splits, step_splits;
  std::vector<float> floats;
  std::string data;
  std::vector<std::uint8_t> present;
  std::size_t width = 1;

  ColumnView view() const {
    ColumnView view;
    view.name = name.text;
    view.sequence = name.sequence;
    view.kind = name.kind;
    view.ints = numbers.data();
    view.floats = floats.data();
    view.ends = ends.data();
    view.data = reinterpret_cast<const std::uint8_t*>(data.data());
    view.splits = splits.empty() ? nullptr : splits.data();
    view.width = width;
    view.present = present.empty() ? nullptr : present.data();
    view.step_splits = step_splits.empty() ? nullptr : step_splits.data();
    return view;
  }
};

void add_value(Owned& column, build::Random& random) {
  if (column.name.kind == Kind::int64s) column.numbers.push_back(random.any_int());
  if (column.name.kind == Kind::floats) column.floats.push_back(static_cast<float>(random.any_int()));
  if (column.name.kind != Kind::bytes) return;
  column.data += random.any_text(random.one_in(10) ? 300 : 6);
  column.ends.push_back(static_cast<std::int64_t>(column.data.size()));
}

Owned random_column(std::string name, std::size_t rows, build::Random& random) {
  Owned column;
  column.name = {std::move(name), random.one_in(3), static_cast<Kind>(1 + random.below(3))};
  column.ends.push_back(0);
  std::size_t features = rows;
  if (column.name.sequence) {
    column.step_splits.push_back(0);
    for (std::size_t row = 0; row < rows; ++row)
      column.step_splits.push_back(column.step_splits.back() + static_cast<std::int64_t>(random.below(4)));
    features = static_cast<std::size_t>(column.step_splits.back());
  }
  const bool ragged = random.one_in(2);
  column.width = random.below(4);
  if (ragged) column.splits.push_back(0);
  const bool some_absent = ragged && random.one_in(2);
  std::int64_t values = 0;
  for (std::size_t i = 0; i < features; ++i) {
    const bool here = !some_absent || !random.one_in(3);
    const std::size_t count = !here ? 0 : ragged ? random.below(6) : column.width;
    for (std::size_t v = 0; v < count; ++v) add_value(column, random);
    values += static_cast<std::int64_t>(count);
    if (ragged) column.splits.push_back(values);
    if (some_absent) column.present.push_back(here);
  }
  return column;
}

std::string record_of(const std::vector<ColumnView>& columns) { return rows::bytes_of(encode(columns, 1, 1)); }

}  // namespace

TEST(encode, features_are_written_in_bytewise_order_whatever_the_order_given) {
  const std::int64_t one = 1, two = 2;
  ColumnView a, b;
  a.name = "a";
  b.name = "\xc3\xa9";
  a.kind = b.kind = Kind::int64s;
  a.ints = &one;
  b.ints = &two;
  const std::string expected = framed(example(entry("a", ints({1})) + entry("\xc3\xa9", ints({2}))));
  CHECK(record_of({a, b}) == expected && record_of({b, a}) == expected);
}

TEST(encode, no_columns_and_no_rows_are_records_too) {
  CHECK(record_of({}) == framed(""));
  CHECK(rows::bytes_of(encode({}, 0, 4)).empty());
}

TEST(encode, an_empty_list_is_written_and_an_absent_feature_is_not) {
  const std::int64_t splits[] = {0, 0, 0};
  const std::uint8_t present[] = {1, 0};
  ColumnView column;
  column.name = "x";
  column.kind = Kind::floats;
  column.splits = splits;
  column.present = present;
  const Encoded encoded = encode({column}, 2, 1);
  CHECK(rows::bytes_of(encoded) == framed(example(entry("x", build::floats({})))) + framed(""));
}

TEST(encode, lengths_of_every_size_of_varint_are_right) {
  for (const std::size_t size :
       {0, 1, 100, 110, 120, 126, 127, 128, 129, 130, 16370, 16383, 16384, 16400, 2097151, 2097152}) {
    const std::string value(size, 'x');
    const std::int64_t ends[] = {0, static_cast<std::int64_t>(size)};
    ColumnView column;
    column.name = "x";
    column.kind = Kind::bytes;
    column.ends = ends;
    column.data = reinterpret_cast<const std::uint8_t*>(value.data());
    CHECK(record_of({column}) == framed(example(entry("x", build::strings({value})))));
  }
}

TEST(encode, a_record_above_two_gib_is_refused_by_its_row_before_memory_is_asked_for) {
  // Sizes are taken from the ends alone, so no such memory is needed to try it.
  const std::int64_t ends[] = {0, 1, std::int64_t{1} << 31};
  const std::uint8_t data = 0;
  ColumnView column;
  column.name = "x";
  column.kind = Kind::bytes;
  column.ends = ends;
  column.data = &data;
  const Encoded encoded = encode({column}, 2, 2);
  CHECK(encoded.too_large && encoded.too_large_row == 1);
}

TEST(encode, any_columns_come_back_as_they_were_for_any_number_of_threads) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    build::Random random(seed);
    const std::size_t count = random.below(50);
    std::vector<Owned> columns;
    std::vector<ColumnView> views;
    std::vector<Name> names;
    for (std::size_t c = random.below(6); c > 0; --c) {
      columns.push_back(random_column(std::to_string(c) + random.any_text(12), count, random));
      names.push_back(columns.back().name);
    }
    for (const Owned& column : columns) views.push_back(column.view());
    const Encoded encoded = encode(views, count, 1), again = encode(views, count, 3);
    CHECK(rows::bytes_of(encoded) == rows::bytes_of(again));
    const Exact file(rows::bytes_of(encoded));
    const Scan found = scan(file.bytes(), 0, UINT64_MAX, UINT64_MAX);
    CHECK(found.fault == Fault::none && found.extents.size() == count);
    for (std::size_t row = 0; row < found.extents.size(); ++row)
      CHECK(encoded.lengths.as<std::uint64_t>()[row] == found.extents[row].length);
    const Decoded decoded = rows::decode_all(file.bytes(), names);
    CHECK(decoded.faults.empty());
    for (const Column& column : decoded.columns) CHECK(rows::is_sound(column));
    std::vector<ColumnView> back;
    for (std::size_t c = 0; c < names.size(); ++c)
      if (decoded.columns[c].kind != Kind::none || names[c].sequence) {
        back.push_back(rows::view(decoded.columns[c], names[c]));
        if (back.back().kind == Kind::none) back.back().kind = names[c].kind;
        CHECK(decoded.columns[c].kind == names[c].kind || decoded.columns[c].values == 0);
      }
    CHECK(rows::bytes_of(encode(back, count, 1)) == build::text(file.bytes()));
  }
}

TEST(encode, many_records_at_once_are_those_of_one_at_a_time_in_any_order) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    build::Random random(seed);
    const std::size_t count = 16 + random.below(50);
    std::vector<Owned> columns;
    std::vector<ColumnView> views;
    for (std::size_t c = 1 + random.below(8); c > 0; --c)
      columns.push_back(random_column(std::to_string(c) + random.any_text(40), count, random));
    for (const Owned& column : columns) views.push_back(column.view());
    std::vector<std::string> alone;
    for (std::int64_t row = 0; row < static_cast<std::int64_t>(count); ++row)
      alone.push_back(rows::bytes_of(encode(views, 1, 1, &row)));
    std::vector<std::int64_t> order;
    std::string expected, in_sequence;
    for (std::size_t i = 0; i < count + 9; ++i) {
      order.push_back(static_cast<std::int64_t>(random.below(count)));
      expected += alone[static_cast<std::size_t>(order.back())];
    }
    for (const std::string& record : alone) in_sequence += record;
    CHECK(rows::bytes_of(encode(views, count, 1)) == in_sequence);
    for (const std::size_t threads : {1, 3})
      CHECK(rows::bytes_of(encode(views, order.size(), threads, order.data())) == expected);
  }
}

TEST(encode, texts_around_the_longest_that_one_byte_tells_are_right_among_many) {
  std::string data;
  std::vector<std::int64_t> ends = {0};
  std::string expected;
  for (std::size_t size = 100; size < 140; ++size) {
    const std::string value(size, static_cast<char>(size));
    data += value;
    ends.push_back(static_cast<std::int64_t>(data.size()));
    expected += framed(example(entry("x", build::strings({value}))));
  }
  ColumnView column;
  column.name = "x";
  column.kind = Kind::bytes;
  column.ends = ends.data();
  column.data = reinterpret_cast<const std::uint8_t*>(data.data());
  CHECK(rows::bytes_of(encode({column}, ends.size() - 1, 1)) == expected);
}
