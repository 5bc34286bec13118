#include "check.h"
#include "decode_png.h"
#include "encode_png.h"
#include "pictures.h"

using namespace bushel;
using build::Exact;
using pictures::filtered;
using pictures::Png;

namespace {

struct Got {
  Outcome outcome;
  ImageSize size{};
  pictures::Pixels pixels{};
  std::string words{};
};

Got decode(const std::string& file, const Wish& wish = {}, const Part* part = nullptr) {
  const Exact data(file);
  PngDecoder decoder;
  Got got{decoder.open(data.bytes(), wish)};
  if (got.outcome != Outcome::ok) return got;
  got.size = decoder.size();
  const Part all = part ? *part : Part{0, 0, got.size.height, got.size.width};
  got.outcome = decoder.decode(all);
  got.words = decoder.words();
  for (std::size_t y = 0; got.outcome == Outcome::ok && y < all.height; ++y) {
    const std::uint8_t* const row = decoder.pixels() + y * decoder.stride();
    got.pixels.insert(got.pixels.end(), row, row + all.width * got.size.channels);
  }
  return got;
}

Wish channels(std::size_t count) { return {.channels = count, .least_height = 0, .least_width = 0, .limits = {}}; }

}  // namespace

TEST(decode_png, every_filter_gives_the_pixels_that_were_filtered) {
  const int colours[] = {0, 4, 2, 6};
  for (std::size_t step = 1; step <= 4; ++step)
    for (int filter = 0; filter <= 4; ++filter)
      for (const std::size_t width : {1u, 2u, 5u, 33u}) {
        const pictures::Pixels values = pictures::pixels({7, width, step});
        const Png png{7, width, colours[step - 1]};
        const Got got = decode(png.file(filtered(values, width * step, step, filter), 3));
        CHECK(got.outcome == Outcome::ok);
        if (step != 2) CHECK(got.pixels == values);
      }
}

TEST(decode_png, what_is_encoded_comes_back) {
  for (const std::size_t channels_of : {1u, 3u, 4u})
    for (const std::size_t width : {1u, 2u, 5u, 33u, 200u}) {
      const ImageSize size{11, width, channels_of};
      const pictures::Pixels values = pictures::pixels(size), flat(size.values(), 9);
      for (const pictures::Pixels& pixels : {values, flat}) {
        const Exact exact(pictures::text(pixels));  // not a byte may be read beyond
        const Got got = decode(pictures::text(encode_png(exact.bytes().data(), size)));
        CHECK(got.outcome == Outcome::ok && got.size == size && got.pixels == pixels);
      }
    }
  const std::uint8_t pixel[4] = {};
  for (const ImageSize size : {ImageSize{0, 1, 3}, ImageSize{1, 0, 3}, ImageSize{1, 1, 2}}) {
    bool is_refused = false;
    try {
      encode_png(pixel, size);
    } catch (const EncodeError&) {
      is_refused = true;
    }
    CHECK(is_refused);
  }
}

TEST(decode_png, a_part_is_that_part_of_the_whole) {
  const pictures::Pixels values = pictures::pixels({9, 8, 3});
  const Part part{2, 3, 5, 4};
  const Got got = decode(Png{9, 8}.file(filtered(values, 24, 3, 4)), {}, &part);
  CHECK(got.outcome == Outcome::ok && got.pixels.size() == 5 * 4 * 3);
  for (std::size_t y = 0; y < 5; ++y)
    CHECK(std::memcmp(got.pixels.data() + y * 12, values.data() + (y + 2) * 24 + 9, 12) == 0);
}

TEST(decode_png, grey_and_alpha_become_the_channels_that_are_wanted) {
  const std::string file = Png{1, 2, 4}.file(std::string("\0\x0a\x80\xc8\xff", 5));  // grey 10 and 200
  CHECK(decode(file).pixels == pictures::Pixels{10, 10, 10, 128, 200, 200, 200, 255});
  CHECK(decode(file, channels(1)).pixels == pictures::Pixels{132, 200});  // half of white shows through the first
  CHECK(decode(file, channels(3)).pixels == pictures::Pixels{132, 132, 132, 200, 200, 200});
  const std::string colours = Png{1, 1}.file(std::string("\0\xff\x00\x00", 4));
  CHECK(decode(colours, channels(1)).pixels == pictures::Pixels{76});
  CHECK(decode(colours, channels(4)).pixels == pictures::Pixels{255, 0, 0, 255});
}

