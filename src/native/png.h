// The header of a PNG, and its chunks.
#pragma once

#include "codec.h"

namespace bushel {

enum class PngColour : std::uint8_t { grey = 0, rgb = 2, palette = 3, grey_alpha = 4, rgba = 6 };

struct PngHeader {
  std::size_t height = 0, width = 0;
  std::uint8_t bits = 0;
  PngColour colour = PngColour::grey;
  bool is_interlaced = false;

  std::size_t channels() const;  // as stored: a palette has one
};

struct PngChunk {
  Bytes kind;
  Bytes data;
  Bytes checked;  // the bytes that its checksum covers
  std::uint32_t crc;

  bool is(const char* name) const { return std::memcmp(kind.data(), name, 4) == 0; }
  bool is_needed() const { return kind[0] < 'a'; }  // by every reader, as the case of its name says
};

inline constexpr std::uint8_t kPngSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
inline constexpr std::size_t kPngHeader = 33;      // the signature, and the whole chunk of the header
inline constexpr std::size_t kPngChunkFrame = 12;  // length, kind, checksum

// False if it is not a PNG, has no size, or has an unknown colour type.
bool read_png_header(Bytes data, PngHeader& header);

// Calls work(chunk) for each whole chunk after the header, until it returns false.
template <typename Work>
void for_each_png_chunk(Bytes data, Work&& work) {
  std::size_t at = kPngHeader;
  while (at <= data.size() && data.size() - at >= kPngChunkFrame) {
    const std::size_t length = load_big32(data.data() + at);
    if (length > data.size() - at - kPngChunkFrame) return;
    const auto crc = static_cast<std::uint32_t>(load_big32(data.data() + at + 8 + length));
    if (!work(PngChunk{data.subspan(at + 4, 4), data.subspan(at + 8, length), data.subspan(at + 4, 4 + length), crc}))
      return;
    at += kPngChunkFrame + length;
  }
}

}  // namespace bushel
