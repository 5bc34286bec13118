#include "build.h"
#include "check.h"
#include "example.h"

using namespace bushel;
using build::entry;
using build::Exact;
using build::example;
using build::field;
using build::ints;
using namespace std::string_literals;
using namespace std::string_view_literals;

namespace {

// All features and lists of one message as text, sorted by when they were first met; "malformed" if it is.
std::string parsed(std::string_view message) {
  const Exact exact(message);
  Locator locator({}, Locator::Others::add);
  if (!locator.locate(exact.bytes())) return "malformed";
  std::string out;
  bool readable = true;
  const auto put = [&](Slice slice) {
    Feature feature;
    if (!feature.open(slice, exact.bytes())) return void(readable = false);
    if (feature.kind() == Kind::int64s) {
      std::vector<std::int64_t> values(feature.count());
      readable = feature.fill(values.data()) && readable;
      for (const std::int64_t value : values) out += std::to_string(value) + " ";
    } else if (feature.kind() == Kind::floats) {
      std::vector<float> values(feature.count());
      feature.fill(values.data());
      for (const float value : values) out += std::to_string(static_cast<int>(value)) + "f ";
    } else if (feature.kind() == Kind::bytes) {
      feature.for_each_bytes([&](Bytes value) { out += "'" + std::string(build::text(value)) + "' "; });
    } else {
      out += "none ";
    }
  };
  for (std::size_t i = 0; i < locator.names().size(); ++i) {
    const Slice slice = locator.slices()[i];
    if (!slice.data) continue;
    out += locator.names()[i].text + (locator.names()[i].sequence ? "{" : ":");
    if (!locator.names()[i].sequence) {
      put(slice);
    } else {
      readable = for_each_step(slice.bytes(), put) && readable;
      out += "}";
    }
  }
  return readable ? out : "malformed";
}

std::string one(std::string_view feature) { return parsed(example(entry("a", feature))); }

}  // namespace

TEST(example, each_kind_is_read) {
  CHECK(one(ints({1, -1, 300})) == "a:1 -1 300 ");
  CHECK(one(build::floats({1, 2})) == "a:1f 2f ");
  CHECK(one(build::strings({"x", "", "yz"})) == "a:'x' '' 'yz' ");
  CHECK(parsed("") == "");
}

TEST(example, an_empty_list_is_told_from_an_empty_feature) {
  CHECK(one(ints({})) == "a:");
  CHECK(one("") == "a:none ");
}

TEST(example, packed_and_unpacked_lists_add_up) {
  CHECK(one(field(3, "\x08\x01\x08\x02"sv)) == "a:1 2 ");
  CHECK(one(field(3, "\x0a\x01\x01\x08\x02\x0a\x02\x03\x04"sv)) == "a:1 2 3 4 ");
  CHECK(one(field(2, "\x0d\x00\x00\x80\x3f\x0a\x04\x00\x00\x00\x40"sv)) == "a:1f 2f ");
}

TEST(example, of_two_lists_the_same_kind_adds_up_and_the_last_kind_stays) {
  CHECK(one(ints({1}) + ints({2})) == "a:1 2 ");
  CHECK(one(ints({1}) + build::floats({2})) == "a:2f ");
  CHECK(one(ints({1}) + build::floats({2}) + ints({3})) == "a:3 ");
  CHECK(one(build::strings({"x"}) + build::strings({"y"})) == "a:'x' 'y' ");
}

TEST(example, the_last_of_two_keys_wins_and_pieces_of_one_value_merge) {
  CHECK(parsed(example(entry("a", ints({1})) + entry("a", ints({2})))) == "a:2 ");
  CHECK(parsed(example(entry("a", ints({1}))) + example(entry("a", ints({2})))) == "a:2 ");
  CHECK(parsed(example(field(1, field(2, ints({1})) + field(1, "a") + field(2, ints({2}))))) == "a:1 2 ");
}

TEST(example, value_before_key_unknown_fields_and_missing_parts_are_read_as_protobuf_does) {
  CHECK(parsed(example(field(1, field(2, ints({1})) + field(1, "a")))) == "a:1 ");
  CHECK(parsed(example(field(1, field(7, "?") + field(1, "a") + field(2, ints({1}))))) == "a:1 ");
  CHECK(parsed("\x78\x01"s + field(9, "?") + example(entry("a", ints({1})))) == "a:1 ");
  CHECK(parsed(example(field(1, field(2, ints({1}))))) == ":1 ");
  CHECK(parsed(example(field(1, field(1, "a")))) == "a:none ");
  CHECK(parsed(example(entry("\xff", ints({1})))) == "\xff:1 ");
}

