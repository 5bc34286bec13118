// One sample at a time to a record: values of a program, checked against their features.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "encode.h"

namespace bushel {

// Why a sample was not encoded. building/output/writer.py has the messages and uses the same numbers.
enum class Refusal : std::uint8_t {
  none = 0,
  unknown = 1,     // no such feature
  missing = 2,     // a feature that is required
  wrong_kind = 3,  // a value of another kind
  shape = 4,       // a value of another shape
  range = 5,       // an integer beyond int64, or a float beyond float32
  inexact = 6,     // an integer beyond 2^24 where float32 is stored
  too_large = 7,   // the record, beyond kMaxRecord
};

inline constexpr std::int64_t kAny = -1;  // in a shape: any size

struct SampleFeature {
  std::string name;
  Kind kind = Kind::none;
  std::vector<std::int64_t> shape;
  bool required = true;
};

// A value in its own type. Exactly one of the spans is in use, as `form` says.
struct Value {
  enum class Form : std::uint8_t { ints, unsigneds, doubles, floats, strings };
  std::string_view name;
  Form form = Form::ints;
  std::span<const std::int64_t> ints;
  std::span<const std::uint64_t> unsigneds;
  std::span<const double> doubles;
  std::span<const float> floats;
  std::span<const Bytes> strings;
  std::vector<std::int64_t> shape;  // empty: one value

  std::size_t count() const;
};

// The largest difference that storing a feature as float32 made, and where.
struct Narrowing {
  double largest = 0;
  double value = 0;
};

class SampleEncoder {
 public:
  struct Result {
    Refusal refusal = Refusal::none;
    std::size_t value = 0;  // which one, or which feature where one is missing
    std::size_t at = 0;     // in the value
    Encoded encoded;
  };

  // Adds a feature, or replaces the one of that name.
  void add(SampleFeature feature);

  Result encode(std::span<const Value> values);

  const std::vector<SampleFeature>& features() const { return features_; }
  const std::vector<Narrowing>& narrowings() const { return narrowings_; }

 private:
  Refusal view(const Value& value, std::size_t feature, ColumnView& out, std::size_t& at);
  Refusal view_numbers(const Value& value, std::size_t feature, ColumnView& out, std::size_t& at);
  void view_strings(const Value& value, ColumnView& out);

  std::vector<SampleFeature> features_;
  std::vector<Narrowing> narrowings_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::vector<bool> seen_;
  // Converted values, kept while one sample is encoded.
  std::deque<std::vector<std::int64_t>> ints_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::uint8_t>> data_;
};

}  // namespace bushel
