#include <cmath>

#include "check.h"
#include "terms.h"
#include "texts.h"

using namespace bushel;

namespace {

std::string ranked(const TermCounter& counter) {
  std::string all;
  for (const TermCounter::Entry& entry : counter.ranked())
    all += texts::string(counter.term(entry)) + ":" + std::to_string(entry.count) + "/" + std::to_string(entry.texts) +
           " ";
  return all;
}

std::string shown(const SparseRows& rows) {
  std::string all;
  const auto* splits = rows.splits.as<std::int64_t>();
  for (std::size_t row = 0; row + 1 < rows.splits.size() / sizeof(std::int64_t); ++row) {
    for (std::int64_t at = splits[row]; at < splits[row + 1]; ++at)
      all += std::to_string(rows.indices.as<std::int64_t>()[at]) + "=" +
             std::to_string(std::lround(rows.values.as<float>()[at] * 1000)) + " ";
    all += "| ";
  }
  return all;
}

}  // namespace

TEST(terms, are_counted_and_ranked_by_count_then_bytes) {
  TermCounter counter;
  counter.add(texts::Rows({"b a b", "", "a c"}).view());
  CHECK(ranked(counter) == "a:2/2 b:2/1 c:1/1 ");
  TermCounter other;
  other.add(texts::Rows({"c c d"}).view());
  const texts::Rows terms({"c", "d"});
  const std::vector<std::int64_t> counts = {2, 1}, rows = {1, 1};
  counter.add_counts(terms.view(), counts, rows);
  CHECK(ranked(counter) == "c:3/2 a:2/2 b:2/1 d:1/1 ");
}

TEST(terms, are_runs_of_tokens) {
  TermCounter pairs({Unit::word, 2, 2}), all({Unit::word, 1, 3}), letters({Unit::character, 2, 2});
  const texts::Rows rows({"a b, c"});
  pairs.add(rows.view());
  CHECK(ranked(pairs) == "a b:1/1 b c:1/1 ");
  all.add(rows.view());
  CHECK(ranked(all) == "a:1/1 a b:1/1 a b c:1/1 b:1/1 b c:1/1 c:1/1 ");
  letters.add(texts::Rows({"\xc3\xa9t\xc3\xa9"}).view());
  CHECK(ranked(letters) == "t\xc3\xa9:1/1 \xc3\xa9t:1/1 ");
}

TEST(terms, the_table_grows) {
  TermCounter counter;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += std::to_string(i % 25'000) + " ";
  counter.add(texts::Rows({text}).view());
  CHECK(counter.size() == 25'000);
  for (const TermCounter::Entry& entry : counter.ranked()) CHECK(entry.count == 2 && entry.texts == 1);
}

TEST(terms, are_weighed_in_the_order_of_the_vocabulary) {
  const texts::Rows known({"a", "b"}), rows({"b a b x", "", "x"});
  const Vocabulary vocabulary(known.view());
  const std::vector<double> weights = {3, 2};
  const auto weigh = [&](Weighing weighing) {
    return shown(weigh_terms(rows.view(), {}, vocabulary, weights, weighing));
  };
  CHECK(weigh({Norm::none}) == "0=3000 1=4000 | | | ");
  CHECK(weigh({Norm::l2}) == "0=600 1=800 | | | ");
  CHECK(weigh({Norm::l1}) == "0=429 1=571 | | | ");
  CHECK(weigh({Norm::none, true}) == "0=3000 1=3386 | | | ");
  CHECK(weigh({Norm::none, false, true}) == "0=3000 1=2000 | | | ");
}

TEST(terms, hashes_are_those_of_murmur3) {
  CHECK(murmur3({}) == 0);
  CHECK(static_cast<std::uint32_t>(murmur3(texts::bytes("hello"))) == 0x248bfa47u);
  CHECK(static_cast<std::uint32_t>(murmur3(texts::bytes("The quick brown fox jumps over the lazy dog"))) ==
        0x2e4ff723u);
}

TEST(terms, hashed_places_are_below_the_size_and_signs_cancel) {
  const texts::Rows rows({"hello hello world", ""});
  CHECK(shown(hash_terms(rows.view(), {}, 1, false, {Norm::none})) == "0=3000 | | ");
  const SparseRows wide = hash_terms(rows.view(), {}, 1 << 20, true, {Norm::none});
  CHECK(wide.indices.size() == 2 * sizeof(std::int64_t));
  CHECK(wide.indices.as<std::int64_t>()[1] < 1 << 20);
}
