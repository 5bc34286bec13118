#include <cmath>

#include "build.h"
#include "check.h"
#include "hash.h"
#include "matrix.h"

using namespace bushel;
using build::entry;
using build::example;
using build::floats;
using build::ints;
using build::strings;

namespace {

double hash_of(std::string_view text) {
  return static_cast<double>(xxh64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, 0) >> 12);
}

}  // namespace

TEST(matrix, values_stand_in_the_columns_of_their_features) {
  const build::Exact file(build::file_of({example(entry("v", floats({1, 2})) + entry("i", ints({-7}))),
                                          example(entry("t", strings({"word"})) + entry("v", floats({3, 4})))}));
  const std::vector<Extent> extents = scan(file.bytes(), 0, 9, UINT64_MAX).extents;
  const Matrix m = matrix_of(file.bytes(), extents, {{{"i"}, 1}, {{"v"}, 2}, {{"t"}, 1}});
  CHECK(m.values.size() == 8 && m.values[0] == -7 && m.values[1] == 1 && m.values[2] == 2 && std::isnan(m.values[3]));
  CHECK(std::isnan(m.values[4]) && m.values[5] == 3 && m.values[6] == 4 && m.values[7] == hash_of("word"));
  CHECK(m.texts[0] == 0 && m.texts[1] == 0 && m.texts[2] == 1);
}

TEST(matrix, what_is_infinite_or_of_another_width_is_missing) {
  const build::Exact file(build::file_of({example(entry("v", floats({INFINITY, 2}))), example(entry("v", floats({1}))),
                                          example(entry("v", strings({"a", "b"}))), "not an example"}));
  const std::vector<Extent> extents = scan(file.bytes(), 0, 9, UINT64_MAX).extents;
  const Matrix m = matrix_of(file.bytes(), extents, {{{"v"}, 2}});
  CHECK(extents.size() == 4 && m.values.size() == 8 && m.values[1] == 2);
  for (const std::size_t at : {0, 2, 3, 4, 5, 6, 7}) CHECK(std::isnan(m.values[at]));
}

TEST(matrix, extents_beyond_the_file_are_rows_without_values) {
  const build::Exact file(build::file_of({example(entry("i", ints({1})))}));
  const std::uint64_t size = file.bytes().size();
  const std::vector<Extent> wrong = {{0, size}, {size, 0}, {UINT64_MAX, 1}, {0, UINT64_MAX}, {size - 1, 1}};
  for (const double value : matrix_of(file.bytes(), wrong, {{{"i"}, 1}}).values) CHECK(std::isnan(value));
}
