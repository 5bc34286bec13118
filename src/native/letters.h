// UTF-8, and which characters make words: the same in every build, whatever Unicode its Python knows.
#pragma once

#include <vector>

#include "bytes.h"

namespace bushel {

struct CodeRange {
  std::uint32_t first, last;
};

struct Character {
  std::uint32_t code;
  std::size_t size;  // in bytes; 0 if the bytes are not UTF-8
};

// The character that begins at data[at]. `at` must be below data.size().
Character character_at(Bytes data, std::size_t at);

bool is_utf8(Bytes data);

bool is_word(std::uint32_t code);
bool is_space(std::uint32_t code);

std::span<const CodeRange> word_ranges();
std::span<const CodeRange> space_ranges();

}  // namespace bushel
