// Images made for tests: pixels, JPEGs by way of the library, PNGs byte by byte.
#pragma once

#include <string>
#include <vector>

#include "build.h"
#include "encode_jpeg.h"
#include "png.h"

namespace pictures {

using bushel::ImageSize;
using Pixels = std::vector<std::uint8_t>;

// Smooth, with a little of everything, so that a JPEG of it has all kinds of coefficients.
inline Pixels pixels(ImageSize size, std::uint64_t seed = 1) {
  build::Random random(seed);
  Pixels out;
  for (std::size_t y = 0; y < size.height; ++y)
    for (std::size_t x = 0; x < size.width; ++x)
      for (std::size_t c = 0; c < size.channels; ++c)
        out.push_back(static_cast<std::uint8_t>((y * (3 + c) + x * (5 - c) + random.below(16)) % 256));
  return out;
}

inline std::string text(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

inline std::string jpeg(ImageSize size, int quality = 90) {
  return text(bushel::encode_jpeg(pixels(size).data(), size, quality));
}

inline std::string big32(std::size_t value) {
  std::string out;
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(value >> shift);
  return out;
}

inline std::uint32_t crc32(std::string_view data) {
  std::uint32_t crc = ~0u;
  for (const char byte : data) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

inline std::string chunk(const std::string& kind, const std::string& data) {
  return big32(data.size()) + kind + data + big32(crc32(kind + data));
}

// Data as zlib has them where it does not pack them.
inline std::string stored(const std::string& data) {
  std::string out = "\x78\x01";
  std::size_t at = 0;
  do {
    const std::size_t n = std::min<std::size_t>(data.size() - at, 65535);
    out += static_cast<char>(at + n == data.size());
    for (const std::size_t number : {n, n ^ 0xffff}) {
      out += static_cast<char>(number);
      out += static_cast<char>(number >> 8);
    }
    out += data.substr(at, n);
    at += n;
  } while (at < data.size());
  std::uint32_t a = 1, b = 0;
  for (const char byte : data) {
    a = (a + static_cast<std::uint8_t>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return out + big32(std::size_t{b} << 16 | a);
}

struct Png {
  std::size_t height, width;
  int colour = 2, bits = 8, interlaced = 0;
  std::string before = {};  // chunks between the header and the pixels

  std::string header() const {
    std::string data = big32(width) + big32(height);
    for (const int byte : {bits, colour, 0, 0, interlaced}) data += static_cast<char>(byte);
    return std::string(std::begin(bushel::kPngSignature), std::end(bushel::kPngSignature)) + chunk("IHDR", data);
  }
  // Of rows, each with its filter before it.
  std::string file(const std::string& rows, std::size_t pieces = 1) const {
    const std::string packed = stored(rows);
    std::string out = header() + before;
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::size_t begin = packed.size() * i / pieces, end = packed.size() * (i + 1) / pieces;
      out += chunk("IDAT", packed.substr(begin, end - begin));
    }
    return out + chunk("IEND", "");
  }
};

// Rows of values with a filter each, as an encoder makes them.
inline std::string filtered(const Pixels& values, std::size_t row, std::size_t step, int filter) {
  std::string out;
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (at % row == 0) out += static_cast<char>(filter);
    const int left = at % row >= step ? values[at - step] : 0, above = at >= row ? values[at - row] : 0;
    const int corner = at % row >= step && at >= row ? values[at - row - step] : 0;
    const int from_left = std::abs(above - corner), from_above = std::abs(left - corner);
    const int from_corner = std::abs(left + above - 2 * corner);
    const int nearest = from_left <= from_above && from_left <= from_corner ? left
                        : from_above <= from_corner                         ? above
                                                                            : corner;
    const int guess[] = {0, left, above, (left + above) / 2, nearest};
    out += static_cast<char>(values[at] - guess[filter]);
  }
  return out;
}

}  // namespace pictures
