#include <cstdlib>

#include "check.h"
#include "decode_jpeg.h"
#include "huffman.h"
#include "pictures.h"

using namespace bushel;
using build::Exact;

#if defined(BUSHEL_HAS_HUFFMAN)

namespace {

struct Options {
  int quality = 90, across = 2, down = 2, restart = 0;
  bool is_optimised = false, is_progressive = false;
};

std::string jpeg(ImageSize size, pictures::Pixels pixels, const Options& options) {
  jpeg_compress_struct image{};
  jpeg_error_mgr errors;
  set_jpeg_errors(errors, [](j_common_ptr) { std::abort(); }, [](j_common_ptr, int) {});
  image.err = &errors;
  jpeg_create_compress(&image);
  unsigned char* data = nullptr;
  unsigned long length = 0;
  jpeg_mem_dest(&image, &data, &length);
  image.image_height = static_cast<JDIMENSION>(size.height);
  image.image_width = static_cast<JDIMENSION>(size.width);
  image.input_components = static_cast<int>(size.channels);
  image.in_color_space = size.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&image);
  jpeg_set_quality(&image, options.quality, TRUE);
  image.comp_info[0].h_samp_factor = options.across;
  image.comp_info[0].v_samp_factor = options.down;
  image.restart_interval = static_cast<unsigned>(options.restart);
  image.optimize_coding = options.is_optimised;
  if (options.is_progressive) jpeg_simple_progression(&image);
  jpeg_start_compress(&image, TRUE);
  while (image.next_scanline < image.image_height) {
    JSAMPROW row = pixels.data() + image.next_scanline * size.row();
    jpeg_write_scanlines(&image, &row, 1);
  }
  jpeg_finish_compress(&image);
  const std::string file(data, data + length);
  jpeg_destroy_compress(&image);
  std::free(data);
  return file;
}

pictures::Pixels noise(ImageSize size, std::uint64_t seed) {
  build::Random random(seed);
  pictures::Pixels pixels(size.values());
  for (std::uint8_t& value : pixels) value = static_cast<std::uint8_t>(random.below(256));
  return pixels;
}

struct Got {
  Outcome outcome;
  std::string words{};
  pictures::Pixels pixels{};
  bool operator==(const Got&) const = default;
};

Got decode(JpegDecoder& decoder, Bytes data, Wish wish, bool is_by_library, const Part* part = nullptr) {
  wish.is_by_library = is_by_library;
  Got got{decoder.open(data, wish)};
  if (got.outcome == Outcome::ok) {
    const Part all = part ? *part : Part{0, 0, decoder.size().height, decoder.size().width};
    got.outcome = decoder.start(all);
    if (got.outcome == Outcome::ok) {
      got.pixels.resize(decoder.row_bytes() * all.height);
      got.outcome = decoder.read(got.pixels.data(), decoder.row_bytes(), all.height);
    }
    if (got.outcome == Outcome::ok) got.outcome = decoder.finish();
  }
  if (got.outcome != Outcome::ok) got.pixels.clear();
  if (got.outcome == Outcome::damaged) got.words = decoder.words();
  return got;
}

Got verify(JpegDecoder& decoder, Bytes data, Wish wish, bool is_by_library) {
  wish.is_by_library = is_by_library;
  Got got{decoder.open(data, wish)};
  if (got.outcome == Outcome::ok) got.outcome = decoder.verify();
  if (got.outcome == Outcome::damaged) got.words = decoder.words();
  return got;
}

// Whether both ways come to the same, and so do those who only verify; one decoder serves all images, as in a batch.
bool agree(JpegDecoder& decoder, const std::string& file, const Wish& wish = {}, const Part* part = nullptr) {
  const Exact data(file);
  const Got decoded = decode(decoder, data.bytes(), wish, true, part);
  if (decode(decoder, data.bytes(), wish, false, part) != decoded) return false;
  const Got verified = verify(decoder, data.bytes(), wish, true);
  const Wish least{.channels = 1, .least_height = 1, .least_width = 1, .limits = wish.limits};
  return verify(decoder, data.bytes(), wish, false) == verified &&
         verify(decoder, data.bytes(), least, false) == verify(decoder, data.bytes(), least, true) &&
         (part || (verified.outcome == decoded.outcome && verified.words == decoded.words));
}

HuffmanScan& scan() {
  static HuffmanScan one;
  return one;
}
boolean decode_here(j_decompress_ptr image, JBLOCKROW* blocks) { return scan().decode(image, blocks); }

// An image that the library is about to decode.
struct Started {
  explicit Started(const std::string& file) : data(file) {
    set_jpeg_errors(
        errors, [](j_common_ptr) { std::abort(); },
        [](j_common_ptr, int level) {
          if (level < 0) std::abort();
        });
    image.err = &errors;
    jpeg_create_decompress(&image);
    jpeg_mem_src(&image, data.bytes().data(), data.bytes().size());
    jpeg_read_header(&image, TRUE);
    jpeg_start_decompress(&image);
  }
  ~Started() { jpeg_destroy_decompress(&image); }

  const Exact data;
  jpeg_decompress_struct image{};
  jpeg_error_mgr errors;
};

