// Rows of delimited text in their usual form: what is in each column, without making arrays of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spans.h"

namespace bushel {

struct DelimitedSummary {
  enum class Kind : std::uint8_t { missing, integer, real, text };

  Kind kind = Kind::missing;
  bool has_missing = false;            // values of text that are blank, and others that stand for none, such as NA
  bool has_few = false;                // of text and integers: at most kFewValues distinct values, none of them long
  std::vector<std::int8_t> codes;      // of each row, if it has few: the place of its value below, or -1
  std::vector<std::string> texts;      // distinct values of text, without blanks around them
  std::vector<std::int64_t> integers;  // and of integers
};

struct DelimitedSummaries {
  std::vector<DelimitedSummary> columns;
  std::size_t rows = 0;
  std::size_t newlines = 0;
};

// The columns of some rows of UTF-8, if every row has as many values as `is_text` has columns, two or more, and if each
// column is certain: it is text for any parser, as one of its values is a word, or all values are plain numbers of at
// most 18 digits or stand for none. Columns that `is_text` marks are text anyway, and must hold a word, too. Nothing if
// anything differs, or is quoted in an unusual way: a parser that knows more takes over.
std::optional<DelimitedSummaries> survey_rows(Bytes text, char delimiter, const std::vector<bool>& is_text);

// The same of the rows of a span, which must be UTF-8, and of each of its blocks: they must have a row, and agree in
// what each column holds.
struct DelimitedSpan {
  DelimitedSummaries all;
  std::vector<SpanBlock> blocks;
};
std::optional<DelimitedSpan> survey_row_span(const Span& span, char delimiter, const std::vector<bool>& is_text);

// Where the last line ends, and how many quotes are before that.
struct LastLine {
  std::size_t end = 0;  // 0: no line ends
  std::size_t quotes = 0;
};
LastLine find_last_line(Bytes text);

}  // namespace bushel
