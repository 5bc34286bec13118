#include <cmath>
#include <limits>

#include "build.h"
#include "check.h"
#include "rows.h"
#include "sample.h"

using namespace bushel;
using build::entry;
using build::example;
using build::framed;

namespace {

template <typename T>
Value value_of(std::string_view name, Value::Form form, std::span<const T> Value::* member,
               const std::vector<T>& values, std::vector<std::int64_t> shape) {
  Value value;
  value.name = name;
  value.form = form;
  value.*member = values;
  value.shape = std::move(shape);
  return value;
}

SampleEncoder encoder_of(std::vector<SampleFeature> features) {
  SampleEncoder encoder;
  for (SampleFeature& feature : features) encoder.add(std::move(feature));
  return encoder;
}

std::string bytes_of(const SampleEncoder::Result& result) { return rows::bytes_of(result.encoded); }

}  // namespace

TEST(sample, a_sample_is_the_record_of_its_values) {
  SampleEncoder encoder = encoder_of({{"x", Kind::floats, {2}, true}, {"n", Kind::int64s, {}, true}});
  const std::vector<float> x = {1, 2};
  const std::vector<std::int64_t> n = {3};
  const std::vector<Value> values = {value_of("x", Value::Form::floats, &Value::floats, x, {2}),
                                     value_of("n", Value::Form::ints, &Value::ints, n, {})};
  const auto result = encoder.encode(values);
  CHECK(result.refusal == Refusal::none);
  CHECK(bytes_of(result) == framed(example(entry("n", build::ints({3})) + entry("x", build::floats({1, 2})))));
}

TEST(sample, what_does_not_fit_is_refused_with_its_place) {
  SampleEncoder encoder = encoder_of(
      {{"i", Kind::int64s, {kAny}, true}, {"f", Kind::floats, {kAny}, false}, {"b", Kind::bytes, {}, false}});
  const std::vector<std::uint64_t> large = {1, UINT64_MAX};
  const std::vector<double> wide = {0.5, 1e39};
  const std::vector<std::int64_t> exact = {1 << 24, -(1 << 24)}, inexact = {0, 0, (1 << 24) + 1};
  const auto refuse = [&](Value value) {
    const std::vector<Value> values = {std::move(value)};
    return encoder.encode(values);
  };
  const auto i = refuse(value_of("i", Value::Form::unsigneds, &Value::unsigneds, large, {2}));
  CHECK(i.refusal == Refusal::range && i.at == 1);
  const auto f = refuse(value_of("f", Value::Form::doubles, &Value::doubles, wide, {2}));
  CHECK(f.refusal == Refusal::range && f.at == 1);
  const auto n = refuse(value_of("f", Value::Form::ints, &Value::ints, inexact, {3}));
  CHECK(n.refusal == Refusal::inexact && n.at == 2);
  CHECK(refuse(value_of("f", Value::Form::ints, &Value::ints, exact, {2})).refusal ==
        Refusal::missing);  // i, but f is taken
  CHECK(refuse(value_of("i", Value::Form::doubles, &Value::doubles, wide, {2})).refusal == Refusal::wrong_kind);
  CHECK(refuse(value_of("b", Value::Form::ints, &Value::ints, exact, {2})).refusal == Refusal::wrong_kind);
  CHECK(refuse(value_of("?", Value::Form::ints, &Value::ints, exact, {2})).refusal == Refusal::unknown);
}

TEST(sample, shapes_are_compared_and_one_value_may_come_as_a_list_of_one) {
  SampleEncoder encoder = encoder_of({{"x", Kind::int64s, {}, true}});
  const std::vector<std::int64_t> one = {1}, two = {1, 2};
  const auto refusal = [&](const std::vector<std::int64_t>& values, std::vector<std::int64_t> shape) {
    const std::vector<Value> sample = {value_of("x", Value::Form::ints, &Value::ints, values, std::move(shape))};
    return encoder.encode(sample).refusal;
  };
  CHECK(refusal(one, {}) == Refusal::none && refusal(one, {1}) == Refusal::none);
  CHECK(refusal(two, {2}) == Refusal::shape && refusal(one, {1, 1}) == Refusal::shape);
  encoder.add({"x", Kind::int64s, {kAny}, true});  // replaces
  CHECK(refusal(two, {2}) == Refusal::none && refusal(one, {}) == Refusal::none && refusal({}, {0}) == Refusal::none);
  CHECK(refusal(two, {1, 2}) == Refusal::shape && encoder.features().size() == 1);
}

TEST(sample, narrowing_keeps_its_largest_error_and_special_values_are_none) {
  SampleEncoder encoder = encoder_of({{"x", Kind::floats, {kAny}, true}});
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {0.5, 0.1, 1e9 + 0.3, std::nan(""), infinity, -infinity};
  const std::vector<Value> sample = {value_of("x", Value::Form::doubles, &Value::doubles, values, {6})};
  CHECK(encoder.encode(sample).refusal == Refusal::none);
  const Narrowing found = encoder.narrowings()[0];
  CHECK(found.value == 1e9 + 0.3 && found.largest == std::abs(found.value - static_cast<float>(found.value)));
}

TEST(sample, texts_are_joined_and_empty_ones_kept) {
  SampleEncoder encoder = encoder_of({{"b", Kind::bytes, {kAny}, true}});
  const build::Exact a("ab"), c("c");
  for (const std::vector<Bytes>& texts :
       {std::vector<Bytes>{a.bytes(), {}, c.bytes()}, std::vector<Bytes>{a.bytes()}, std::vector<Bytes>{}}) {
    const std::vector<Value> sample = {
        value_of("b", Value::Form::strings, &Value::strings, texts, {static_cast<std::int64_t>(texts.size())})};
    std::vector<std::string> expected;
    for (const Bytes text : texts) expected.emplace_back(build::text(text));
    CHECK(bytes_of(encoder.encode(sample)) == framed(example(entry("b", build::strings(expected)))));
  }
}