TEST(decode_png, a_palette_may_be_transparent) {
  const std::string palette = pictures::chunk("PLTE", std::string("\x01\x02\x03\x0a\x14\x1e", 6));
  const std::string rows("\0\0\1", 3);
  const Got plain = decode(Png{1, 2, 3, 8, 0, palette}.file(rows));
  CHECK(plain.size.channels == 3 && plain.pixels == pictures::Pixels{1, 2, 3, 10, 20, 30});
  const Got clear = decode(Png{1, 2, 3, 8, 0, palette + pictures::chunk("tRNS", "\x07")}.file(rows));
  CHECK(clear.size.channels == 4 && clear.pixels == pictures::Pixels{1, 2, 3, 7, 10, 20, 30, 255});
  const Got white = decode(Png{1, 2, 3, 8, 0, palette + pictures::chunk("tRNS", "\x07")}.file(rows), channels(3));
  CHECK(white.pixels == pictures::Pixels{248, 248, 248, 10, 20, 30});
  CHECK(decode(Png{1, 2, 3, 8, 0, palette}.file(std::string("\0\0\2", 3))).outcome == Outcome::other);
  CHECK(decode(Png{1, 2, 3}.file(rows)).outcome == Outcome::other);
}

TEST(decode_png, what_is_rare_or_damaged_is_left_to_others) {
  const std::string rows(2 * 7, '\0');
  CHECK(decode(Png{2, 2}.file(rows)).outcome == Outcome::ok);
  CHECK(decode(Png{2, 2, 2, 16}.file(rows)).outcome == Outcome::other);
  CHECK(decode(Png{2, 2, 2, 8, 1}.file(rows)).outcome == Outcome::other);
  CHECK(decode(Png{2, 2, 0, 4}.file(rows)).outcome == Outcome::other);
  CHECK(decode(Png{2, 2, 5}.file(rows)).outcome == Outcome::other);
  CHECK(decode(Png{0, 2}.file(rows)).outcome == Outcome::other);
  CHECK(decode(Png{2, 2}.file(rows.substr(1))).outcome == Outcome::other);  // too few
  CHECK(decode(Png{2, 2}.file(rows + "more")).outcome == Outcome::other);
  CHECK(decode(Png{2, 2}.file(std::string(1, '\5') + rows.substr(1))).outcome == Outcome::other);  // no such filter
  CHECK(decode(Png{2, 2, 2, 8, 0, pictures::chunk("tRNS", "abcdef")}.file(rows)).outcome == Outcome::other);
  CHECK(decode(Png{2, 2, 2, 8, 0, pictures::chunk("acTL", "abcdefgh")}.file(rows)).outcome == Outcome::other);
  std::string wrong = Png{2, 2, 2, 8, 0, pictures::chunk("gAMA", "abcd")}.file(rows);
  wrong[kPngHeader + 8] ^= 1;  // and so its checksum is another
  CHECK(decode(wrong).outcome == Outcome::other);
  wrong = Png{2, 2}.file(rows);
  wrong[wrong.size() - 13] ^= 1;  // the checksum of the pixels, which are right
  CHECK(decode(wrong).outcome == Outcome::other);
}

TEST(decode_png, every_cut_and_every_flipped_byte_is_survived) {
  const pictures::Pixels values = pictures::pixels({4, 5, 3});
  const std::string file = Png{4, 5}.file(filtered(values, 15, 3, 4), 2);
  for (std::size_t size = 0; size < file.size(); ++size) decode(file.substr(0, size));
  for (std::size_t at = 0; at < file.size(); ++at)
    for (const int bit : {1, 0x10, 0x80}) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      decode(changed);
    }
}

TEST(decode_png, sizes_that_the_data_cannot_have_take_no_memory) {
  const std::string rows(2 * 7, '\0');
  CHECK(decode(Png{60000, 60000}.file(rows)).outcome == Outcome::too_large);
  const Got got = decode(Png{16000, 16000}.file(rows));
  CHECK(got.outcome == Outcome::damaged && got.words == "image file is truncated");
  CHECK(decode(Png{0xffffffff, 0xffffffff}.file(rows)).outcome == Outcome::other);
}
