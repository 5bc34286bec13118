// JSON lines in their usual form, flat objects with the same names and kinds, straight to columns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "few.h"
#include "spans.h"

namespace bushel {

struct JsonColumn {
  std::string name;
  bool is_text = false;
  std::vector<std::int32_t> offsets;   // of text: row i is data[offsets[i] : offsets[i + 1]]
  Buffer data;                         // of text; only what offsets.back() says is filled
  std::vector<std::int64_t> integers;  // of integers
};

struct JsonRows {
  std::vector<JsonColumn> columns;
  std::size_t rows = 0;
};

// One column of the same lines, without its values unless they are few.
struct JsonSummary {
  std::string name;
  bool is_text = false;
  bool has_few = true;                 // at most kFewValues distinct ones, none of them long
  std::vector<std::int8_t> codes;      // of each row, if it has few: the place of its value below
  std::vector<std::string> texts;      // distinct values in the order in which they occur, of text
  std::vector<std::int64_t> integers;  // and of integers
};

struct JsonSummaries {
  std::vector<JsonSummary> columns;
  std::size_t rows = 0;
  std::size_t newlines = 0;
};

// The objects of some lines, if every line is blank or holds one object with the names of the first, in its order, each
// with text or an integer of at most 18 digits, as in the first. Nothing if anything differs or is not JSON: a parser
// that can say what is wrong takes over. Bytes that are not UTF-8 are copied as they are.
std::optional<JsonRows> parse_flat_lines(Bytes text);

// What is in the lines that `parse_flat_lines` parses, several times as fast, since nothing is copied.
std::optional<JsonSummaries> survey_flat_lines(Bytes text);

// The same of the lines of a span, which must be UTF-8, and of each of its blocks, which must have a row.
struct JsonSpan {
  JsonSummaries all;
  std::vector<SpanBlock> blocks;
};
std::optional<JsonSpan> survey_flat_span(const Span& span);

}  // namespace bushel
