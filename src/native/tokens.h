// Text to numbers: cut into tokens, and each token looked up.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "hash.h"
#include "letters.h"

namespace bushel {

// Reserved in every vocabulary: 0 is padding, 1 is any unknown token. Tokens come after them.
inline constexpr std::int64_t kPad = 0, kUnknown = 1, kReserved = 2;

enum class Unit : std::uint8_t {
  whitespace,  // runs of what is not whitespace
  word,        // runs of letters, marks, numbers and underscores
  character,
  byte,
};

// Rows of text: row i is data[offsets[i] : offsets[i + 1]].
struct Texts {
  std::span<const std::int64_t> offsets;
  Bytes data;

  std::size_t count() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  // Whether the offsets are in order and within the data. Everything below relies on it.
  bool is_valid() const;
  Bytes row(std::size_t i) const {
    return data.subspan(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
  }
};

// The first row that is not UTF-8; the number of rows if there is none.
std::size_t first_not_utf8(const Texts& texts);

// Calls each(token) for every token of a text, in order. Bytes that are not UTF-8 are neither letters nor whitespace.
template <typename Each>
void for_each_token(Bytes text, Unit unit, Each&& each);

// The first 16 bytes of a token, zeros after its end: with the size, this is all of most tokens, in two words.
struct Head {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Head&) const = default;
};

// Which bits of the two words belong to a token of this many bytes.
inline constexpr std::array<Head, 17> kHeadMasks = [] {
  std::array<Head, 17> masks{};
  for (std::size_t size = 1; size <= 16; ++size) {
    masks[size].low = size >= 8 ? ~0ull : (1ull << 8 * size) - 1;
    masks[size].high = size >= 16 ? ~0ull : size > 8 ? (1ull << 8 * (size - 8)) - 1 : 0;
  }
  return masks;
}();

// `limit` is the end of the memory that holds the token: everything before it may be read.
inline Head head_of(Bytes token, const std::uint8_t* limit) {
  const std::size_t size = std::min<std::size_t>(token.size(), 16);
  if (limit - token.data() >= 16)  // no branch on the size, which cannot be predicted
    return {load64(token.data()) & kHeadMasks[size].low, load64(token.data() + 8) & kHeadMasks[size].high};
  std::uint8_t bytes[16] = {};
  if (size > 0) std::memcpy(bytes, token.data(), size);
  return {load64(bytes), load64(bytes + 8)};
}

// Both halves of the result depend on all bits: the low half chooses a slot, the high half identifies its content.
inline std::uint64_t hash_token(Bytes token, Head head) {
  if (token.size() > 16) return xxh64(token, 0);
  const std::uint64_t a = head.low + token.size();
  const std::uint64_t hash =
      (a ^ 0x9e3779b185ebca87u) * 0xc2b2ae3d27d4eb4fu ^ std::rotl(head.high * 0x165667b19e3779f9u, 29);
  return (hash ^ hash >> 32) * 0x9e3779b185ebca87u;
}

// A token to look up, with its hash.
struct Sought {
  Bytes token;
  Head head;
  std::uint64_t hash;
};

inline Sought sought(Bytes token, const std::uint8_t* limit) {
  const Head head = head_of(token, limit);
  return {token, head, hash_token(token, head)};
}

// Places in a list by hash: 32 bits of the hash rule out nearly all mismatches without reading the list.
class HashSlots {
 public:
  explicit HashSlots(std::size_t most) : slots_(std::bit_ceil(2 * most + 2)) {}

  std::size_t capacity() const { return slots_.size() / 2; }

  // The place for which is_same(place) holds, or -1 - slot for the slot where it would go.
  template <typename IsSame>
  std::int64_t find(std::uint64_t hash, IsSame&& is_same) const {
    const std::size_t mask = slots_.size() - 1;
    const std::uint64_t tag = hash >> 32 << 32;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const std::uint64_t slot = slots_[at];
      if (slot == 0) return -static_cast<std::int64_t>(at) - 1;
      const auto place = static_cast<std::int64_t>((slot & 0xffffffff) - 1);
      if ((slot ^ tag) >> 32 == 0 && is_same(static_cast<std::size_t>(place))) return place;
    }
  }

  // Prefetches the slots of a hash while other work is done.
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]); }

  // The place that find will most likely return, before anything is compared; 0 if it will find none.
  std::size_t guess(std::uint64_t hash) const {
    const std::uint64_t slot = slots_[hash & (slots_.size() - 1)];
    return slot == 0 ? 0 : static_cast<std::size_t>((slot & 0xffffffff) - 1);
  }

  // `slot` is the result of find; places are below 2^32 - 1.
  void put(std::int64_t slot, std::uint64_t hash, std::size_t place) {
    slots_[static_cast<std::size_t>(-(slot + 1))] = hash >> 32 << 32 | (place + 1);
  }

 private:
  std::vector<std::uint64_t> slots_;
};

// The ids of tokens: kReserved and up, in the order given. Keeps a copy of them. If a token
// is given twice, the first counts.
class Vocabulary {
 public:
  explicit Vocabulary(const Texts& tokens);
  std::int64_t find(const Sought& token) const;
  std::int64_t find(Bytes token) const { return find(sought(token, token.data() + token.size())); }
  // Two steps ahead of find: prefetch what it will read first, and what it will read next.
  void prefetch(std::uint64_t hash) const { slots_.prefetch(hash); }
  void prefetch_guess(std::uint64_t hash) const {
    if (!known_.empty()) __builtin_prefetch(&known_[slots_.guess(hash)]);
  }
  std::size_t size() const { return offsets_.size() - 1; }
  Bytes token(std::size_t i) const {
    return Bytes(data_).subspan(static_cast<std::size_t>(offsets_[i]),
                                static_cast<std::size_t>(offsets_[i + 1] - offsets_[i]));
  }

