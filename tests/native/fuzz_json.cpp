// Any bytes as lines of JSON: columns are as long as each other, lie within their buffers, and come out the same when
// they are written as JSON and parsed again. A survey takes the same lines, and finds the same values.
#include <cstdio>
#include <cstdlib>

#include "json.h"

using namespace bushel;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

std::string_view text_of(const JsonColumn& column, std::size_t row) {
  const auto begin = static_cast<std::size_t>(column.offsets[row]),
             end = static_cast<std::size_t>(column.offsets[row + 1]);
  return {reinterpret_cast<const char*>(column.data.data()) + begin, end - begin};
}

void check(const JsonColumn& column, std::size_t rows) {
  if (!column.is_text) {
    demand(column.integers.size() == rows);
    for (const std::int64_t value : column.integers)
      demand(value > -1000000000000000000 && value < 1000000000000000000);  // 18 digits
    return;
  }
  demand(column.offsets.size() == rows + 1 && column.offsets[0] == 0);
  for (std::size_t row = 0; row < rows; ++row) demand(column.offsets[row] <= column.offsets[row + 1]);
  demand(static_cast<std::size_t>(column.offsets[rows]) <= column.data.size());
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    char escape[8];
    if (letter == '"' || letter == '\\') out += '\\';
    if (static_cast<unsigned char>(letter) < 0x20) {
      std::snprintf(escape, sizeof escape, "\\u%04x", letter);
      out += escape;
    } else {
      out += letter;
    }
  }
  return out + '"';
}

std::string written(const JsonRows& found) {
  std::string out;
  for (std::size_t row = 0; row < found.rows; ++row) {
    char before = '{';
    for (const JsonColumn& column : found.columns) {
      out += before + quoted(column.name) + ':';
      out += column.is_text ? quoted(text_of(column, row)) : std::to_string(column.integers[row]);
      before = ',';
    }
    out += "}\n";
  }
  return out;
}

void check(const JsonSummary& summary, const JsonColumn& column, std::size_t rows) {
  demand(summary.name == column.name && summary.is_text == column.is_text);
  if (!summary.has_few) return;
  demand(summary.codes.size() == rows && summary.texts.size() + summary.integers.size() <= kFewValues);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto code = static_cast<std::size_t>(summary.codes[row]);
    if (column.is_text)
      demand(summary.texts.at(code) == text_of(column, row));
    else
      demand(summary.integers.at(code) == column.integers[row]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto found = parse_flat_lines({data, size});
  const auto surveyed = survey_flat_lines({data, size});
  demand(surveyed.has_value() == found.has_value());
  if (!found) return 0;
  demand(surveyed->rows == found->rows && surveyed->columns.size() == found->columns.size());
  for (std::size_t i = 0; i < found->columns.size(); ++i) check(surveyed->columns[i], found->columns[i], found->rows);
  for (const JsonColumn& column : found->columns) check(column, found->rows);
  const std::string again = written(*found);
  const auto second = parse_flat_lines({reinterpret_cast<const std::uint8_t*>(again.data()), again.size()});
  if (found->rows == 0) return 0;
  demand(second.has_value() && second->rows == found->rows && second->columns.size() == found->columns.size());
  demand(written(*second) == again);
  for (std::size_t i = 0; i < found->columns.size(); ++i) demand(second->columns[i].name == found->columns[i].name);
  return 0;
}
