// Rows of different lengths in one rectangle: one per row, or several packed into one.
#pragma once

#include <vector>

#include "bytes.h"

namespace bushel {

// Values of `width` bytes each, in rows.
struct Rows {
  Bytes values;
  std::size_t width;
  std::span<const std::int64_t> splits;  // rows + 1

  std::size_t count() const { return splits.empty() ? 0 : splits.size() - 1; }
  // Whether the splits are in order and within the values.
  bool is_valid() const;
};

struct Padded {
  Buffer values;  // rows * length
  Buffer mask;    // uint8, rows * length: 1 where a value is real
};

// Each row cut, or filled up with `fill`, to `length` values.
Padded pad(const Rows& rows, std::size_t length, const std::uint8_t* fill);

// Puts rows into bins of `capacity` values: longest row first, into the fullest bin that has room. Longer rows count
// as `capacity`. Returns the bin of each row; bins are numbered in the order of their first row.
std::vector<std::int64_t> pack(std::span<const std::int64_t> lengths, std::int64_t capacity, std::int64_t& bins);

struct Packed {
  Buffer values;     // bins * length
  Buffer segments;   // int32: 1, 2, ... for the rows in one bin, 0 where there is none
  Buffer positions;  // int32: place of the value in its row
};

// Lays rows side by side in their bins, in the order given. The rows of a bin must not hold more than `length` values
// together, except for a single row, which is cut.
Packed lay_out(const Rows& rows, std::span<const std::int64_t> bins, std::size_t count, std::size_t length,
               const std::uint8_t* fill);

}  // namespace bushel
