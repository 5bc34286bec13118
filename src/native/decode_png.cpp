#include "decode_png.h"

#include <algorithm>
#include <cstdlib>

#if defined(BUSHEL_HAS_DEFLATE)
#include <libdeflate.h>
#elif defined(BUSHEL_HAS_ZLIB)
#include <zlib.h>
#endif
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace bushel {

#if defined(BUSHEL_HAS_DEFLATE)

std::string png_library() { return "libdeflate " LIBDEFLATE_VERSION_STRING; }

Inflater::Inflater() : state_(libdeflate_alloc_decompressor()) {}
Inflater::~Inflater() { libdeflate_free_decompressor(static_cast<libdeflate_decompressor*>(state_)); }

bool Inflater::inflate(Bytes data, std::uint8_t* out, std::size_t size) {
  return state_ && libdeflate_zlib_decompress(static_cast<libdeflate_decompressor*>(state_), data.data(), data.size(),
                                              out, size, nullptr) == LIBDEFLATE_SUCCESS;
}

namespace {
std::uint32_t crc32_of(Bytes data) { return libdeflate_crc32(0, data.data(), data.size()); }
}  // namespace

#elif defined(BUSHEL_HAS_ZLIB)

std::string png_library() { return std::string("zlib ") + zlibVersion(); }

Inflater::Inflater() : state_(new z_stream{}) {
  if (inflateInit(static_cast<z_stream*>(state_)) == Z_OK) return;
  delete static_cast<z_stream*>(state_);
  state_ = nullptr;
}

Inflater::~Inflater() {
  if (!state_) return;
  inflateEnd(static_cast<z_stream*>(state_));
  delete static_cast<z_stream*>(state_);
}

bool Inflater::inflate(Bytes data, std::uint8_t* out, std::size_t size) {
  constexpr std::size_t kMost = ~uInt{0};
  if (!state_ || data.size() > kMost || size > kMost) return false;
  z_stream& stream = *static_cast<z_stream*>(state_);
  if (inflateReset(&stream) != Z_OK) return false;
  stream.next_in = const_cast<Bytef*>(data.data());
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = out;
  stream.avail_out = static_cast<uInt>(size);
  return ::inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0;
}

namespace {
std::uint32_t crc32_of(Bytes data) {
  return static_cast<std::uint32_t>(::crc32(0, data.data(), static_cast<uInt>(data.size())));
}
}  // namespace

#else

std::string png_library() { return ""; }

Inflater::Inflater() : state_(nullptr) {}
Inflater::~Inflater() = default;
bool Inflater::inflate(Bytes, std::uint8_t*, std::size_t) { return false; }

namespace {
std::uint32_t crc32_of(Bytes) { return 0; }
}  // namespace

#endif

namespace {

constexpr std::size_t kSlack = 4;
constexpr std::size_t kMostDeflated = 1032;  // the best compression ratio there is

std::uint8_t predict(int left, int above, int corner) {
  const int from_left = std::abs(above - corner), from_above = std::abs(left - corner);
  const int from_corner = std::abs(left + above - 2 * corner);
  if (from_left <= from_above && from_left <= from_corner) return static_cast<std::uint8_t>(left);
  return static_cast<std::uint8_t>(from_above <= from_corner ? above : corner);
}

void undo_up(std::uint8_t* row, const std::uint8_t* above, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) row[i] = static_cast<std::uint8_t>(row[i] + above[i]);
}

// One pixel after the other: each depends on the one before. Constant distances keep it in registers.
template <std::size_t step>
struct Plain {
  static void sub(std::uint8_t* row, std::size_t n) {
    for (std::size_t i = step; i < n; ++i) row[i] = static_cast<std::uint8_t>(row[i] + row[i - step]);
  }
  static void average(std::uint8_t* row, const std::uint8_t* above, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const int left = i < step ? 0 : row[i - step];
      row[i] = static_cast<std::uint8_t>(row[i] + ((left + above[i]) >> 1));
    }
  }
  static void paeth(std::uint8_t* row, const std::uint8_t* above, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const int left = i < step ? 0 : row[i - step], corner = i < step ? 0 : above[i - step];
      row[i] = static_cast<std::uint8_t>(row[i] + predict(left, above[i], corner));
    }
  }
};

