#include "sort.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "pause.h"
#include "threads.h"

namespace bushel {

namespace {

constexpr unsigned kBucketBits = 11;
constexpr std::size_t kManyKeys = std::size_t{1} << 17;  // for which threads pay

struct Keyed {
  std::uint64_t key;
  std::uint32_t number;  // of the key
};

bool is_before(const Keyed& a, const Keyed& b) { return a.key != b.key ? a.key < b.key : a.number < b.number; }

// Keys in buckets by their highest bits: each is small then, and sorted in the cache.
struct Buckets {
  std::uint64_t least = 0;
  unsigned shift = 0;

  Buckets(std::span<const std::uint64_t> keys, const std::vector<Range>& parts) {
    std::vector<std::uint64_t> lows(parts.size(), UINT64_MAX), highs(parts.size(), 0);
    in_threads(parts.size(), [&](std::size_t part) {
      const auto own = keys.subspan(parts[part].begin, parts[part].end - parts[part].begin);
      breathe(8 * own.size());
      if (own.empty()) return;
      const auto [low, high] = std::minmax_element(own.begin(), own.end());
      lows[part] = *low;
      highs[part] = *high;
    });
    least = *std::min_element(lows.begin(), lows.end());
    const auto bits = static_cast<unsigned>(std::bit_width(*std::max_element(highs.begin(), highs.end()) - least));
    shift = bits > kBucketBits ? bits - kBucketBits : 0;
  }

  std::size_t of(std::uint64_t key) const { return static_cast<std::size_t>((key - least) >> shift); }
};

}  // namespace

void sort_order(std::span<const std::uint64_t> keys, std::size_t threads, std::int64_t* out) {
  if (keys.empty()) return;
  if (keys.size() > UINT32_MAX) {  // more than the small numbers hold
    for (std::size_t i = 0; i < keys.size(); ++i) out[i] = static_cast<std::int64_t>(i);
    std::stable_sort(out, out + keys.size(), [&](std::int64_t a, std::int64_t b) {
      return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
    });
    return;
  }
  const std::vector<Range> parts = cut(keys.size(), keys.size() < kManyKeys ? 1 : std::max<std::size_t>(threads, 1));
  const Buckets buckets(keys, parts);
  constexpr std::size_t kBuckets = std::size_t{1} << kBucketBits;
  // Where each part puts its next key of each bucket. Parts follow each other in a bucket, so equal keys stay in order.
  std::vector<std::vector<std::size_t>> next(parts.size(), std::vector<std::size_t>(kBuckets, 0));
  in_threads(parts.size(), [&](std::size_t part) {
    breathe(8 * (parts[part].end - parts[part].begin));
    for (std::size_t i = parts[part].begin; i < parts[part].end; ++i) ++next[part][buckets.of(keys[i])];
  });
  std::vector<std::size_t> begins(kBuckets + 1, 0);
  std::size_t at = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    begins[bucket] = at;
    for (std::vector<std::size_t>& own : next) at += std::exchange(own[bucket], at);
  }
  begins[kBuckets] = at;
  // Given back to the system afterwards, unlike the memory of buffers: this is large, and not needed again soon.
  const std::unique_ptr<Keyed[]> memory(new Keyed[keys.size()]);
  Keyed* const sorted = memory.get();
  in_threads(parts.size(), [&](std::size_t part) {
    for (std::size_t i = parts[part].begin; i < parts[part].end; ++i)
      sorted[next[part][buckets.of(keys[i])]++] = {keys[i], static_cast<std::uint32_t>(i)};
  });
  const std::vector<Range> shares = cut(kBuckets, parts.size());
  in_threads(shares.size(), [&](std::size_t share) {
    for (std::size_t bucket = shares[share].begin; bucket < shares[share].end; ++bucket) {
      const std::size_t begin = begins[bucket], end = begins[bucket + 1];
      breathe(64 * (end - begin));
      std::sort(sorted + begin, sorted + end, is_before);
      for (std::size_t i = begin; i < end; ++i) out[i] = sorted[i].number;
    }
  });
}

}  // namespace bushel
