// Ranges of several pieces of memory, one after the other: copied, as records are put into their planned order, or left
// where they are.
#pragma once

#include <deque>
#include <vector>

#include "record.h"

namespace bushel {

struct Place {
  std::uint32_t piece;
  std::uint64_t start;
  std::uint64_t length;
};

// Copies every range to `out`, which has room for all of them. False if one is not inside its piece; `out` is then
// filled up to that range.
bool gather(const std::vector<Bytes>& pieces, const std::vector<Place>& places, std::uint8_t* out);

// Finds rows of several bytes columns, each given by its offsets: `rows[i]` of column `which[i]` is range i. False if
// there is no such row.
bool find_rows(const std::vector<std::span<const std::int64_t>>& columns, std::span<const std::int64_t> which,
               std::span<const std::int64_t> rows, std::vector<Place>& out);

// Framed records in several pieces of memory, as extents of one span. The span reaches from the first piece to the
// last, and what lies between pieces must not be touched: only the extents, and kSlack bytes after each.
struct Scattered {
  static constexpr std::size_t kSlack = 128;  // more than a decoder reads after the end of a feature
  Bytes span;
  std::vector<Extent> extents;
  std::deque<Buffer> copies;  // of records that are cut, or that end where their piece does
};

// Finds records whose ranges are `places`, in order: record i has `lengths[i]` bytes with its framing. False if a range
// is not inside its piece, or if the ranges are not those of the records. The pieces must outlive the result.
bool find_scattered(const std::vector<Bytes>& pieces, const std::vector<Place>& places,
                    std::span<const std::int64_t> lengths, Scattered& out);

}  // namespace bushel
