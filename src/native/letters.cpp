#include "letters.h"

namespace bushel {

namespace {

#include "letters_table.inc"

constexpr std::uint32_t kCodes = 0x110000;

// One bit for each character.
class Set {
 public:
  explicit Set(std::span<const CodeRange> ranges) : bits_(kCodes / 64) {
    for (const CodeRange& range : ranges)
      for (std::uint32_t code = range.first; code <= range.last; ++code) bits_[code / 64] |= 1ull << code % 64;
  }
  bool has(std::uint32_t code) const { return code < kCodes && (bits_[code / 64] >> code % 64 & 1) != 0; }

 private:
  std::vector<std::uint64_t> bits_;
};

bool continues(std::uint8_t byte) { return (byte & 0xc0) == 0x80; }

}  // namespace

Character character_at(Bytes data, std::size_t at) {
  const std::uint8_t* p = data.data() + at;
  const std::size_t left = data.size() - at;
  const std::uint8_t lead = p[0];
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || left < size) return {0, 0};
  for (std::size_t i = 1; i < size; ++i)
    if (!continues(p[i])) return {0, 0};
  if (size == 2) return {(lead & 0x1fu) << 6 | (p[1] & 0x3fu), 2};
  if (size == 3) {
    const std::uint32_t code = (lead & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    const bool is_short = code < 0x800, is_surrogate = code >= 0xd800 && code < 0xe000;
    return is_short || is_surrogate ? Character{0, 0} : Character{code, 3};
  }
  const std::uint32_t code = (lead & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
  return code < 0x10000 || code >= kCodes ? Character{0, 0} : Character{code, 4};
}

bool is_utf8(Bytes data) {
  constexpr std::uint64_t kHigh = 0x8080808080808080u;
  const auto is_ascii = [](const std::uint8_t* bytes, std::size_t size) {
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < size; i += 8) all |= load64(bytes + i);
    return (all & kHigh) == 0;
  };
  std::size_t at = 0;
  while (at < data.size()) {
    if (data.size() - at >= 8 && is_ascii(data.data() + at, 8)) {
      at += 8;
      while (data.size() - at >= 64 && is_ascii(data.data() + at, 64)) at += 64;
      continue;
    }
    const Character character = character_at(data, at);
    if (character.size == 0) return false;
    at += character.size;
  }
  return true;
}

bool is_word(std::uint32_t code) {
  static const Set words(kWordRanges);
  return words.has(code);
}

bool is_space(std::uint32_t code) {
  static const Set spaces(kSpaceRanges);
  return spaces.has(code);
}

std::span<const CodeRange> word_ranges() { return kWordRanges; }
std::span<const CodeRange> space_ranges() { return kSpaceRanges; }

}  // namespace bushel