#if defined(__SSE2__)

// A pixel of 3 or 4 bytes in one register. Always reads four, and so kSlack after the last.
template <std::size_t step>
struct Wide {
  static __m128i load(const std::uint8_t* p) {
    std::int32_t v;
    std::memcpy(&v, p, sizeof v);
    return _mm_cvtsi32_si128(v);
  }
  static void store(std::uint8_t* p, __m128i v) {
    const std::int32_t out = _mm_cvtsi128_si32(v);
    if constexpr (step == 4) {
      std::memcpy(p, &out, sizeof out);
    } else {
      const auto low = static_cast<std::uint16_t>(out);
      std::memcpy(p, &low, sizeof low);
      p[2] = static_cast<std::uint8_t>(out >> 16);
    }
  }
  static __m128i absolute(__m128i v) { return _mm_max_epi16(v, _mm_sub_epi16(_mm_setzero_si128(), v)); }
  static __m128i choose(__m128i mask, __m128i yes, __m128i no) {
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
  }

  static void sub(std::uint8_t* row, std::size_t n) {
    __m128i left = _mm_setzero_si128();
    for (std::size_t i = 0; i < n; i += step) store(row + i, left = _mm_add_epi8(left, load(row + i)));
  }

  static void average(std::uint8_t* row, const std::uint8_t* above, std::size_t n) {
    __m128i left = _mm_setzero_si128();
    for (std::size_t i = 0; i < n; i += step) {
      const __m128i up = load(above + i);
      // _mm_avg rounds up, PNG down.
      const __m128i odd = _mm_and_si128(_mm_xor_si128(left, up), _mm_set1_epi8(1));
      left = _mm_add_epi8(load(row + i), _mm_sub_epi8(_mm_avg_epu8(left, up), odd));
      store(row + i, left);
    }
  }

  static void paeth(std::uint8_t* row, const std::uint8_t* above, std::size_t n) {
    const __m128i zero = _mm_setzero_si128();
    __m128i left = zero, corner = zero;  // 16 bits per channel
    for (std::size_t i = 0; i < n; i += step) {
      const __m128i up = _mm_unpacklo_epi8(load(above + i), zero);
      __m128i from_left = _mm_sub_epi16(up, corner), from_above = _mm_sub_epi16(left, corner);
      const __m128i from_corner = absolute(_mm_add_epi16(from_left, from_above));
      from_left = absolute(from_left);
      from_above = absolute(from_above);
      const __m128i least = _mm_min_epi16(from_corner, _mm_min_epi16(from_left, from_above));
      const __m128i nearest =
          choose(_mm_cmpeq_epi16(least, from_left), left, choose(_mm_cmpeq_epi16(least, from_above), up, corner));
      corner = up;
      left = _mm_add_epi8(_mm_unpacklo_epi8(load(row + i), zero), nearest);  // bytes wrap, upper halves stay 0
      store(row + i, _mm_packus_epi16(left, left));
    }
  }
};

#else
template <std::size_t step>
using Wide = Plain<step>;
#endif

template <typename Filters>
bool undo(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above, std::size_t n) {
  switch (filter) {
    case 0:
      return true;
    case 1:
      Filters::sub(row, n);
      return true;
    case 2:
      undo_up(row, above, n);
      return true;
    case 3:
      Filters::average(row, above, n);
      return true;
    case 4:
      Filters::paeth(row, above, n);
      return true;
    default:
      return false;
  }
}

