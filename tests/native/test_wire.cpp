#include "build.h"
#include "check.h"
#include "wire.h"

using namespace bushel;
using build::Exact;

namespace {

std::vector<std::int64_t> decoded(Bytes packed, const std::uint8_t* readable_end, bool& whole) {
  // Exactly as large as count_varints says: what is written behind it, ASan sees.
  const std::unique_ptr<std::int64_t[]> out(new std::int64_t[count_varints(packed)]);
  whole = decode_varints(packed, readable_end, out.get());
  return whole ? std::vector<std::int64_t>(out.get(), out.get() + count_varints(packed)) : std::vector<std::int64_t>();
}

bool skips(std::string_view field, std::size_t& left) {
  const Exact exact(field);
  Cursor in(exact.bytes());
  std::uint32_t tag = 0;
  const bool skipped = read_tag(in, tag) && skip(in, tag);
  left = in.left();
  return skipped;
}

bool skips_all(std::string_view field) {
  std::size_t left = 0;
  return skips(field, left) && left == 0;
}

}  // namespace

TEST(wire, a_varint_of_each_length_is_read_and_measured) {
  for (unsigned bits = 0; bits <= 64; ++bits) {
    for (const std::uint64_t value :
         {bits == 0 ? 0 : std::uint64_t{1} << (bits - 1), bits == 64 ? UINT64_MAX : (std::uint64_t{1} << bits) - 1}) {
      const std::string bytes = build::varint(value);
      const Exact exact(bytes);
      Cursor in(exact.bytes());
      std::uint64_t read = 0;
      CHECK(read_varint(in, read) && read == value && in.done());
      CHECK(varint_size(value) == bytes.size());
      std::uint8_t written[10];
      CHECK(write_varint(written, value) == written + bytes.size() &&
            std::memcmp(written, bytes.data(), bytes.size()) == 0);
      for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
        const Exact short_of(std::string_view(bytes).substr(0, cut));
        Cursor end(short_of.bytes());
        CHECK(!read_varint(end, read));
      }
    }
  }
}

