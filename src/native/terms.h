// Terms, which are runs of tokens: counted over all texts, weighed, or hashed into sparse rows.
#pragma once

#include <string>

#include "tokens.h"

namespace bushel {

// Which terms a text has: runs of `shortest` to `longest` tokens, words joined by a space, characters by nothing.
struct TermsOf {
  Unit unit = Unit::word;
  std::size_t shortest = 1, longest = 1;  // 1 <= shortest <= longest
};

// How often each term occurs, and in how many texts.
class TermCounter {
 public:
  explicit TermCounter(TermsOf terms = {}) : terms_(terms), slots_(1024) {}

  void add(const Texts& texts);
  // Adds what was counted elsewhere: per term, its count and its number of texts.
  void add_counts(const Texts& terms, std::span<const std::int64_t> counts, std::span<const std::int64_t> texts);

  std::size_t size() const { return entries_.size(); }

  struct alignas(64) Entry {  // one cache line
    Head head;
    std::uint64_t hash;
    std::size_t begin, size;  // in `data`
    std::int64_t count = 0;
    std::int64_t texts = 0;
    std::int64_t last = -1;  // text that it was seen in
  };

  // As they were first seen.
  const std::vector<Entry>& entries() const { return entries_; }
  // The most frequent terms first, those of the same count by their bytes, which is by code point.
  std::vector<Entry> ranked() const;
  Bytes term(const Entry& entry) const { return Bytes(data_).subspan(entry.begin, entry.size); }

 private:
  Entry& entry_of(const Sought& term);
  // Prefetches what entry_of will most likely read.
  void prefetch_entries(std::span<const Sought> terms) const;

  TermsOf terms_;
  std::vector<std::uint8_t> data_;
  std::vector<Entry> entries_;
  HashSlots slots_;
  std::int64_t text_ = 0;
};

enum class Norm : std::uint8_t { none, l1, l2 };

struct Weighing {
  Norm norm = Norm::l2;
  bool sublinear = false;  // 1 + ln(count) instead of the count
  bool binary = false;     // 1 instead of the count
};

struct SparseRows {
  Buffer indices;  // int64, ascending in each row
  Buffer values;   // float32
  Buffer splits;   // int64, rows + 1
};

// count * weights[term] for the terms of each row that are in the vocabulary: place i is the vocabulary's i-th term.
// `weights` must have one number per term.
SparseRows weigh_terms(const Texts& texts, TermsOf terms, const Vocabulary& vocabulary, std::span<const double> weights,
                       Weighing weighing);

// count of the terms of each row by their hash (MurmurHash3, 32 bit) modulo `size`, which is 1 to 2^31 - 1; with
// `is_signed`, less those whose hash is negative. As scikit-learn's HashingVectorizer has them.
SparseRows hash_terms(const Texts& texts, TermsOf terms, std::int64_t size, bool is_signed, Weighing weighing);

std::int32_t murmur3(Bytes data);

// Calls each(term) for every term of a text. The term lives until the next call.
template <typename Each>
void for_each_term(Bytes text, TermsOf terms, std::vector<Bytes>& tokens, std::string& joined, Each&& each) {
  if (terms.longest == 1) {
    for_each_token(text, terms.unit, each);
    return;
  }
  tokens.clear();
  for_each_token(text, terms.unit, [&](Bytes token) { tokens.push_back(token); });
  const bool is_spaced = terms.unit == Unit::word || terms.unit == Unit::whitespace;
  for (std::size_t first = 0; first < tokens.size(); ++first) {
    joined.clear();
    for (std::size_t n = 1; n <= terms.longest && first + n <= tokens.size(); ++n) {
      const Bytes token = tokens[first + n - 1];
      if (n > 1 && is_spaced) joined.push_back(' ');
      joined.append(reinterpret_cast<const char*>(token.data()), token.size());
      if (n >= terms.shortest) each(Bytes(reinterpret_cast<const std::uint8_t*>(joined.data()), joined.size()));
    }
  }
}

}  // namespace bushel