// Whether all of an image is decoded without the library's own decoder.
bool is_decoded_here(const std::string& file) {
  Started started(file);
  jpeg_decompress_struct& image = started.image;
  const bool is_here = scan().take_over(&image, started.data.bytes());
  if (is_here) image.entropy->decode_mcu = decode_here;
  pictures::Pixels row(image.output_width * static_cast<std::size_t>(image.output_components));
  for (JSAMPROW place = row.data(); image.output_scanline < image.output_height;)
    jpeg_read_scanlines(&image, &place, 1);
  const bool is_still_here = is_here && image.entropy->decode_mcu == decode_here;
  jpeg_finish_decompress(&image);
  return is_still_here;
}

bool is_skipped_here(const std::string& file) {
  Started started(file);
  return scan().skip(&started.image, started.data.bytes());
}

}  // namespace

TEST(huffman, ordinary_images_do_not_need_the_decoder_of_the_library) {
  const ImageSize size{61, 43, 3};
  for (const int quality : {1, 50, 90, 100})
    for (const bool is_optimised : {false, true}) {
      const std::string file = jpeg(size, noise(size, 5), {.quality = quality, .is_optimised = is_optimised});
      CHECK(is_decoded_here(file));
      CHECK(is_skipped_here(file));
    }
  for (const Options& other : {Options{.restart = 2}, Options{.is_progressive = true}}) {
    CHECK(!is_decoded_here(jpeg(size, noise(size, 5), other)));
    CHECK(!is_skipped_here(jpeg(size, noise(size, 5), other)));
  }
}

TEST(huffman, images_of_every_kind_have_the_pixels_of_the_library) {
  JpegDecoder decoder;
  std::uint64_t seed = 0;
  for (const ImageSize size : {ImageSize{1, 1, 3}, {8, 8, 1}, {16, 17, 3}, {61, 43, 3}, {40, 90, 1}})
    for (const int quality : {1, 30, 75, 95, 100})
      for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}})
        for (const bool is_optimised : {false, true}) {
          const Options options{quality, across, down, 0, is_optimised};
          CHECK(agree(decoder, jpeg(size, pictures::pixels(size), options)));
          const std::string noisy = jpeg(size, noise(size, ++seed), options);
          CHECK(agree(decoder, noisy));
          CHECK(agree(decoder, noisy, {.least_height = size.height / 2, .least_width = size.width / 2, .limits = {}}));
        }
}

TEST(huffman, parts_have_the_pixels_of_the_library) {
  JpegDecoder decoder;
  const ImageSize size{90, 120, 3};
  const std::string file = jpeg(size, noise(size, 1), {});
  build::Random random(2);
  for (int i = 0; i < 60; ++i) {
    const std::size_t top = random.below(89), left = random.below(119);
    const Part part{top, left, 1 + random.below(90 - top), 1 + random.below(120 - left)};
    CHECK(agree(decoder, file, {}, &part));
  }
}

TEST(huffman, restarts_and_scans_are_left_to_the_library) {
  JpegDecoder decoder;
  const ImageSize size{50, 60, 3};
  CHECK(agree(decoder, jpeg(size, noise(size, 1), {.restart = 2})));
  CHECK(agree(decoder, jpeg(size, noise(size, 1), {.is_progressive = true})));
}

TEST(huffman, damage_is_what_the_library_says_it_is) {
  JpegDecoder decoder;
  const Wish small{.limits = {.pixels = 1 << 16}};
  for (const bool is_optimised : {false, true}) {
    const ImageSize size{19, 23, 3};
    const std::string file = jpeg(size, noise(size, 7), {.quality = 60, .is_optimised = is_optimised});
    for (std::size_t length = 0; length < file.size(); ++length) CHECK(agree(decoder, file.substr(0, length), small));
    for (std::size_t at = 0; at < file.size(); ++at)
      for (const int bits : {1, 0x10, 0x80, 0xff}) {
        std::string changed = file;
        changed[at] = static_cast<char>(changed[at] ^ bits);
        CHECK(agree(decoder, changed, small));
      }
  }
}

TEST(huffman, bytes_after_the_last_block_are_what_the_library_says_they_are) {
  JpegDecoder decoder;
  const ImageSize size{20, 20, 3};
  const std::string file = jpeg(size, noise(size, 3), {});
  for (std::size_t more = 1; more < 20; ++more)
    for (const char byte : {'\0', 'x'})
      CHECK(agree(decoder, file.substr(0, file.size() - 2) + std::string(more, byte) + file.substr(file.size() - 2)));
}

TEST(huffman, fill_bytes_in_a_scan_are_what_the_library_says_they_are) {
  JpegDecoder decoder;
  for (const std::size_t side : {8, 20, 37}) {
    const ImageSize size{side, side, 1};
    const std::string file = jpeg(size, pictures::Pixels(size.values(), 130), {.across = 1, .down = 1});
    for (const std::string& fill : {std::string("\xff"), std::string("\xff\xff\0", 3), std::string("\xff\xff\0x", 4)})
      CHECK(agree(decoder, file.substr(0, file.size() - 2) + fill + file.substr(file.size() - 2)));
  }
}

#endif
