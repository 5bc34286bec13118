#include "shuffle.h"

#include <algorithm>
#include <vector>

#include "pause.h"

namespace bushel {

namespace {

// SplitMix64: small, and good enough to draw places in a buffer.
std::uint64_t draw(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Counts the classes of one batch after another.
class Counter {
 public:
  Counter(std::size_t classes, std::size_t batch) : seen_(classes, 0), batch_(batch) {}

  void take(std::int32_t label) {
    std::uint64_t& stamp = seen_[static_cast<std::size_t>(label)];
    if (stamp != batches_ + 1) {
      stamp = batches_ + 1;
      ++classes_;
    }
    if (++rows_ == batch_) finish();
  }

  Mixing result() {
    if (rows_ * 2 > batch_ || batches_ == 0) finish();
    const auto count = static_cast<double>(std::max<std::uint64_t>(batches_, 1));
    return {static_cast<double>(total_) / count, static_cast<double>(single_) / count, batches_};
  }

 private:
  void finish() {
    if (rows_ == 0) return;
    ++batches_;
    total_ += classes_;
    single_ += classes_ == 1;
    rows_ = classes_ = 0;
  }

  std::vector<std::uint64_t> seen_;
  std::size_t batch_, rows_ = 0;
  std::uint64_t batches_ = 0, classes_ = 0, total_ = 0, single_ = 0;
};

}  // namespace

Mixing simulate(std::span<const std::int32_t> labels, std::size_t classes, std::size_t buffer, std::size_t batch,
                std::uint64_t seed) {
  Counter counter(classes, std::max<std::size_t>(batch, 1));
  buffer = std::clamp<std::size_t>(buffer, 1, std::max<std::size_t>(labels.size(), 1));
  std::vector<std::int32_t> held(labels.begin(),
                                 labels.begin() + static_cast<std::ptrdiff_t>(std::min(buffer, labels.size())));
  const auto pick = [&] {
    return static_cast<std::size_t>((static_cast<__uint128_t>(draw(seed)) * held.size()) >> 64);
  };
  for (std::size_t i = held.size(); i < labels.size(); ++i) {
    breathe(16);
    const std::size_t at = pick();
    counter.take(held[at]);
    held[at] = labels[i];
  }
  while (!held.empty()) {
    breathe(16);
    const std::size_t at = pick();
    counter.take(held[at]);
    held[at] = held.back();
    held.pop_back();
  }
  return counter.result();
}

}  // namespace bushel
