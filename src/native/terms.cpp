#include "terms.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace bushel {

namespace {

struct Weight {
  std::int64_t index;
  double value;
};

// Rows of weights, one after the other.
class RowWriter {
 public:
  explicit RowWriter(std::size_t rows) { splits_.reserve(rows + 1); }

  // Takes the weights of one more row, whose places may come repeatedly and in any order.
  template <typename Scale>
  void add(std::vector<Weight>& row, Weighing weighing, Scale&& scale) {
    std::stable_sort(row.begin(), row.end(), [](const Weight& a, const Weight& b) { return a.index < b.index; });
    const std::size_t begin = weights_.size();
    for (std::size_t at = 0; at < row.size();) {
      Weight sum{row[at].index, 0};
      for (; at < row.size() && row[at].index == sum.index; ++at) sum.value += row[at].value;
      if (sum.value == 0) continue;  // positive and negative ones cancel out
      if (weighing.binary) sum.value = 1;
      if (weighing.sublinear) sum.value = 1 + std::log(sum.value);
      sum.value *= scale(sum.index);
      weights_.push_back(sum);
    }
    normalise(begin, weighing.norm);
    splits_.push_back(static_cast<std::int64_t>(weights_.size()));
  }

  SparseRows finish() const {
    SparseRows out{Buffer(weights_.size() * sizeof(std::int64_t)), Buffer(weights_.size() * sizeof(float)),
                   Buffer((splits_.size() + 1) * sizeof(std::int64_t))};
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      out.indices.as<std::int64_t>()[i] = weights_[i].index;
      out.values.as<float>()[i] = static_cast<float>(weights_[i].value);
    }
    out.splits.as<std::int64_t>()[0] = 0;
    std::copy(splits_.begin(), splits_.end(), out.splits.as<std::int64_t>() + 1);
    return out;
  }

 private:
  void normalise(std::size_t begin, Norm norm) {
    if (norm == Norm::none) return;
    double sum = 0;
    for (std::size_t i = begin; i < weights_.size(); ++i)
      sum += norm == Norm::l1 ? std::abs(weights_[i].value) : weights_[i].value * weights_[i].value;
    if (sum == 0) return;
    const double length = norm == Norm::l1 ? sum : std::sqrt(sum);
    for (std::size_t i = begin; i < weights_.size(); ++i) weights_[i].value /= length;
  }

  std::vector<Weight> weights_;
  std::vector<std::int64_t> splits_;
};

}  // namespace

TermCounter::Entry& TermCounter::entry_of(const Sought& given) {
  const auto [term, head, hash] = given;
  const auto is_same = [&](std::size_t place) {
    const Entry& entry = entries_[place];
    return entry.head == given.head && entry.size == given.token.size() &&
           (entry.size <= 16 || std::memcmp(data_.data() + entry.begin, given.token.data(), entry.size) == 0);
  };
  const std::int64_t place = slots_.find(hash, is_same);
  if (place >= 0) return entries_[static_cast<std::size_t>(place)];
  slots_.put(place, hash, entries_.size());
  entries_.push_back({head, hash, data_.size(), term.size()});
  data_.insert(data_.end(), term.begin(), term.end());
  if (entries_.size() >= slots_.capacity()) {
    slots_ = HashSlots(2 * entries_.size());
    const auto is_none = [](std::size_t) { return false; };
    for (std::size_t i = 0; i < entries_.size(); ++i)
      slots_.put(slots_.find(entries_[i].hash, is_none), entries_[i].hash, i);
  }
  return entries_.back();
}

void TermCounter::add(const Texts& texts) {
  std::vector<Bytes> tokens;
  std::string joined;
  const auto count = [&](Entry& entry) {
    ++entry.count;
    entry.texts += entry.last != text_;
    entry.last = text_;
  };
  if (terms_.longest > 1) {
    for (std::size_t i = 0; i < texts.count(); ++i, ++text_)
      for_each_term(texts.row(i), terms_, tokens, joined,
                    [&](Bytes term) { count(entry_of(sought(term, term.data() + term.size()))); });
    return;
  }
  std::vector<Sought> row;
  for (std::size_t i = 0; i < texts.count(); ++i, ++text_) {
    row.clear();
    for_each_token(texts.row(i), terms_.unit, [&](Bytes token) {
      row.push_back(sought(token, texts.data.data() + texts.data.size()));
      slots_.prefetch(row.back().hash);
    });
    prefetch_entries(row);
    for (const Sought& token : row) count(entry_of(token));
  }
}

