#include "sort.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "pause.h"
#include "threads.h"

namespace bushel {

namespace {

constexpr unsigned kBucketBits = 11;
constexpr std::size_t kManyKeys = std::size_t{1} << 17;  // from which threads pay off

struct Keyed {
  std::uint64_t key;
  std::uint32_t number;  // of the key
};

bool is_before(const Keyed& a, const Keyed& b) { return a.key != b.key ? a.key < b.key : a.number < b.number; }

// Keys in buckets by their highest bits: each is small then, and sorted in the cache.
struct Buckets {
  std::uint64_t least = 0;
  unsigned shift = 0;
  std::vector<std::size_t> begins = std::vector<std::size_t>((std::size_t{1} << kBucketBits) + 1, 0);

  explicit Buckets(std::span<const std::uint64_t> keys) {
    const auto [low, high] = std::minmax_element(keys.begin(), keys.end());
    least = *low;
    const auto bits = static_cast<unsigned>(std::bit_width(*high - *low));
    shift = bits > kBucketBits ? bits - kBucketBits : 0;
    for (const std::uint64_t key : keys) ++begins[of(key) + 1];
    for (std::size_t i = 1; i < begins.size(); ++i) begins[i] += begins[i - 1];
  }

  std::size_t of(std::uint64_t key) const { return static_cast<std::size_t>((key - least) >> shift); }
};

}  // namespace

void sort_order(std::span<const std::uint64_t> keys, std::size_t threads, std::int64_t* out) {
  if (keys.empty()) return;
  if (keys.size() > UINT32_MAX) {  // more than 32 bits can number
    for (std::size_t i = 0; i < keys.size(); ++i) out[i] = static_cast<std::int64_t>(i);
    std::stable_sort(out, out + keys.size(), [&](std::int64_t a, std::int64_t b) {
      return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
    });
    return;
  }
  const Buckets buckets(keys);
  // Returned to the system afterwards, unlike the memory of buffers: it is large and not needed again soon.
  const std::unique_ptr<Keyed[]> memory(new Keyed[keys.size()]);
  Keyed* const sorted = memory.get();
  std::vector<std::size_t> next(buckets.begins.begin(), buckets.begins.end() - 1);
  for (std::size_t i = 0; i < keys.size(); ++i)
    sorted[next[buckets.of(keys[i])]++] = {keys[i], static_cast<std::uint32_t>(i)};
  const std::vector<Range> parts = cut(next.size(), keys.size() < kManyKeys ? 1 : std::max<std::size_t>(threads, 1));
  in_threads(parts.size(), [&](std::size_t part) {
    for (std::size_t bucket = parts[part].begin; bucket < parts[part].end; ++bucket) {
      const std::size_t begin = buckets.begins[bucket], end = buckets.begins[bucket + 1];
      breathe(64 * (end - begin));
      std::sort(sorted + begin, sorted + end, is_before);
      for (std::size_t i = begin; i < end; ++i) out[i] = sorted[i].number;
    }
  });
}

}  // namespace bushel