 private:
  struct Known {
    Head head;
    std::size_t begin, size;  // in `data_`
  };

  bool is_same(const Known& known, Bytes token, Head head) const {
    return known.head == head && known.size == token.size() &&
           (known.size <= 16 || std::memcmp(data_.data() + known.begin, token.data(), known.size) == 0);
  }

  std::vector<std::uint8_t> data_;
  std::vector<std::int64_t> offsets_;
  std::vector<Known> known_;
  HashSlots slots_;
};

struct Tokenised {
  Buffer ids;     // int64: all rows, one after the other; or rows * length
  Buffer splits;  // int64, rows + 1; empty where there is a length
  std::size_t tokens = 0;
  std::size_t unknown = 0;     // of the tokens kept
  std::size_t cut_rows = 0;    // that had more than `length` tokens
  std::size_t cut_tokens = 0;  // that they lost
};

inline constexpr std::size_t kAnyLength = std::numeric_limits<std::size_t>::max();

// Ids of the tokens of every row; with a length, each row cut to it or filled up with kPad. Bytes are their own value
// plus kReserved and need no vocabulary.
Tokenised tokenise(const Texts& texts, Unit unit, const Vocabulary* vocabulary, std::size_t length);

struct Lowered {
  Buffer data;    // as long as what was given
  Buffer others;  // uint8, one per row: 1 if the row holds more than ASCII
};

// ASCII letters to lower case. Other scripts have their own rules.
Lowered lower_ascii(const Texts& texts);

// Of up to 64 bytes, one bit each, the first one lowest.
struct Bits {
  std::uint64_t inside;  // ASCII that belongs to a token
  std::uint64_t others;  // not ASCII
};

// How tokens are found in runs of characters that belong. `look` takes 1 to 64 bytes.
struct Words {
  static Bits look(const std::uint8_t* bytes, std::size_t size);
  static constexpr bool takes_broken = false;  // bytes that are not UTF-8
  static bool belongs(std::uint32_t code) { return is_word(code); }
};

struct NoSpaces {
  static Bits look(const std::uint8_t* bytes, std::size_t size);
  static constexpr bool takes_broken = true;
  static bool belongs(std::uint32_t code) { return !is_space(code); }
};

// The bits of `size` places from `first` on.
inline std::uint64_t bits_of(std::size_t first, std::size_t size) {
  const std::uint64_t ones = size >= 64 ? ~0ull : (1ull << size) - 1;
  return first >= 64 ? 0 : ones << first;
}

// A character that began in the 64 bytes before.
struct Carried {
  std::size_t size = 0;
  bool belongs = false;
};

// The bits, of the 64 bytes from `base` on, of characters that belong and are not ASCII.
template <typename Runs>
std::uint64_t others_inside(Bytes text, std::size_t base, std::uint64_t others, Carried& carried) {
  std::uint64_t inside = carried.belongs ? bits_of(0, carried.size) : 0;
  others &= ~bits_of(0, carried.size);
  carried = {};
  while (others != 0) {
    const auto at = static_cast<std::size_t>(std::countr_zero(others));
    const Character character = character_at(text, base + at);
    const std::size_t size = std::max<std::size_t>(1, character.size);
    const bool belongs = character.size == 0 ? Runs::takes_broken : Runs::belongs(character.code);
    if (belongs) inside |= bits_of(at, size);
    others &= ~bits_of(at, size);
    if (at + size > 64) carried = {at + size - 64, belongs};
  }
  return inside;
}

// 64 bytes at a time: where runs begin and end is where the bits of neighbours differ, and no byte takes a branch.
template <typename Runs, typename Each>
void for_each_run(Bytes text, Each&& each) {
  std::size_t begin = 0;
  std::uint64_t is_open = 0;  // 1 within a run that began before
  Carried carried;
  for (std::size_t base = 0; base < text.size(); base += 64) {
    const Bits bits = Runs::look(text.data() + base, std::min<std::size_t>(64, text.size() - base));
    std::uint64_t inside = bits.inside;
    if ((bits.others | carried.size) != 0) inside |= others_inside<Runs>(text, base, bits.others, carried);
    std::uint64_t edges = inside ^ (inside << 1 | is_open);
    const auto next = [&] {
      const std::size_t at = base + static_cast<std::size_t>(std::countr_zero(edges));
      edges &= edges - 1;
      return at;
    };
    if (is_open && edges != 0) each(text.subspan(begin, next() - begin));
    while (edges != 0) {
      begin = next();
      if (edges == 0) break;
      each(text.subspan(begin, next() - begin));
    }
    is_open = inside >> 63;
  }
  if (is_open) each(text.subspan(begin));
}

template <typename Each>
void for_each_token(Bytes text, Unit unit, Each&& each) {
  switch (unit) {
    case Unit::word:
      for_each_run<Words>(text, each);
      return;
    case Unit::whitespace:
      for_each_run<NoSpaces>(text, each);
      return;
    case Unit::character:
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t step = std::max<std::size_t>(1, character_at(text, at).size);
        each(text.subspan(at, step));
        at += step;
      }
      return;
    case Unit::byte:
      for (std::size_t at = 0; at < text.size(); ++at) each(text.subspan(at, 1));
      return;
  }
}

}  // namespace bushel
