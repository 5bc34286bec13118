// The distinct values of a column while they are few, as they are written.
#pragma once

#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <vector>

#include "bytes.h"

namespace bushel {

inline constexpr std::size_t kFewValues = 127;  // so that a code takes one byte
inline constexpr std::size_t kLongValue = 256;  // bytes of a value that is hardly one of few

class Few {
 public:
  // Takes the value of the next row. Once there are too many values, it takes no more.
  void add(std::string_view value) {
    if (!holds_) return;
    std::size_t slot = hash(value);
    while (slots_[slot] != 0 && values_[slots_[slot] - 1u] != value) slot = (slot + 1) % kSlots;
    if (slots_[slot] == 0) {
      if (values_.size() == kFewValues || value.size() > kLongValue) return forget();
      values_.emplace_back(value);
      slots_[slot] = static_cast<std::uint8_t>(values_.size());
    }
    codes_.push_back(static_cast<std::int8_t>(slots_[slot] - 1));
  }

  void forget() {
    holds_ = false;
    values_.clear();
    codes_ = {};
  }

  bool holds() const { return holds_; }
  const std::vector<std::string>& values() const { return values_; }  // in the order in which they occur
  std::vector<std::int8_t>& codes() { return codes_; }                // the place of each row's value

 private:
  static constexpr std::size_t kSlots = 256;

  static std::size_t hash(std::string_view value) {
    std::uint64_t first = 0, last = 0;
    const std::size_t some = value.size() < 8 ? value.size() : 8;
    std::memcpy(&first, value.data(), some);
    std::memcpy(&last, value.data() + value.size() - some, some);
    return (first ^ std::rotl(last, 29) ^ value.size()) * 0x9e3779b97f4a7c15u >> 56;
  }

  bool holds_ = true;
  std::array<std::uint8_t, kSlots> slots_{};  // the code of a value and one; 0: free
  std::vector<std::string> values_;
  std::vector<std::int8_t> codes_;
};

}  // namespace bushel
