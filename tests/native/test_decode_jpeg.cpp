#include <algorithm>
#include <cstdlib>

#include "check.h"
#include "decode_jpeg.h"
#include "pictures.h"

using namespace bushel;
using build::Exact;

#if defined(BUSHEL_HAS_JPEG)
#include "jpeg_errors.h"

namespace {

struct Got {
  Outcome outcome;
  ImageSize size{};
  pictures::Pixels pixels{};
  std::string words{};
};

Got decode(const std::string& file, const Wish& wish = {}, const Part* part = nullptr) {
  const Exact data(file);
  JpegDecoder decoder;
  Got got{decoder.open(data.bytes(), wish)};
  if (got.outcome == Outcome::ok) {
    got.size = decoder.size();
    const Part all = part ? *part : Part{0, 0, got.size.height, got.size.width};
    got.outcome = decoder.start(all);
    for (std::size_t y = 0; got.outcome == Outcome::ok && y < all.height; ++y) {
      pictures::Pixels row(decoder.row_bytes());
      got.outcome = decoder.read(row.data(), row.size(), 1);
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(decoder.offset());
      got.pixels.insert(got.pixels.end(), first, first + static_cast<std::ptrdiff_t>(all.width * got.size.channels));
    }
    if (got.outcome == Outcome::ok) got.outcome = decoder.finish();
  }
  got.words = decoder.words();
  return got;
}

// Where a size stands in a file that the library wrote.
std::size_t frame_of(const std::string& file) { return file.find(std::string("\xff\xc0\x00\x11\x08", 5)) + 5; }

std::string with_size(std::string file, std::size_t height, std::size_t width) {
  std::size_t at = frame_of(file);
  for (const std::size_t side : {height, width})
    for (const int shift : {8, 0}) file[at++] = static_cast<char>(side >> shift);
  return file;
}

// A progressive JPEG whose coefficients come one by one: one scan for each, after one for each component's mean.
std::string with_scans(std::size_t side) {
  std::vector<jpeg_scan_info> scans;
  for (int component = 0; component < 3; ++component) scans.push_back({1, {component, 0, 0, 0}, 0, 0, 0, 0});
  for (int component = 0; component < 3; ++component)
    for (int band = 1; band < 64; ++band)
      for (int bit = 1; bit >= 0; --bit) scans.push_back({1, {component, 0, 0, 0}, band, band, bit ? 0 : 1, bit});
  jpeg_compress_struct image{};
  jpeg_error_mgr errors;
  set_jpeg_errors(errors, [](j_common_ptr) { std::abort(); }, [](j_common_ptr, int) {});
  image.err = &errors;
  jpeg_create_compress(&image);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&image, &data, &size);
  image.image_height = image.image_width = static_cast<JDIMENSION>(side);
  image.input_components = 3;
  image.in_color_space = JCS_RGB;
  jpeg_set_defaults(&image);
  image.scan_info = scans.data();
  image.num_scans = static_cast<int>(scans.size());
  jpeg_start_compress(&image, TRUE);
  pictures::Pixels pixels = pictures::pixels({side, side, 3});
  while (image.next_scanline < image.image_height) {
    JSAMPROW row = pixels.data() + image.next_scanline * side * 3;
    jpeg_write_scanlines(&image, &row, 1);
  }
  jpeg_finish_compress(&image);
  const std::string file(data, data + size);
  jpeg_destroy_compress(&image);
  std::free(data);
  return file;
}

Wish wish(std::size_t channels, std::size_t least = 0) {
  return {.channels = channels, .least_height = least, .least_width = least, .limits = {}};
}

}  // namespace

TEST(decode_jpeg, pixels_come_back_nearly_as_they_were) {
  for (const std::size_t channels : {1u, 3u}) {
    const ImageSize size{40, 50, channels};
    const Got got = decode(pictures::jpeg(size, 98));
    const pictures::Pixels before = pictures::pixels(size);
    CHECK(got.outcome == Outcome::ok && got.size == size && got.pixels.size() == before.size());
  }
}

TEST(decode_jpeg, channels_are_those_that_are_wanted) {
  const std::string grey = pictures::jpeg({8, 8, 1}), colours = pictures::jpeg({8, 8, 3});
  for (const std::size_t channels : {1u, 3u, 4u})
    for (const std::string& file : {grey, colours}) {
      const Got got = decode(file, wish(channels));
      CHECK(got.outcome == Outcome::ok && got.size.channels == channels && got.pixels.size() == 64 * channels);
    }
  CHECK(decode(grey, wish(3)).pixels[0] == decode(grey).pixels[0]);
  CHECK(decode(colours, wish(4)).pixels[3] == 255);
  CHECK(decode(colours, wish(2)).outcome == Outcome::other);
}

