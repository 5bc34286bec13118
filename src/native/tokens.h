// Text to numbers: cut into tokens, and each token looked up.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "letters.h"

namespace bushel {

// What every vocabulary keeps free: 0 fills rows up, 1 is every token that is not in it. Tokens begin behind them.
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
  // Whether the offsets are in order and within the data. Everything below takes it on trust.
  bool is_valid() const;
  Bytes row(std::size_t i) const {
    return data.subspan(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
  }
};

// The first row that is not UTF-8; the number of rows if there is none.
std::size_t first_not_utf8(const Texts& texts);

// Calls each(token) for every token of a text, in order. What is not UTF-8 is no letter and no whitespace.
template <typename Each>
void for_each_token(Bytes text, Unit unit, Each&& each);

std::uint64_t hash_token(Bytes token);

// The ids of tokens: kReserved and up, in the order given. Keeps a copy of them. Of the same token given twice, the
// first counts.
class Vocabulary {
 public:
  explicit Vocabulary(const Texts& tokens);
  std::int64_t find(Bytes token) const;
  std::size_t size() const { return offsets_.size() - 1; }
  Bytes token(std::size_t i) const {
    return Bytes(data_).subspan(static_cast<std::size_t>(offsets_[i]),
                                static_cast<std::size_t>(offsets_[i + 1] - offsets_[i]));
  }

 private:
  struct Slot {
    std::uint64_t hash;
    std::int64_t id;  // 0: free
  };

  std::vector<std::uint8_t> data_;
  std::vector<std::int64_t> offsets_;
  std::vector<Slot> slots_;
};

struct Tokenised {
  Buffer ids;     // int64: of all rows, one behind the other; or rows * length
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
  Buffer others;  // uint8, one a row: 1 where a row holds more than ASCII
};

// ASCII letters made small. Other scripts have rules of their own.
Lowered lower_ascii(const Texts& texts);

// How tokens are found in runs of characters that belong. `kinds` says of a byte: 0 between, 1 inside, 2 not ASCII.
struct Words {
  static const std::array<std::uint8_t, 256> kinds;
  static constexpr bool takes_broken = false;  // bytes that are not UTF-8
  static bool belongs(std::uint32_t code) { return is_word(code); }
};

struct NoSpaces {
  static const std::array<std::uint8_t, 256> kinds;
  static constexpr bool takes_broken = true;
  static bool belongs(std::uint32_t code) { return !is_space(code); }
};

template <typename Runs, typename Each>
void for_each_run(Bytes text, Each&& each) {
  std::size_t begin = 0, at = 0;
  while (at < text.size()) {
    const std::uint8_t kind = Runs::kinds[text[at]];
    std::size_t step = 1;
    bool belongs = kind == 1;
    if (kind == 2) {
      const Character character = character_at(text, at);
      step = std::max<std::size_t>(1, character.size);
      belongs = character.size == 0 ? Runs::takes_broken : Runs::belongs(character.code);
    }
    if (!belongs) {
      if (at > begin) each(text.subspan(begin, at - begin));
      begin = at + step;
    }
    at += step;
  }
  if (at > begin) each(text.subspan(begin, at - begin));
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
