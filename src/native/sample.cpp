#include "sample.h"

#include <cmath>

namespace bushel {

namespace {

constexpr std::int64_t kExactInFloat = std::int64_t{1} << 24;

bool fits(const std::vector<std::int64_t>& wanted, const std::vector<std::int64_t>& shape) {
  // One value may come as itself or as a list of one.
  if (wanted.empty() && shape.size() == 1) return shape[0] == 1;
  if (wanted.size() == 1 && shape.empty()) return wanted[0] == 1 || wanted[0] == kAny;
  if (wanted.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (wanted[i] != kAny && wanted[i] != shape[i]) return false;
  return true;
}

Kind kind_of(Value::Form form) {
  switch (form) {
    case Value::Form::ints:
    case Value::Form::unsigneds:
      return Kind::int64s;
    case Value::Form::doubles:
    case Value::Form::floats:
      return Kind::floats;
    case Value::Form::strings:
      return Kind::bytes;
  }
  return Kind::none;
}

}  // namespace

std::size_t Value::count() const {
  switch (form) {
    case Form::ints:
      return ints.size();
    case Form::unsigneds:
      return unsigneds.size();
    case Form::doubles:
      return doubles.size();
    case Form::floats:
      return floats.size();
    case Form::strings:
      return strings.size();
  }
  return 0;
}

void SampleEncoder::add(SampleFeature feature) {
  const auto [at, is_new] = by_name_.emplace(feature.name, features_.size());
  if (is_new) {
    features_.push_back(std::move(feature));
    narrowings_.emplace_back();
  } else {
    features_[at->second] = std::move(feature);
  }
}

void SampleEncoder::view_strings(const Value& value, ColumnView& out) {
  std::size_t size = 0;
  for (const Bytes& text : value.strings) size += text.size();
  std::vector<std::int64_t>& ends = ints_.emplace_back();
  ends.reserve(value.strings.size() + 1);
  ends.push_back(0);
  for (const Bytes& text : value.strings) ends.push_back(ends.back() + static_cast<std::int64_t>(text.size()));
  out.ends = ends.data();
  if (value.strings.size() == 1) {
    out.data = value.strings[0].data();
    return;
  }
  std::vector<std::uint8_t>& data = data_.emplace_back();
  data.reserve(size);
  for (const Bytes& text : value.strings) data.insert(data.end(), text.begin(), text.end());
  out.data = data.data();
}

Refusal SampleEncoder::view_numbers(const Value& value, std::size_t feature, ColumnView& out, std::size_t& at) {
  const bool to_float = out.kind == Kind::floats;
  if (value.form == Value::Form::ints && !to_float) {
    out.ints = value.ints.data();
    return Refusal::none;
  }
  if (value.form == Value::Form::floats) {
    out.floats = value.floats.data();
    return Refusal::none;
  }
  if (value.form == Value::Form::unsigneds && !to_float) {
    std::vector<std::int64_t>& ints = ints_.emplace_back();
    for (at = 0; at < value.unsigneds.size(); ++at) {
      if (value.unsigneds[at] > INT64_MAX) return Refusal::range;
      ints.push_back(static_cast<std::int64_t>(value.unsigneds[at]));
    }
    out.ints = ints.data();
    return Refusal::none;
  }
  std::vector<float>& floats = floats_.emplace_back();
  floats.reserve(value.count());
  out.floats = floats.data();
  if (value.form == Value::Form::doubles) {
    Narrowing& narrowing = narrowings_[feature];
    for (at = 0; at < value.doubles.size(); ++at) {
      const double wide = value.doubles[at];
      const float narrow = static_cast<float>(wide);
      if (std::isinf(narrow) && !std::isinf(wide)) return Refusal::range;
      const double difference = std::abs(wide - static_cast<double>(narrow));
      if (difference > narrowing.largest) narrowing = {difference, wide};
      floats.push_back(narrow);
    }
    return Refusal::none;
  }
  for (at = 0; at < value.count(); ++at) {
    const bool is_signed = value.form == Value::Form::ints;
    if (is_signed ? std::abs(static_cast<double>(value.ints[at])) > kExactInFloat
                  : value.unsigneds[at] > static_cast<std::uint64_t>(kExactInFloat))
      return Refusal::inexact;
    floats.push_back(is_signed ? static_cast<float>(value.ints[at]) : static_cast<float>(value.unsigneds[at]));
  }
  return Refusal::none;
}

Refusal SampleEncoder::view(const Value& value, std::size_t feature, ColumnView& out, std::size_t& at) {
  const SampleFeature& wanted = features_[feature];
  const Kind kind = kind_of(value.form);
  const bool int_as_float = wanted.kind == Kind::floats && kind == Kind::int64s;
  // An empty list has no kind.
  const bool any_kind = value.count() == 0;
  if (kind != wanted.kind && !int_as_float && !any_kind) return Refusal::wrong_kind;
  if (!fits(wanted.shape, value.shape)) return Refusal::shape;
  out.name = wanted.name;
  out.kind = wanted.kind;
  out.width = value.count();
  if (any_kind && wanted.kind != Kind::bytes) return Refusal::none;
  if (wanted.kind != Kind::bytes) return view_numbers(value, feature, out, at);
  view_strings(value, out);
  return Refusal::none;
}

SampleEncoder::Result SampleEncoder::encode(std::span<const Value> values) {
  ints_.clear();
  floats_.clear();
  data_.clear();
  seen_.assign(features_.size(), false);
  Result result;
  std::vector<ColumnView> columns(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    result.value = i;
    const auto found = by_name_.find(std::string(values[i].name));
    if (found == by_name_.end()) {
      result.refusal = Refusal::unknown;
      return result;
    }
    seen_[found->second] = true;
    result.refusal = view(values[i], found->second, columns[i], result.at);
    if (result.refusal != Refusal::none) return result;
  }
  for (std::size_t i = 0; i < features_.size(); ++i) {
    if (seen_[i] || !features_[i].required) continue;
    result.value = i;
    result.refusal = Refusal::missing;
    return result;
  }
  result.encoded = bushel::encode(std::move(columns), 1, 1);
  if (result.encoded.too_large) result.refusal = Refusal::too_large;
  return result;
}

}  // namespace bushel
