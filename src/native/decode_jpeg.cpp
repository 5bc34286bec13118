#include "decode_jpeg.h"

#if defined(BUSHEL_HAS_JPEG)

#include <algorithm>
#include <csetjmp>

#include "huffman.h"
#include "jpeg.h"
#include "jpeg_errors.h"
// after jpeglib.h, which it needs
#include <jerror.h>

namespace bushel {

namespace {

constexpr int kBlock = 8;          // pixels; scales are eighths
constexpr JDIMENSION kMargin = 8;  // pixels beside a part that its colours are computed from
constexpr std::size_t kMostRows = 16;

// Other decoders may have what this library was compiled without.
bool is_foreign(int code) {
  switch (code) {
    case JERR_SOF_UNSUPPORTED:
    case JERR_BAD_PRECISION:
#if JPEG_LIB_VERSION < 70  // later interfaces always decode arithmetic coding
    case JERR_ARITH_NOTIMPL:
#endif
    case JERR_CONVERSION_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
      return true;
    default:
      return false;
  }
}

// Colours as they are usually stored: the first component has all pixels, the others as many or fewer.
bool is_usual(const jpeg_decompress_struct& image) {
  if (image.num_components == 1) return image.jpeg_color_space == JCS_GRAYSCALE;
  if (image.num_components != 3) return false;
  if (image.jpeg_color_space != JCS_YCbCr && image.jpeg_color_space != JCS_RGB) return false;
  const jpeg_component_info* const part = image.comp_info;
  const int across = part[0].h_samp_factor, down = part[0].v_samp_factor;
  const bool is_known = (across <= 2 && down <= 2) || (across == 4 && down == 1) || (across == 1 && down == 4);
  const auto is_one = [](const jpeg_component_info& p) { return p.h_samp_factor == 1 && p.v_samp_factor == 1; };
  return is_known && is_one(part[1]) && is_one(part[2]);
}

bool colours_of(std::size_t channels, J_COLOR_SPACE& colours) {
  switch (channels) {
    case 1:
      colours = JCS_GRAYSCALE;
      return true;
    case 3:
      colours = JCS_RGB;
      return true;
#if defined(JCS_ALPHA_EXTENSIONS)
    case 4:
      colours = JCS_EXT_RGBA;
      return true;
#endif
    default:
      return false;
  }
}

// How many eighths of the size are enough; 8 unless half of it or less is.
int eighths(std::size_t height, std::size_t width, const Wish& wish) {
  if (wish.least_height == 0 && wish.least_width == 0) return kBlock;
  const std::size_t least_height = std::min(height, wish.least_height), least_width = std::min(width, wish.least_width);
  const auto scaled = [](std::size_t side, int k) { return (side * static_cast<std::size_t>(k) + 7) / 8; };
  for (int k = 1; k <= kBlock / 2; ++k)
    if (scaled(height, k) >= least_height && scaled(width, k) >= least_width) return k;
  return kBlock;
}

}  // namespace

struct JpegDecoder::State {
  jpeg_decompress_struct image{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf home;
  Bytes data;
  Limits limits;
  std::string words;
  Outcome outcome = Outcome::ok;  // of the jump
  bool is_open = false;
  JDIMENSION left = 0;  // of what is decoded, in pixels
  std::size_t offset = 0;
  std::vector<std::uint8_t> dropped;
#if defined(BUSHEL_HAS_HUFFMAN)
  bool is_by_library = false;
  HuffmanScan scan;
#endif

  State() = default;
  ~State() { close(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static State& of(j_common_ptr common) { return *static_cast<State*>(common->client_data); }

  [[noreturn]] void leave(bool is_other) {
    char buffer[JMSG_LENGTH_MAX];
    errors.format_message(reinterpret_cast<j_common_ptr>(&image), buffer);
    words = buffer;
    outcome = is_other ? Outcome::other : Outcome::damaged;
    std::longjmp(home, 1);
  }

  void count_scans() {
    if (image.input_scan_number <= limits.scans) return;
    words = "it has more than " + std::to_string(limits.scans) + " scans";
    outcome = Outcome::damaged;
    std::longjmp(home, 1);
  }

  // Decodes the coefficients here, if it can.
  void take_over() {
#if defined(BUSHEL_HAS_HUFFMAN)
    if (is_by_library || !scan.take_over(&image, data)) return;
    image.entropy->decode_mcu = [](j_decompress_ptr one, JBLOCKROW* blocks) {
      return of(reinterpret_cast<j_common_ptr>(one)).scan.decode(one, blocks);
    };
#endif
  }

  // Goes to the end, if no block is in doubt: pixels cannot fail.
  void pass_over() {
#if defined(BUSHEL_HAS_HUFFMAN)
    if (is_by_library || !scan.skip(&image, data)) return;
    image.inputctl->finish_input_pass(&image);
    image.output_scanline = image.output_height;
#endif
  }

  void close() {
    if (is_open) jpeg_destroy_decompress(&image);
    is_open = false;
  }

  // A fresh one per image: otherwise an image without tables would use those of the image before.
  void create() {
    close();
    // A warning counts as an error: what the library continues with is made up.
    set_jpeg_errors(
        errors, [](j_common_ptr common) { of(common).leave(is_foreign(common->err->msg_code)); },
        [](j_common_ptr common, int level) {
          if (level < 0) of(common).leave(false);
        });
    progress.progress_monitor = [](j_common_ptr common) { of(common).count_scans(); };
    image.err = &errors;
    image.client_data = this;
    is_open = true;
    jpeg_create_decompress(&image);
    image.progress = &progress;
    jpeg_mem_src(&image, data.data(), data.size());
  }
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {}
JpegDecoder::~JpegDecoder() = default;

// Nothing between here and a jump back has a destructor: what must last is in `state_`.
Outcome JpegDecoder::open(Bytes data, const Wish& wish) {
  State& s = *state_;
  jpeg_decompress_struct& image = s.image;
  s.data = data;
  s.limits = wish.limits;
#if defined(BUSHEL_HAS_HUFFMAN)
  s.is_by_library = wish.is_by_library;
#endif
  if (setjmp(s.home)) return s.outcome;
  s.create();
  jpeg_read_header(&image, TRUE);
  if (!is_usual(image)) return Outcome::other;
  if (static_cast<std::size_t>(image.image_height) * image.image_width > wish.limits.pixels) return Outcome::too_large;
  const std::size_t own = image.num_components == 1 ? 1 : 3;
  if (!colours_of(wish.channels ? wish.channels : own, image.out_color_space)) return Outcome::other;
  image.dct_method = JDCT_ISLOW;
  image.do_fancy_upsampling = TRUE;
  image.scale_num = static_cast<unsigned>(eighths(image.image_height, image.image_width, wish));
  image.scale_denom = kBlock;
  jpeg_calc_output_dimensions(&image);
  return Outcome::ok;
}

ImageSize JpegDecoder::size() const {
  const jpeg_decompress_struct& image = state_->image;
  return {image.output_height, image.output_width, static_cast<std::size_t>(image.output_components)};
}

Outcome JpegDecoder::start(const Part& part) {
  State& s = *state_;
  jpeg_decompress_struct& image = s.image;
  if (setjmp(s.home)) return s.outcome;
  jpeg_start_decompress(&image);
  s.take_over();
  s.left = 0;
#if defined(LIBJPEG_TURBO_VERSION_NUMBER)
  if (part.width + 4 * kMargin < image.output_width) {
    const auto begin = static_cast<JDIMENSION>(part.left), end = begin + static_cast<JDIMENSION>(part.width);
    s.left = begin > kMargin ? begin - kMargin : 0;
    JDIMENSION width = std::min(end + kMargin, image.output_width) - s.left;
    jpeg_crop_scanline(&image, &s.left, &width);
  }
  if (part.top > 0) jpeg_skip_scanlines(&image, static_cast<JDIMENSION>(part.top));
#else
  s.dropped.resize(row_bytes());
  for (JSAMPROW row = s.dropped.data(); image.output_scanline < part.top;) jpeg_read_scanlines(&image, &row, 1);
#endif
  s.offset = (part.left - s.left) * static_cast<std::size_t>(image.output_components);
  return Outcome::ok;
}

std::size_t JpegDecoder::row_bytes() const {
  return std::size_t{state_->image.output_width} * static_cast<std::size_t>(state_->image.output_components);
}

std::size_t JpegDecoder::offset() const { return state_->offset; }

Outcome JpegDecoder::read(std::uint8_t* out, std::size_t stride, std::size_t rows) {
  State& s = *state_;
  if (setjmp(s.home)) return s.outcome;
  const JDIMENSION end = s.image.output_scanline + static_cast<JDIMENSION>(rows);
  const JDIMENSION begin = s.image.output_scanline;
  while (s.image.output_scanline < end) {
    JSAMPROW places[kMostRows];
    const std::size_t count = std::min<std::size_t>(end - s.image.output_scanline, kMostRows);
    for (std::size_t i = 0; i < count; ++i) places[i] = out + (s.image.output_scanline - begin + i) * stride;
    jpeg_read_scanlines(&s.image, places, static_cast<JDIMENSION>(count));
  }
  return Outcome::ok;
}

Outcome JpegDecoder::finish() {
  State& s = *state_;
  if (setjmp(s.home)) return s.outcome;
  if (s.image.output_scanline == s.image.output_height) {
    jpeg_finish_decompress(&s.image);
  } else {
    // What is not needed is not decoded; whether it is there can be seen without decoding.
    if (!has_jpeg_end(s.data, 0)) WARNMS(&s.image, JWRN_JPEG_EOF);
    jpeg_abort_decompress(&s.image);
  }
  return Outcome::ok;
}

Outcome JpegDecoder::verify() {
  State& s = *state_;
  jpeg_decompress_struct& image = s.image;
  if (setjmp(s.home)) return s.outcome;
  jpeg_start_decompress(&image);
  s.pass_over();
  s.dropped.resize(row_bytes());
  for (JSAMPROW row = s.dropped.data(); image.output_scanline < image.output_height;)
    jpeg_read_scanlines(&image, &row, 1);
  jpeg_finish_decompress(&image);
  return Outcome::ok;
}

const std::string& JpegDecoder::words() const { return state_->words; }

#define BUSHEL_TEXT(value) #value
#define BUSHEL_TEXT_OF(value) BUSHEL_TEXT(value)

std::string jpeg_library() {
#if defined(LIBJPEG_TURBO_VERSION)
  return "libjpeg-turbo " BUSHEL_TEXT_OF(LIBJPEG_TURBO_VERSION);
#else
  return "libjpeg " BUSHEL_TEXT_OF(JPEG_LIB_VERSION);
#endif
}

}  // namespace bushel

#else

namespace bushel {

struct JpegDecoder::State {
  std::string words;
};

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {}
JpegDecoder::~JpegDecoder() = default;
Outcome JpegDecoder::open(Bytes, const Wish&) { return Outcome::other; }
ImageSize JpegDecoder::size() const { return {}; }
Outcome JpegDecoder::start(const Part&) { return Outcome::other; }
std::size_t JpegDecoder::row_bytes() const { return 0; }
std::size_t JpegDecoder::offset() const { return 0; }
Outcome JpegDecoder::read(std::uint8_t*, std::size_t, std::size_t) { return Outcome::other; }
Outcome JpegDecoder::finish() { return Outcome::other; }
Outcome JpegDecoder::verify() { return Outcome::other; }
const std::string& JpegDecoder::words() const { return state_->words; }
std::string jpeg_library() { return ""; }

}  // namespace bushel

#endif
