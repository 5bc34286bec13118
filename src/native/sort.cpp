#include "sort.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "hash.h"
#include "pause.h"
#include "threads.h"

namespace bushel {

namespace {

constexpr unsigned kBucketBits = 11;
constexpr std::size_t kBuckets = std::size_t{1} << kBucketBits;
constexpr std::size_t kManyKeys = std::size_t{1} << 17;  // for which threads pay

std::vector<Range> parts_of(std::size_t count, std::size_t threads) {
  return cut(count, count < kManyKeys ? 1 : std::max<std::size_t>(threads, 1));
}

struct Keyed {
  std::uint64_t key;
  std::uint64_t number;  // of the key

  bool operator<(const Keyed& other) const { return key != other.key ? key < other.key : number < other.number; }
};

std::uint64_t key_of(const Keyed& keyed) { return keyed.key; }
std::uint64_t key_of(std::uint64_t key) { return key; }

// Keys in buckets by their highest bits: each is small then, and sorted in the cache.
struct Buckets {
  std::uint64_t least = 0;
  unsigned shift = 64 - kBucketBits;

  std::size_t of(std::uint64_t key) const { return static_cast<std::size_t>((key - least) >> shift); }
};

Buckets buckets_of(std::span<const std::uint64_t> keys, const std::vector<Range>& parts) {
  std::vector<std::uint64_t> lows(parts.size(), UINT64_MAX), highs(parts.size(), 0);
  in_threads(parts.size(), [&](std::size_t part) {
    const auto own = keys.subspan(parts[part].begin, parts[part].count());
    breathe(8 * own.size());
    if (own.empty()) return;
    const auto [low, high] = std::minmax_element(own.begin(), own.end());
    lows[part] = *low;
    highs[part] = *high;
  });
  const std::uint64_t least = *std::min_element(lows.begin(), lows.end());
  const auto bits = static_cast<unsigned>(std::bit_width(*std::max_element(highs.begin(), highs.end()) - least));
  return {least, bits > kBucketBits ? bits - kBucketBits : 0};
}

// Memory in huge pages that is given back to the system afterwards, unlike that of buffers: it is not needed again
// soon.
template <typename Item>
std::unique_ptr<Item[], decltype(&std::free)> scratch(std::size_t count) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t bytes = std::max(count, std::size_t{1}) * sizeof(Item);
  const std::size_t alignment = bytes < kHugePage ? 64 : kHugePage;
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, size);
  if (!memory) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (alignment == kHugePage) madvise(memory, size, MADV_HUGEPAGE);
#endif
  return {static_cast<Item*>(memory), &std::free};
}

// Sorts make(i) for all i in the parts, some buckets at a time, and calls each(bucket, place of the first, items) for
// every bucket. Makes each item several times rather than keep all.
template <typename Item, typename Make, typename Each>
void sort_in_buckets(const std::vector<Range>& parts, Buckets buckets, std::size_t at_once, Make&& make, Each&& each) {
  // Where each part puts its next item of each bucket. Parts follow each other in a bucket.
  std::vector<std::vector<std::size_t>> next(parts.size(), std::vector<std::size_t>(kBuckets, 0));
  in_threads(parts.size(), [&](std::size_t part) {
    for (std::size_t i = parts[part].begin; i < parts[part].end; ++i) {
      breathe(8);
      ++next[part][buckets.of(key_of(make(i)))];
    }
  });
  std::vector<std::size_t> begins(kBuckets + 1, 0);
  std::size_t at = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    begins[bucket] = at;
    for (std::vector<std::size_t>& own : next) at += std::exchange(own[bucket], at);
  }
  begins[kBuckets] = at;
  std::vector<Range> passes;
  std::size_t most = 0;
  for (std::size_t first = 0; first < kBuckets; first = passes.back().end) {
    std::size_t end = first + 1;
    while (end < kBuckets && begins[end + 1] - begins[first] <= at_once) ++end;
    passes.push_back({first, end});
    most = std::max(most, begins[end] - begins[first]);
  }
  const auto memory = scratch<Item>(most);
  for (const Range pass : passes) {
    Item* const items = memory.get();
    const std::size_t before = begins[pass.begin];
    in_threads(parts.size(), [&](std::size_t part) {
      for (std::size_t i = parts[part].begin; i < parts[part].end; ++i) {
        breathe(8);
        const Item item = make(i);
        const std::size_t bucket = buckets.of(key_of(item));
        if (bucket >= pass.begin && bucket < pass.end) items[next[part][bucket]++ - before] = item;
      }
    });
    const std::vector<Range> shares = cut(pass.count(), parts.size());
    in_threads(shares.size(), [&](std::size_t share) {
      for (std::size_t i = shares[share].begin; i < shares[share].end; ++i) {
        const std::size_t bucket = pass.begin + i, begin = begins[bucket];
        const std::span<Item> own(items + (begin - before), begins[bucket + 1] - begin);
        breathe(64 * own.size());
        std::sort(own.begin(), own.end());
        each(bucket, begin, own);
      }
    });
  }
}

}  // namespace

