// The protobuf wire format: varints, tags, lengths and what to skip. Every read is checked against the end first.
#pragma once

#include "bytes.h"

namespace bushel {

enum class WireType : std::uint32_t { varint = 0, fixed64 = 1, length = 2, group = 3, end_group = 4, fixed32 = 5 };

constexpr std::uint32_t tag(std::uint32_t field, WireType type) {
  return field << 3 | static_cast<std::uint32_t>(type);
}

// A message, or what is left of it.
struct Cursor {
  const std::uint8_t* p;
  const std::uint8_t* end;

  explicit Cursor(Bytes bytes) : p(bytes.data()), end(bytes.data() + bytes.size()) {}
  bool done() const { return p == end; }
  std::size_t left() const { return static_cast<std::size_t>(end - p); }
};

// As protobuf does: at most ten bytes, and bits above the 64th are dropped.
inline bool read_varint(Cursor& in, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (in.done()) return false;
    const std::uint64_t byte = *in.p++;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// At most five bytes, as protobuf demands of tags and lengths.
inline bool read_varint32(Cursor& in, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    if (in.done()) return false;
    const std::uint64_t byte = *in.p++;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value <= UINT32_MAX;
  }
  return false;
}

inline bool read_tag(Cursor& in, std::uint32_t& value) {
  std::uint64_t wide = 0;
  if (!in.done() && *in.p < 0x80) {
    wide = *in.p++;
  } else if (!read_varint32(in, wide)) {
    return false;
  }
  value = static_cast<std::uint32_t>(wide);
  return value >> 3 != 0;
}

// Reads a length and the bytes after it.
inline bool read_bytes(Cursor& in, Bytes& bytes) {
  std::uint64_t length = 0;
  if (!in.done() && *in.p < 0x80) {
    length = *in.p++;
  } else if (!read_varint32(in, length)) {
    return false;
  }
  if (length > in.left()) return false;
  bytes = {in.p, static_cast<std::size_t>(length)};
  in.p += length;
  return true;
}

// Skips the value after the tag `skipped`, including groups and everything in them.
bool skip(Cursor& in, std::uint32_t skipped);

// How many varints end in `packed`.
std::size_t count_varints(Bytes packed);

// Decodes `packed` into `out`, which has room for count_varints(packed). May read, but never uses, bytes between the
// end of `packed` and `readable_end`. False if the last varint does not end or one is longer than ten bytes.
bool decode_varints(Bytes packed, const std::uint8_t* readable_end, std::int64_t* out);

// Joins the low seven bits of each byte of `word`.
inline std::uint64_t join_sevens(std::uint64_t word) {
  word = (word & 0x007f007f007f007fu) | (word & 0x7f007f007f007f00u) >> 1;
  word = (word & 0x00003fff00003fffu) | (word & 0x3fff00003fff0000u) >> 2;
  return (word & 0x000000000fffffffu) | (word & 0x0fffffff00000000u) >> 4;
}

// Spreads the low 56 bits of `value` over eight bytes, seven bits in each.
inline std::uint64_t spread_sevens(std::uint64_t value) {
  value = (value & 0x000000000fffffffu) | (value & 0x00fffffff0000000u) << 4;
  value = (value & 0x00003fff00003fffu) | (value & 0x0fffc0000fffc000u) << 2;
  return (value & 0x007f007f007f007fu) | (value & 0x3f803f803f803f80u) << 1;
}

inline std::size_t varint_size(std::uint64_t value) {
  // Bits, rounded up to groups of seven: (63 - clz) * 9 / 64 is that division without dividing.
  const unsigned log2 = 63u - static_cast<unsigned>(__builtin_clzll(value | 1));
  return (log2 * 9 + 73) / 64;
}

inline std::uint8_t* write_varint(std::uint8_t* out, std::uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<std::uint8_t>(value) | 0x80;
    value >>= 7;
  }
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

// The same bytes without a branch on their number, which would be mispredicted often. Needs room for ten.
inline std::uint8_t* write_varint_unbranched(std::uint8_t* out, std::uint64_t value) {
  if (value >> 56) return write_varint(out, value);
  const std::size_t size = varint_size(value);
  const std::uint64_t continued = 0x8080808080808080u & ((std::uint64_t{1} << (8 * (size - 1))) - 1);
  store64(out, spread_sevens(value) | continued);
  return out + size;
}

}  // namespace bushel
