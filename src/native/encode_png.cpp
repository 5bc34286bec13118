#include "encode_png.h"

#include <cstdlib>

#include "png.h"
#include "wide.h"

#if defined(BUSHEL_HAS_DEFLATE)
#include <libdeflate.h>
#elif defined(BUSHEL_HAS_ZLIB)
#include <zlib.h>
#endif

namespace bushel {

#if defined(BUSHEL_HAS_DEFLATE) || defined(BUSHEL_HAS_ZLIB)

namespace {

constexpr int kLevel = 6;  // of compression: what zlib and most writers of PNGs take
constexpr std::size_t kMostSide = 0x7fffffff;

#if defined(BUSHEL_HAS_DEFLATE)

std::uint32_t crc_of(Bytes data) { return libdeflate_crc32(0, data.data(), data.size()); }

// One for each thread: making it costs as much as packing a small image.
struct Deflater {
  libdeflate_compressor* state = libdeflate_alloc_compressor(kLevel);
  Deflater() = default;
  ~Deflater() { libdeflate_free_compressor(state); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
};

// Packs into the room after the first `at` bytes of `out`, which it makes.
void deflate_into(Bytes data, std::vector<std::uint8_t>& out, std::size_t at) {
  static thread_local const Deflater deflater;
  if (!deflater.state) throw EncodeError("there is no memory to pack the PNG");
  out.resize(at + libdeflate_zlib_compress_bound(deflater.state, data.size()));
  out.resize(at + libdeflate_zlib_compress(deflater.state, data.data(), data.size(), out.data() + at, out.size() - at));
}

#else

std::uint32_t crc_of(Bytes data) { return static_cast<std::uint32_t>(crc32_z(0, data.data(), data.size())); }

void deflate_into(Bytes data, std::vector<std::uint8_t>& out, std::size_t at) {
  auto size = compressBound(static_cast<uLong>(data.size()));
  out.resize(at + size);
  if (compress2(out.data() + at, &size, data.data(), static_cast<uLong>(data.size()), kLevel) != Z_OK)
    throw EncodeError("there is no memory to pack the PNG");
  out.resize(at + size);
}

#endif

// How large differences are, taken as signed: the smaller, the better they can be packed.
[[gnu::always_inline]] inline std::uint32_t weight(std::uint8_t value) {
  return value < 128 ? value : static_cast<std::uint32_t>(256 - value);
}

// `row` less its neighbour to the left, above, their mean, and the nearest of three (Paeth): n bytes each, of which
// those before `row`, `above` and `corner` are there. Returns how large they are.
BUSHEL_WIDE std::uint32_t filter_sub(const std::uint8_t* row, const std::uint8_t* left, std::size_t n,
                                     std::uint8_t* out) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += weight(out[i] = static_cast<std::uint8_t>(row[i] - left[i]));
  return sum;
}

BUSHEL_WIDE std::uint32_t filter_average(const std::uint8_t* row, const std::uint8_t* left, const std::uint8_t* above,
                                         std::size_t n, std::uint8_t* out) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += weight(out[i] = static_cast<std::uint8_t>(row[i] - ((left[i] + above[i]) >> 1)));
  return sum;
}

BUSHEL_WIDE std::uint32_t filter_paeth(const std::uint8_t* row, const std::uint8_t* left, const std::uint8_t* above,
                                       const std::uint8_t* corner, std::size_t n, std::uint8_t* out) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto a = static_cast<std::int16_t>(left[i]), b = static_cast<std::int16_t>(above[i]);
    const auto c = static_cast<std::int16_t>(corner[i]);
    const auto from_a = static_cast<std::int16_t>(b - c), from_b = static_cast<std::int16_t>(a - c);
    const auto both = static_cast<std::int16_t>(from_a + from_b);
    const auto pa = static_cast<std::int16_t>(from_a < 0 ? -from_a : from_a);
    const auto pb = static_cast<std::int16_t>(from_b < 0 ? -from_b : from_b);
    const auto pc = static_cast<std::int16_t>(both < 0 ? -both : both);
    const std::int16_t b_or_c = pb <= pc ? b : c;
    const std::int16_t nearest = ((pa <= pb) & (pa <= pc)) ? a : b_or_c;
    sum += weight(out[i] = static_cast<std::uint8_t>(row[i] - nearest));
  }
  return sum;
}

