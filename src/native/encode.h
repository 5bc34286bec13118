// Writing Example and SequenceExample: columns to framed records.
#pragma once

#include <string_view>
#include <vector>

#include "example.h"

namespace bushel {

// One feature over all rows, in the caller's memory, laid out like Column in columns.h.
struct ColumnView {
  std::string_view name;
  bool sequence = false;
  Kind kind = Kind::none;
  const std::int64_t* ints = nullptr;
  const float* floats = nullptr;
  const std::int64_t* ends = nullptr;  // of bytes: value i is data[ends[i] : ends[i+1]]
  const std::uint8_t* data = nullptr;
  const std::int64_t* splits = nullptr;  // values of row i are [splits[i], splits[i+1]); else `width` each
  std::size_t width = 1;
  const std::uint8_t* present = nullptr;      // rows with 0 lack the feature; null if all rows have it
  const std::int64_t* step_splits = nullptr;  // of a feature list: its steps, which are then the rows above
};

struct Piece {
  Buffer memory;
  std::size_t size = 0;  // of what is in it
};

struct Encoded {
  std::vector<Piece> pieces;      // framed records, one after the other
  Buffer lengths;                 // uint64, of each record's data
  bool too_large = false;         // a record would be longer than kMaxRecord; the rest is then undefined
  std::size_t too_large_row = 0;  // the number of the record
};

// Encodes rows [0, rows), or row order[i] as record i where `order` is given: `rows` is its length then, and what it
// names must be in bounds. Features are written in the bytewise order of their names, whatever the order of `columns`:
// the same values give the same bytes everywhere. Splits, ends and step_splits must be in order and in bounds.
Encoded encode(std::vector<ColumnView> columns, std::size_t rows, std::size_t threads,
               const std::int64_t* order = nullptr);

}  // namespace bushel
