// What a set of records holds: the facts that a schema is inferred from.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "example.h"

namespace bushel {

enum class Format : std::uint8_t { other = 0, jpeg = 1, png = 2, gif = 3, webp = 4, bmp = 5, tiff = 6 };
inline constexpr std::size_t kFormats = 7;

// By the first bytes.
Format format_of(Bytes data);
// UTF-8 without control characters, except for whitespace.
bool is_text(Bytes data);

struct FeatureFacts {
  std::string name;
  bool sequence = false;
  std::uint64_t records = 0;                                        // that have it (a list: an entry)
  std::array<std::uint64_t, 4> kinds{};                             // Features of each kind, by Kind
  std::uint64_t min_count = UINT64_MAX, max_count = 0, values = 0;  // values per Feature, and in all
  std::uint64_t min_steps = UINT64_MAX, max_steps = 0;              // of lists, per record
  std::uint64_t wire_bytes = 0;                                     // what it costs in the file
  std::int64_t min_int = INT64_MAX, max_int = INT64_MIN;
  float min_float = 0, max_float = 0;  // of the finite ones
  std::uint64_t finite = 0, nans = 0, infinities = 0;
  std::uint64_t min_size = UINT64_MAX, max_size = 0;  // of bytes values
  bool text = true;
  std::array<std::uint64_t, kFormats> formats{};  // of bytes values, by Format
};

class Survey {
 public:
  Survey() : locator_({}, Locator::Others::add) {}

  // Looks at the records at `extents` of `file`, which scan() has found there. Returns those at fault.
  std::vector<RowFault> add(Bytes file, std::span<const Extent> extents, bool verify);

  std::uint64_t records() const { return records_; }        // without those at fault
  std::uint64_t with_lists() const { return with_lists_; }  // that can only be SequenceExamples
  std::uint64_t empty() const { return empty_; }            // of no bytes, or without any feature
  const std::vector<FeatureFacts>& features() const { return facts_; }

 private:
  bool is_readable(int& column);
  bool decode(Slice feature);
  void take_record();
  void take_feature(FeatureFacts& facts, Slice feature);
  void take_values(FeatureFacts& facts);

  Bytes file_;
  Locator locator_;
  Feature feature_;
  std::vector<std::int64_t> ints_;
  std::vector<float> floats_;
  std::vector<FeatureFacts> facts_;
  std::uint64_t records_ = 0, with_lists_ = 0, empty_ = 0;
};

}  // namespace bushel