BUSHEL_WIDE std::uint32_t weight_of(const std::uint8_t* row, std::size_t n) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += weight(row[i]);
  return sum;
}

// All rows, each after the number of the filter that suits it best.
std::vector<std::uint8_t> filtered(const std::uint8_t* pixels, ImageSize size) {
  constexpr std::size_t kPixel = 4;  // zeros before each row, at least a pixel
  const std::size_t n = size.row(), step = size.channels;
  std::vector<std::uint8_t> out(size.height * (n + 1)), rows(2 * (n + kPixel)), tried(4 * n);
  std::uint8_t *above = rows.data() + kPixel, *row = above + n + kPixel;
  for (std::size_t y = 0; y < size.height; ++y) {
    std::memcpy(row, pixels + y * n, n);
    const std::uint32_t weights[] = {weight_of(row, n), filter_sub(row, row - step, n, tried.data()),
                                     filter_sub(row, above, n, tried.data() + n),
                                     filter_average(row, row - step, above, n, tried.data() + 2 * n),
                                     filter_paeth(row, row - step, above, above - step, n, tried.data() + 3 * n)};
    std::size_t best = 0;
    for (std::size_t filter = 1; filter < std::size(weights); ++filter)
      if (weights[filter] < weights[best]) best = filter;
    std::uint8_t* const place = out.data() + y * (n + 1);
    place[0] = static_cast<std::uint8_t>(best);
    std::memcpy(place + 1, best == 0 ? row : tried.data() + (best - 1) * n, n);
    std::swap(above, row);
  }
  return out;
}

void put_big32(std::uint8_t* out, std::size_t value) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<std::uint8_t>(value >> (24 - 8 * i));
}

// Room for a chunk's length and kind; `end_chunk` fills it in when its data are there, and adds the checksum.
std::size_t begin_chunk(std::vector<std::uint8_t>& out, const char* kind) {
  const std::size_t at = out.size();
  out.resize(at + 8);
  std::memcpy(out.data() + at + 4, kind, 4);
  return at;
}

void end_chunk(std::vector<std::uint8_t>& out, std::size_t at) {
  const std::size_t size = out.size() - at - 8;
  put_big32(out.data() + at, size);
  out.resize(out.size() + 4);
  put_big32(out.data() + at + 8 + size, crc_of({out.data() + at + 4, size + 4}));
}

}  // namespace

std::vector<std::uint8_t> encode_png(const std::uint8_t* pixels, ImageSize size) {
  if (size.channels != 1 && size.channels != 3 && size.channels != 4) throw EncodeError("a PNG has 1, 3 or 4 channels");
  if (size.height == 0 || size.width == 0 || size.height > kMostSide || size.width > kMostSide)
    throw EncodeError("a PNG has 1 to 2147483647 pixels a side");
  const PngColour colour = size.channels == 1 ? PngColour::grey : size.channels == 3 ? PngColour::rgb : PngColour::rgba;
  std::vector<std::uint8_t> out(std::begin(kPngSignature), std::end(kPngSignature));
  std::size_t chunk = begin_chunk(out, "IHDR");
  std::uint8_t header[13] = {};
  put_big32(header, size.width);
  put_big32(header + 4, size.height);
  header[8] = 8;
  header[9] = static_cast<std::uint8_t>(colour);
  out.insert(out.end(), std::begin(header), std::end(header));
  end_chunk(out, chunk);
  chunk = begin_chunk(out, "IDAT");
  deflate_into(filtered(pixels, size), out, out.size());
  if (out.size() - chunk > kMostSide) throw EncodeError("the PNG is larger than 2 GiB");
  end_chunk(out, chunk);
  end_chunk(out, begin_chunk(out, "IEND"));
  return out;
}

#else

std::vector<std::uint8_t> encode_png(const std::uint8_t*, ImageSize) {
  throw EncodeError("bushel was compiled without libdeflate and zlib");
}

#endif

}  // namespace bushel
