#include "matrix.h"

#include <cmath>
#include <limits>

#include "hash.h"

namespace bushel {

namespace {

constexpr unsigned kBeyondDouble = 12;  // bits of a hash that a double does not hold exactly

bool is_inside(Bytes file, Extent extent) {
  constexpr std::size_t kFrame = kHeader + kFooter;
  return extent.offset <= file.size() && file.size() - extent.offset >= kFrame &&
         file.size() - extent.offset - kFrame >= extent.length;
}

class RowMaker {
 public:
  RowMaker(Bytes file, Matrix& matrix) : file_(file), matrix_(matrix) {}

  // Fills the values of one feature, which are NaN before, as far as they are of this width.
  void fill(Slice slice, std::size_t column, std::size_t width, double* out) {
    if (!slice.data || !feature_.open(slice, file_) || feature_.kind() == Kind::none) return;
    if (feature_.kind() == Kind::bytes) matrix_.texts[column] = 1;
    if (feature_.count() != width) return;
    if (feature_.kind() == Kind::bytes) {
      if (width != 1) return;
      feature_.for_each_bytes([&](Bytes text) { *out = static_cast<double>(xxh64(text, 0) >> kBeyondDouble); });
    } else if (feature_.kind() == Kind::floats) {
      floats_.resize(width);
      feature_.fill(floats_.data());
      for (std::size_t i = 0; i < width; ++i)
        if (std::isfinite(floats_[i])) out[i] = static_cast<double>(floats_[i]);
    } else {
      ints_.resize(width);
      if (!feature_.fill(ints_.data())) return;
      for (std::size_t i = 0; i < width; ++i) out[i] = static_cast<double>(ints_[i]);
    }
  }

 private:
  Bytes file_;
  Matrix& matrix_;
  Feature feature_;
  std::vector<float> floats_;
  std::vector<std::int64_t> ints_;
};

}  // namespace

Matrix matrix_of(Bytes file, std::span<const Extent> extents, const std::vector<MatrixColumn>& columns) {
  std::vector<Name> names;
  std::size_t width = 0;
  for (const MatrixColumn& column : columns) {
    names.push_back(column.name);
    width += column.width;
  }
  Matrix matrix;
  matrix.values.assign(extents.size() * width, std::numeric_limits<double>::quiet_NaN());
  matrix.texts.assign(columns.size(), 0);
  Locator locator(names);
  RowMaker maker(file, matrix);
  for (std::size_t row = 0; row < extents.size(); ++row) {
    const Extent extent = extents[row];
    if (!is_inside(file, extent) || !locator.locate(file.subspan(extent.offset + kHeader, extent.length))) continue;
    double* out = matrix.values.data() + row * width;
    for (std::size_t c = 0; c < columns.size(); out += columns[c++].width)
      maker.fill(locator.slices()[c], c, columns[c].width, out);
  }
  return matrix;
}

}  // namespace bushel