TEST(example, feature_lists_are_read_step_by_step) {
  CHECK(parsed(build::lists(entry("s", build::steps({ints({1, 2}), ints({}), ""})))) == "s{1 2 none }");
  CHECK(parsed(example(entry("s", ints({5}))) + build::lists(entry("s", ""))) == "s:5 s{}");
}

TEST(example, malformed_messages_are_refused) {
  for (const std::string& bad :
       {"\x0a"s, "\x0a\x05x"s, "\x00\x00"s, "\x0c"s, "\x0f"s, example("\x0a\x05x"sv), example(entry("a", "\x1a\x05"sv)),
        example(entry("a", field(2, field(1, "123")))), example(entry("a", field(3, field(1, "\x80")))),
        example(entry("a", field(3, field(1, std::string(10, '\x80') + "\x01")))),
        build::lists(entry("s", field(1, "\x1a\x05"sv)))})
    CHECK(parsed(bad) == "malformed");
}

TEST(example, every_cut_of_a_message_is_read_without_reading_past_it) {
  const std::string whole = example(entry("a", ints({1, 1000, -1})) + entry("b", build::floats({1, 2})) +
                                    entry("c", build::strings({"text", ""}))) +
                            build::lists(entry("s", build::steps({ints({1}), build::strings({"x"})})));
  for (std::size_t cut = 0; cut < whole.size(); ++cut) parsed(std::string_view(whole).substr(0, cut));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      parsed(flipped);
    }
  CHECK(parsed(whole) == "a:1 1000 -1 b:1f 2f c:'text' '' s{1 'x' }");
}

TEST(example, a_locator_finds_only_what_it_was_asked_for_and_forgets_the_record_before) {
  Locator locator({{"a", false, Kind::none}, {"s", true, Kind::none}, {"b", false, Kind::none}});
  const Exact first(example(entry("x", ints({1})) + entry("b", ints({2})) + entry("a", ints({3}))));
  const Exact second(example(entry("b", ints({4}))) + build::lists(entry("a", "") + entry("s", "")));
  CHECK(locator.locate(first.bytes()));
  CHECK(locator.slices()[0].data && !locator.slices()[1].data && locator.slices()[2].data);
  CHECK(locator.locate(second.bytes()));
  CHECK(!locator.slices()[0].data && locator.slices()[1].data && locator.slices()[2].data);
}

TEST(example, names_not_asked_for_are_noted_once_each) {
  Locator locator({{"a", false, Kind::none}}, Locator::Others::note);
  const Exact record(example(entry("x", ints({1})) + entry("a", ints({2})) + entry("x", ints({3}))) +
                     build::lists(entry("x", "")));
  for (int i = 0; i < 3; ++i) CHECK(locator.locate(record.bytes()));
  const std::vector<Name> others = locator.others();
  CHECK(others.size() == 2 && others[0].text == "x" && !others[0].sequence && others[1].text == "x" &&
        others[1].sequence);
}

TEST(example, names_of_any_length_are_told_apart) {
  std::vector<Name> names;
  std::string entries;
  for (std::size_t size = 0; size < 40; ++size)
    for (const char last : {'a', 'b'}) {
      const std::string name = size == 0 ? (last == 'a' ? "" : "q") : std::string(size, '_') + last;
      names.push_back({name, false, Kind::none});
      entries += entry(name, ints({static_cast<std::int64_t>(names.size())}));
    }
  const Exact record(example(entries));
  Locator locator(names);
  for (int round = 0; round < 2; ++round) {  // by the table, then by what came after
    CHECK(locator.locate(record.bytes()));
    for (std::size_t i = 0; i < names.size(); ++i) {
      Feature feature;
      std::int64_t value = 0;
      CHECK(feature.open(locator.slices()[i], record.bytes()) && feature.count() == 1 && feature.fill(&value));
      CHECK(value == static_cast<std::int64_t>(i + 1));
    }
  }
}

TEST(example, records_with_a_hundred_thousand_names_are_read_all_the_same) {
  Locator locator({{"a", false, Kind::none}}, Locator::Others::note);
  for (int i = 0; i < 100000; ++i) {
    const Exact record(example(entry(std::to_string(i), ints({1})) + entry("a", ints({i}))));
    CHECK(locator.locate(record.bytes()) && locator.slices()[0].data);
  }
  CHECK(locator.others().size() <= 1 << 16);
}