bool undo(std::uint8_t filter, std::uint8_t* row, const std::uint8_t* above, std::size_t n, std::size_t step) {
  switch (step) {
    case 1:
      return undo<Plain<1>>(filter, row, above, n);
    case 2:
      return undo<Plain<2>>(filter, row, above, n);
    case 3:
      return undo<Wide<3>>(filter, row, above, n);
    default:
      return undo<Wide<4>>(filter, row, above, n);
  }
}

// As Pillow does.
std::uint8_t grey_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

// Pixels of `from` channels as pixels of `to`; alpha is put on white, or full.
template <std::size_t from, std::size_t to>
void convert_row(const std::uint8_t* in, std::size_t pixels, std::uint8_t* out) {
  for (std::size_t i = 0; i < pixels; ++i, in += from, out += to) {
    if constexpr (to < 4 && (from == 2 || from == 4)) {
      std::uint8_t colour[3];
      for (std::size_t c = 0; c < 3; ++c) colour[c] = on_white(in[from < 3 ? 0 : c], in[from - 1]);
      if constexpr (to == 1)
        out[0] = from < 3 ? colour[0] : grey_of(colour);
      else
        std::memcpy(out, colour, 3);
    } else if constexpr (to == 1) {
      out[0] = from < 3 ? in[0] : grey_of(in);
    } else {
      for (std::size_t c = 0; c < 3; ++c) out[c] = in[from < 3 ? 0 : c];
      if constexpr (to == 4) out[3] = from == 2 ? in[1] : from == 4 ? in[from - 1] : 255;
    }
  }
}

template <std::size_t from>
void convert_row(const std::uint8_t* in, std::size_t pixels, std::uint8_t* out, std::size_t to) {
  if (to == 1) return convert_row<from, 1>(in, pixels, out);
  if (to == 3) return convert_row<from, 3>(in, pixels, out);
  convert_row<from, 4>(in, pixels, out);
}

void grow(Buffer& buffer, std::size_t size) {
  if (buffer.size() < size) buffer = Buffer(size);
}

}  // namespace

bool PngDecoder::take(const PngChunk& chunk) {
  if (chunk.is("IDAT")) {
    parts_.push_back(chunk.data);
    is_other_ = is_other_ || crc32_of(chunk.checked) != chunk.crc;
    return !is_other_;
  }
  if (!parts_.empty()) {  // of what follows the pixels, only what all readers need must be whole: the end of the image
    is_other_ = chunk.is_needed() && crc32_of(chunk.checked) != chunk.crc;
    return !is_other_ && !chunk.is("IEND");
  }
  if (crc32_of(chunk.checked) != chunk.crc || chunk.is("acTL")) is_other_ = true;
  if (chunk.is("PLTE")) {
    colours_ = std::min<std::size_t>(chunk.data.size() / 3, 256);
    is_other_ = is_other_ || chunk.data.size() % 3 != 0;
    for (std::size_t i = 0; i < colours_; ++i) {
      std::memcpy(palette_ + 4 * i, chunk.data.data() + 3 * i, 3);
      palette_[4 * i + 3] = 255;
    }
  } else if (chunk.is("tRNS")) {
    is_other_ = is_other_ || header_.colour != PngColour::palette || chunk.data.size() > colours_;
    has_alpha_ = true;
    for (std::size_t i = 0; i < std::min(chunk.data.size(), colours_); ++i) palette_[4 * i + 3] = chunk.data[i];
  }
  return !is_other_;
}

