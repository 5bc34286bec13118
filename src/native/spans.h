// Spans of a text file, read and looked at block by block, while the block is in the cache.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "bytes.h"

namespace bushel {

// The bytes [begin, stop) of an open file, where rows begin and end, in blocks of about so many bytes.
struct Span {
  int file;
  std::uint64_t begin, stop;
  std::size_t block_bytes;
};

struct SpanBlock {
  std::uint64_t stop;  // where it ends in the file
  std::size_t rows;
  std::size_t newlines;
};

inline constexpr std::size_t kLongestRow = std::size_t{128} << 20;

// Reads so many bytes from a place in a file; false if they are not there.
bool read_at(int file, std::uint64_t at, std::size_t size, std::uint8_t* out);

// Calls cut(text), which returns where the last whole row ends, and look(rows) for each block of whole rows, which
// returns a SpanBlock; its end is filled in. Returns all blocks, or nothing if one of the two returned nothing, or if
// the file cannot be read.
template <typename Cut, typename Look>
std::optional<std::vector<SpanBlock>> survey_blocks(const Span& span, Cut&& cut, Look&& look) {
  std::vector<SpanBlock> blocks;
  Buffer text(span.block_bytes + span.block_bytes / 8);
  std::uint64_t at = span.begin;
  std::size_t carried = 0;  // bytes of a row that goes on
  while (true) {
    const auto wanted = static_cast<std::size_t>(
        std::min<std::uint64_t>(std::max(span.block_bytes, carried), span.stop - at - carried));
    if (carried + wanted > text.size()) {
      Buffer larger(carried + wanted + span.block_bytes);
      std::memcpy(larger.data(), text.data(), carried);
      text = std::move(larger);
    }
    if (!read_at(span.file, at + carried, wanted, text.data() + carried)) return {};
    const Bytes held(text.data(), carried + wanted);
    const std::optional<std::size_t> end = wanted == 0 ? held.size() : cut(held);
    if (!end) return {};
    if (*end > 0) {
      std::optional<SpanBlock> block = look(held.first(*end));
      if (!block) return {};
      block->stop = at + *end;
      blocks.push_back(*block);
    }
    if (wanted == 0) return blocks;
    at += *end;
    carried = held.size() - *end;
    if (carried > kLongestRow) return {};
    std::memmove(text.data(), text.data() + *end, carried);
  }
}

}  // namespace bushel
