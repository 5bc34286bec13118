// Texts for tests, as rows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokens.h"

namespace texts {

inline bushel::Bytes bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

inline std::string string(bushel::Bytes data) { return {data.begin(), data.end()}; }

struct Rows {
  std::string data;
  std::vector<std::int64_t> offsets{0};

  explicit Rows(const std::vector<std::string>& rows) {
    for (const std::string& row : rows) {
      data += row;
      offsets.push_back(static_cast<std::int64_t>(data.size()));
    }
  }
  bushel::Texts view() const { return {offsets, bytes(data)}; }
};

inline std::vector<std::string> tokens(std::string_view text, bushel::Unit unit) {
  std::vector<std::string> found;
  bushel::for_each_token(bytes(text), unit, [&](bushel::Bytes token) { found.push_back(string(token)); });
  return found;
}

}  // namespace texts