void TermCounter::add_counts(const Texts& terms, std::span<const std::int64_t> counts,
                             std::span<const std::int64_t> texts) {
  constexpr std::size_t kTogether = 256;  // looked up at a time: memory is prefetched for all of them first
  std::vector<Sought> some;
  if (entries_.empty()) {
    entries_.reserve(terms.count());
    slots_ = HashSlots(terms.count() + 1024);
  }
  for (std::size_t first = 0; first < terms.count(); first += kTogether) {
    const std::size_t end = std::min(terms.count(), first + kTogether);
    some.clear();
    for (std::size_t i = first; i < end; ++i) {
      some.push_back(sought(terms.row(i), terms.data.data() + terms.data.size()));
      slots_.prefetch(some.back().hash);
    }
    prefetch_entries(some);
    for (std::size_t i = first; i < end; ++i) {
      Entry& entry = entry_of(some[i - first]);
      entry.count += counts[i];
      entry.texts += texts[i];
    }
  }
}

void TermCounter::prefetch_entries(std::span<const Sought> terms) const {
  if (entries_.empty()) return;
  for (const Sought& term : terms) __builtin_prefetch(&entries_[slots_.guess(term.hash)]);
}

std::vector<TermCounter::Entry> TermCounter::ranked() const {
  std::vector<Entry> entries = entries_;
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    if (a.count != b.count) return a.count > b.count;
    const Bytes one = term(a), other = term(b);
    return std::lexicographical_compare(one.begin(), one.end(), other.begin(), other.end());
  });
  return entries;
}

SparseRows weigh_terms(const Texts& texts, TermsOf terms, const Vocabulary& vocabulary, std::span<const double> weights,
                       Weighing weighing) {
  RowWriter out(texts.count());
  std::vector<Bytes> tokens;
  std::string joined;
  std::vector<Weight> row;
  for (std::size_t i = 0; i < texts.count(); ++i) {
    row.clear();
    for_each_term(texts.row(i), terms, tokens, joined, [&](Bytes term) {
      const std::int64_t id = vocabulary.find(term);
      if (id != kUnknown) row.push_back({id - kReserved, 1});
    });
    out.add(row, weighing, [&](std::int64_t index) { return weights[static_cast<std::size_t>(index)]; });
  }
  return out.finish();
}

SparseRows hash_terms(const Texts& texts, TermsOf terms, std::int64_t size, bool is_signed, Weighing weighing) {
  RowWriter out(texts.count());
  std::vector<Bytes> tokens;
  std::string joined;
  std::vector<Weight> row;
  for (std::size_t i = 0; i < texts.count(); ++i) {
    row.clear();
    for_each_term(texts.row(i), terms, tokens, joined, [&](Bytes term) {
      const std::int64_t hash = murmur3(term);
      // The least 32-bit number has no positive counterpart there, and scikit-learn gives it this place.
      constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
      const std::int64_t index = (hash == -kMost - 1 ? kMost - (size - 1) : std::abs(hash)) % size;
      row.push_back({index, is_signed && hash < 0 ? -1.0 : 1.0});
    });
    out.add(row, weighing, [](std::int64_t) { return 1.0; });
  }
  return out.finish();
}

std::int32_t murmur3(Bytes data) {
  constexpr std::uint32_t kFirst = 0xcc9e2d51, kSecond = 0x1b873593;
  const auto scramble = [](std::uint32_t word) { return std::rotl(word * kFirst, 15) * kSecond; };
  const std::uint8_t* p = data.data();
  std::size_t left = data.size();
  std::uint32_t hash = 0;
  for (; left >= 4; left -= 4, p += 4) hash = std::rotl(hash ^ scramble(load32(p)), 13) * 5 + 0xe6546b64;
  std::uint32_t tail = 0;
  for (std::size_t i = 0; i < left; ++i) tail |= std::uint32_t{p[i]} << 8 * i;
  if (left > 0) hash ^= scramble(tail);
  hash ^= static_cast<std::uint32_t>(data.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6b;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35;
  return static_cast<std::int32_t>(hash ^ hash >> 16);
}

}  // namespace bushel