TEST(decode_jpeg, a_part_is_exactly_that_part_of_the_whole) {
  const std::string file = pictures::jpeg({120, 150, 3});
  const Got all = decode(file);
  build::Random random(3);
  for (int i = 0; i < 100; ++i) {
    const std::size_t top = random.below(119), left = random.below(149);
    const Part part{top, left, 1 + random.below(120 - top), 1 + random.below(150 - left)};
    const Got got = decode(file, {}, &part);
    CHECK(got.outcome == Outcome::ok);
    for (std::size_t y = 0; y < part.height; ++y)
      CHECK(std::memcmp(got.pixels.data() + y * part.width * 3,
                        all.pixels.data() + ((part.top + y) * 150 + part.left) * 3, part.width * 3) == 0);
  }
}

TEST(decode_jpeg, one_of_twice_the_size_is_decoded_smaller) {
  const std::string file = pictures::jpeg({100, 120, 3});
  CHECK(decode(file, wish(3, 50)).size == ImageSize{50, 60, 3});
  CHECK(decode(file, wish(3, 51)).size == ImageSize{100, 120, 3});  // 5/8 would do, and is not worth it
  CHECK(decode(file, wish(3, 13)).size == ImageSize{13, 15, 3});
  CHECK(decode(file, wish(3, 30)).size == ImageSize{38, 45, 3});
}

TEST(decode_jpeg, a_cut_one_is_damaged_in_the_words_of_the_library) {
  const std::string file = pictures::jpeg({64, 64, 3});
  const Got got = decode(file.substr(0, file.size() / 2));
  CHECK(got.outcome == Outcome::damaged && got.words == "Premature end of JPEG file");
  CHECK(decode(file.substr(0, file.size() - 2)).words == "Premature end of JPEG file");
  const Part part{0, 0, 8, 8};  // which is whole, in a file that is not
  CHECK(decode(file.substr(0, file.size() - 2), {}, &part).outcome == Outcome::damaged);
  CHECK(decode(std::string("\xff\xd8\xff\xd9", 4)).words == "JPEG datastream contains no image");
}

TEST(decode_jpeg, tables_of_one_image_do_not_serve_the_next) {
  const std::string file = pictures::jpeg({8, 8, 1});
  const std::size_t table = file.find("\xff\xdb");
  const std::size_t length = static_cast<std::uint8_t>(file[table + 3]) + 2u;
  const std::string bare = file.substr(0, table) + file.substr(table + length);
  const Exact whole(file), lacking(bare);
  JpegDecoder decoder;
  pictures::Pixels pixels(64);
  CHECK(decoder.open(whole.bytes(), {}) == Outcome::ok && decoder.start({0, 0, 8, 8}) == Outcome::ok);
  CHECK(decoder.read(pixels.data(), 8, 8) == Outcome::ok && decoder.finish() == Outcome::ok);
  CHECK(decoder.open(lacking.bytes(), {}) == Outcome::ok && decoder.start({0, 0, 8, 8}) == Outcome::damaged);
  CHECK(decoder.words() == "Quantization table 0x00 was not defined");
}

TEST(decode_jpeg, every_cut_and_every_flipped_byte_is_survived) {
  const std::string file = pictures::jpeg({17, 19, 3});
  const Wish small{.channels = 3, .least_height = 0, .least_width = 0, .limits = {.pixels = 1 << 16}};
  for (std::size_t size = 0; size < file.size(); ++size)
    CHECK(decode(file.substr(0, size), small).outcome != Outcome::ok);
  for (std::size_t at = 0; at < file.size(); ++at)
    for (const int bit : {1, 0x10, 0x80}) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      decode(changed, small);
    }
}

TEST(decode_jpeg, sizes_that_the_data_cannot_have_take_neither_memory_nor_time) {
  const std::string file = pictures::jpeg({16, 16, 3});
  CHECK(decode(with_size(file, 60000, 60000)).outcome == Outcome::too_large);
  CHECK(decode(with_size(file, 15000, 15001)).outcome == Outcome::damaged);
  CHECK(decode(with_size(file, 0, 16)).outcome == Outcome::damaged);
  CHECK(decode(with_size(file, 16, 0)).outcome == Outcome::damaged);
}

TEST(decode_jpeg, hundreds_of_scans_are_too_many) {
  const std::string file = with_scans(16);
  const Got got = decode(file);
  CHECK(got.outcome == Outcome::damaged && got.words == "it has more than 200 scans");
  Wish patient;
  patient.limits.scans = 1000;
  CHECK(decode(file, patient).outcome == Outcome::ok);
}

#endif