Outcome PngDecoder::open(Bytes data, const Wish& wish) {
  parts_.clear();
  colours_ = 0;
  has_alpha_ = false;
  if (!kHasPng || !read_png_header(data, header_)) return Outcome::other;
  // Sides are at most 2 ** 31 - 1 by the standard, and the product of two fits.
  if (header_.height > INT32_MAX || header_.width > INT32_MAX) return Outcome::other;
  if (header_.height * header_.width > wish.limits.pixels) return Outcome::too_large;
  is_other_ = header_.bits != 8 || header_.is_interlaced || data[26] != 0 || data[27] != 0 ||
              crc32_of(data.subspan(12, 17)) != load_big32(data.data() + 29);
  if (is_other_) return Outcome::other;
  for_each_png_chunk(data, [&](const PngChunk& chunk) { return take(chunk); });
  if (is_other_ || parts_.empty()) return Outcome::other;
  const bool is_palette = header_.colour == PngColour::palette;
  if (is_palette && colours_ == 0) return Outcome::other;
  channels_ = header_.channels();
  const std::size_t own = is_palette ? (has_alpha_ ? 4u : 3u) : channels_ == 2 ? 4 : channels_;
  size_ = {header_.height, header_.width, wish.channels ? wish.channels : own};
  if (size_.channels != 1 && size_.channels != 3 && size_.channels != 4) return Outcome::other;
  return Outcome::ok;
}

// The packed pixels in one piece.
Bytes PngDecoder::packed() {
  if (parts_.size() == 1) return parts_[0];
  std::size_t size = 0;
  for (const Bytes& part : parts_) size += part.size();
  grow(packed_, size);
  std::uint8_t* out = packed_.data();
  for (const Bytes& part : parts_) {
    if (!part.empty()) std::memcpy(out, part.data(), part.size());
    out += part.size();
  }
  return {packed_.data(), size};
}

bool PngDecoder::unfilter(std::size_t rows) {
  const std::size_t n = header_.width * channels_;
  grow(converted_, n + kSlack);  // a row of zeros stands above the first
  std::memset(converted_.data(), 0, n + kSlack);
  const std::uint8_t* above = converted_.data();
  for (std::size_t y = 0; y < rows; ++y) {
    std::uint8_t* const row = raw_.data() + y * (n + 1);
    if (!undo(row[0], row + 1, above, n, channels_)) return false;
    above = row + 1;
  }
  return true;
}

// The rows of a part with the requested channels, if they are stored with other ones.
bool PngDecoder::convert(const Part& part) {
  const std::size_t to = size_.channels;
  grow(converted_, part.height * part.width * to + 3);
  if (to < 4 && has_alpha_) {
    for (std::size_t i = 0; i < colours_; ++i) convert_row<4, 3>(palette_ + 4 * i, 1, palette_ + 4 * i);
    has_alpha_ = false;
  }
  const std::uint8_t* in = pixels_;
  std::uint8_t* out = converted_.data();
  for (std::size_t y = 0; y < part.height; ++y, in += stride_, out += part.width * to) {
    if (header_.colour == PngColour::palette) {
      for (std::size_t x = 0; x < part.width; ++x) {
        if (in[x] >= colours_) return false;
        const std::uint8_t* const colour = palette_ + 4 * in[x];
        if (to == 1)
          out[x] = grey_of(colour);
        else
          std::memcpy(out + x * to, colour, to);
      }
    } else if (channels_ == 1) {
      convert_row<1>(in, part.width, out, to);
    } else if (channels_ == 2) {
      convert_row<2>(in, part.width, out, to);
    } else if (channels_ == 3) {
      convert_row<3>(in, part.width, out, to);
    } else {
      convert_row<4>(in, part.width, out, to);
    }
  }
  pixels_ = converted_.data();
  stride_ = part.width * to;
  return true;
}

Outcome PngDecoder::decode(const Part& part) {
  const std::size_t row = header_.width * channels_ + 1, size = header_.height * row;
  const Bytes data = packed();
  if (size / kMostDeflated > data.size()) {  // can never be enough, and other decoders would allocate all of it first
    words_ = "image file is truncated";
    return Outcome::damaged;
  }
  grow(raw_, size + kSlack);
  if (!inflater_.inflate(data, raw_.data(), size) || !unfilter(part.top + part.height)) return Outcome::other;
  pixels_ = raw_.data() + part.top * row + 1 + part.left * channels_;
  stride_ = row;
  const bool is_stored = header_.colour != PngColour::palette && channels_ == size_.channels;
  return is_stored || convert(part) ? Outcome::ok : Outcome::other;
}

}  // namespace bushel