TEST(wire, a_varint_of_ten_bytes_drops_bits_above_the_64th_and_eleven_are_refused) {
  std::uint64_t value = 0;
  const Exact ten("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), eleven("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
  Cursor in(ten.bytes());
  CHECK(read_varint(in, value) && value == UINT64_MAX);
  Cursor longer(eleven.bytes());
  CHECK(!read_varint(longer, value));
}

TEST(wire, tags_and_lengths_have_at_most_five_bytes_and_32_bits) {
  using namespace std::string_view_literals;
  std::uint32_t tag = 0;
  const auto reads = [&](std::string_view bytes) {
    const Exact exact(bytes);
    Cursor in(exact.bytes());
    return read_tag(in, tag) && in.done();
  };
  CHECK(reads("\x8a\x80\x80\x80\x00"sv) && tag == 10);
  CHECK(reads("\xff\xff\xff\xff\x0f"sv) && tag == UINT32_MAX);
  CHECK(!reads("\x8a\x80\x80\x80\x10"sv));      // bit 32
  CHECK(!reads("\x8a\x80\x80\x80\x80\x00"sv));  // six bytes
  CHECK(!reads("\x02"sv) && !reads(""sv) && !reads("\x8a"sv));
}

TEST(wire, a_length_never_reaches_past_its_parent) {
  for (const std::string_view bytes : {"\x02x", "\x01", "\xff\xff\xff\xff\x0fx", "\x80", ""}) {
    const Exact exact(bytes);
    Cursor in(exact.bytes());
    Bytes read;
    CHECK(!read_bytes(in, read));
  }
  const Exact exact(std::string_view("\x02xy", 3));
  Cursor in(exact.bytes());
  Bytes read;
  CHECK(read_bytes(in, read) && build::text(read) == "xy" && in.done());
}

TEST(wire, each_wire_type_is_skipped_and_none_beyond_its_end) {
  using namespace std::string_view_literals;
  CHECK(skips_all("\x78\x80\x01"sv));
  CHECK(
      skips_all("\x79"
                "12345678"sv));
  CHECK(
      skips_all("\x7a\x03"
                "abc"sv));
  CHECK(
      skips_all("\x7d"
                "1234"sv));
  CHECK(skips_all("\x7b\x08\x01\x7c"sv));           // a group of field 15
  CHECK(skips_all("\x7b\x0b\x0c\x12\x01x\x7c"sv));  // with a group and a string in it
  std::size_t left = 0;
  for (const std::string_view bad :
       {"\x78\x80"sv,
        "\x79"
        "1234567"sv,
        "\x7a\x03"
        "ab"sv,
        "\x7d"
        "123"sv,
        "\x7b\x08\x01"sv, "\x7b\x0c"sv, "\x7c"sv, "\x7e\x00"sv, "\x7f\x00"sv, "\x7b\x00\x00\x7c"sv})
    CHECK(!skips(bad, left));
}

TEST(wire, a_hundred_nested_groups_are_skipped_and_one_more_is_refused) {
  const auto nested = [](std::size_t n) { return std::string(n, '\x7b') + std::string(n, '\x7c'); };
  std::size_t left = 0;
  CHECK(skips_all(nested(100)));
  CHECK(!skips(nested(101), left));
  CHECK(!skips(nested(100000), left));
}

TEST(wire, packed_varints_are_counted_and_decoded_alike) {
  build::Random random(4);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::int64_t> values(random.below(round < 2000 ? 20 : 300));
    const unsigned shift = static_cast<unsigned>(random.below(64));
    std::string packed;
    for (std::int64_t& value : values) {
      value = random.one_in(3) ? random.any_int() : static_cast<std::int64_t>(random.next() >> shift);
      packed += build::varint(static_cast<std::uint64_t>(value));
    }
    // Behind the packed bytes there may be nothing, or bytes that are not theirs.
    const Exact exact(packed + std::string(random.one_in(2) ? 0 : random.below(100), '\x85'));
    const Bytes bytes = exact.bytes().subspan(0, packed.size());
    bool whole = false;
    CHECK(count_varints(bytes) == values.size());
    CHECK(decoded(bytes, exact.data_end(), whole) == values && whole);
    CHECK(decoded(bytes, bytes.data() + bytes.size(), whole) == values && whole);
  }
}

TEST(wire, overlong_varints_decode_to_what_they_hold) {
  using namespace std::string_view_literals;
  const std::string padding(100, '\x01');
  for (std::size_t before = 0; before < 70; ++before) {
    for (const bool readable : {false, true}) {
      const std::string packed =
          std::string(before, '\x07') + std::string("\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00"sv) + "\x05";
      const Exact exact(packed + padding);
      const Bytes bytes = exact.bytes().subspan(0, packed.size());
      bool whole = false;
      const auto values = decoded(bytes, readable ? exact.data_end() : bytes.data() + bytes.size(), whole);
      CHECK(whole && values.size() == before + 2 && values[before] == 1 && values[before + 1] == 5);
    }
  }
}

TEST(wire, a_packed_list_that_ends_inside_a_varint_or_holds_one_of_eleven_bytes_is_refused) {
  const std::string eleven(10, '\x80');
  for (std::size_t before = 0; before < 140; ++before) {
    for (const std::string& bad :
         {std::string("\x80"), std::string(9, '\xff'), eleven + "\x01", eleven + std::string(200, '\x80')}) {
      const std::string packed = std::string(before, '\x07') + bad;
      const Exact exact(packed + std::string(80, '\x01'));
      const Bytes bytes = exact.bytes().subspan(0, packed.size());
      bool whole = true;
      decoded(bytes, exact.data_end(), whole);
      CHECK(!whole);
      decoded(bytes, bytes.data() + bytes.size(), whole);
      CHECK(!whole);
    }
  }
}
