// Some records as rows of numbers, by which a check compares them.
#pragma once

#include <vector>

#include "example.h"

namespace bushel {

struct MatrixColumn {
  Name name;
  std::size_t width = 1;  // how many values a record holds
};

struct Matrix {
  std::vector<double> values;       // row by row; NaN for what is missing, infinite, or not of the column's width
  std::vector<std::uint8_t> texts;  // by column: 1 if it holds bytes, which stand as hashes
};

// The columns of the records at `extents`. Each extent is checked against `file`; a record at fault is a row of NaN.
Matrix matrix_of(Bytes file, std::span<const Extent> extents, const std::vector<MatrixColumn>& columns);

}  // namespace bushel