void sort_order(std::span<const std::uint64_t> keys, std::size_t threads, std::int64_t* out) {
  if (keys.empty()) return;
  const std::vector<Range> parts = parts_of(keys.size(), threads);
  sort_in_buckets<Keyed>(
      parts, buckets_of(keys, parts), SIZE_MAX, [&](std::size_t i) { return Keyed{keys[i], i}; },
      [&](std::size_t, std::size_t begin, std::span<const Keyed> sorted) {
        for (std::size_t i = 0; i < sorted.size(); ++i) out[begin + i] = static_cast<std::int64_t>(sorted[i].number);
      });
}

bool order_drawn(const Drawn& drawn, std::uint64_t seed, Effort effort, std::int64_t* out) {
  const std::vector<Range> parts = parts_of(drawn.count, effort.threads);
  std::atomic<bool> is_within{true};
  in_threads(drawn.rows ? parts.size() : 0, [&](std::size_t part) {
    for (std::size_t i = parts[part].begin; i < parts[part].end; ++i)
      if (drawn.row(i) >= drawn.hashes.size()) is_within = false;
  });
  if (!is_within) return false;
  sort_in_buckets<Keyed>(
      parts, Buckets{}, effort.at_once,
      [&](std::size_t i) { return Keyed{xxh64(drawn.hashes[drawn.row(i)], seed), i}; },
      [&](std::size_t, std::size_t begin, std::span<const Keyed> sorted) {
        for (std::size_t i = 0; i < sorted.size(); ++i)
          out[begin + i] = static_cast<std::int64_t>(drawn.row(sorted[i].number));
      });
  return true;
}

std::vector<std::uint64_t> find_repeated(std::span<const std::uint64_t> hashes, Effort effort) {
  std::vector<std::vector<std::uint64_t>> found(kBuckets);
  sort_in_buckets<std::uint64_t>(
      parts_of(hashes.size(), effort.threads), Buckets{}, effort.at_once, [&](std::size_t i) { return hashes[i]; },
      [&](std::size_t bucket, std::size_t, std::span<const std::uint64_t> sorted) {
        std::vector<std::uint64_t>& own = found[bucket];
        for (std::size_t i = 1; i < sorted.size(); ++i)
          if (sorted[i] == sorted[i - 1] && (own.empty() || own.back() != sorted[i])) own.push_back(sorted[i]);
      });
  std::vector<std::uint64_t> all;
  for (const std::vector<std::uint64_t>& own : found) all.insert(all.end(), own.begin(), own.end());
  return all;
}

NumberKeys make_number_keys(std::uint64_t first, std::size_t count, Bytes prefix) {
  constexpr std::size_t kMostDigits = 20;
  char digits[kMostDigits];
  std::size_t width = static_cast<std::size_t>(std::to_chars(digits, digits + kMostDigits, first).ptr - digits);
  std::size_t size = 0;
  std::uint64_t next = 1;  // the first number of more digits
  for (std::size_t i = 0; i < width; ++i) next *= 10;
  for (std::size_t done = 0, wide = width; done < count; ++wide, next *= 10) {
    const auto some = static_cast<std::size_t>(std::min<std::uint64_t>(count - done, next - (first + done)));
    size += some * (prefix.size() + wide);
    done += some;
  }
  NumberKeys keys{Buffer((count + 1) * sizeof(std::int64_t)), Buffer(size)};
  std::int64_t* offsets = keys.offsets.as<std::int64_t>();
  std::uint8_t* out = keys.data.data();
  *offsets++ = 0;
  for (std::size_t i = 0; i < count; ++i) {
    out = std::copy(prefix.begin(), prefix.end(), out);
    out = std::copy(digits, digits + width, out);
    *offsets++ = out - keys.data.data();
    std::size_t last = width;
    while (last > 0 && digits[last - 1] == '9') digits[--last] = '0';
    if (last > 0) {
      ++digits[last - 1];
    } else {  // 999 is followed by 1000
      digits[0] = '1';
      digits[width++] = '0';
    }
  }
  return keys;
}

bool invert(std::span<const std::int64_t> order, std::size_t threads, std::span<std::int64_t> out) {
  const std::vector<Range> spans = parts_of(out.size(), threads);
  in_threads(spans.size(), [&](std::size_t part) {
    breathe(8 * spans[part].count());
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(spans[part].begin),
              out.begin() + static_cast<std::ptrdiff_t>(spans[part].end), -1);
  });
  const std::vector<Range> parts = parts_of(order.size(), threads);
  std::atomic<bool> is_within{true};
  in_threads(parts.size(), [&](std::size_t part) {
    for (std::size_t i = parts[part].begin; i < parts[part].end; ++i) {
      breathe(8);
      const auto at = static_cast<std::size_t>(order[i]);
      if (at >= out.size()) {
        is_within = false;
        return;
      }
      // Atomic only so that a number that comes twice is no race.
      std::atomic_ref(out[at]).store(static_cast<std::int64_t>(i), std::memory_order_relaxed);
    }
  });
  return is_within;
}

}  // namespace bushel
