// Lines of JSON as most people have them, flat objects of the same names and kinds, straight to columns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bytes.h"

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

// The objects of some lines, if every line is blank or one object with the names of the first, in its order, each
// holding text or an integer of at most 18 digits as there. Nothing where anything at all is different, or not JSON:
// that is for a parser that knows what is wrong. What is not UTF-8 is copied as it is.
std::optional<JsonRows> parse_flat_lines(Bytes text);

}  // namespace bushel
