#include "contents.h"

namespace bushel {

namespace {

constexpr std::uint64_t kSecondSeed = 0x62757368656c;
constexpr unsigned kPartitionShift = 58;
static_assert(std::size_t{1} << (64 - kPartitionShift) == kPartitions);

}  // namespace

ContentSeeds seeds_of(Bytes name) {
  ContentSeeds seeds;
  seeds.whole = xxh64(name, 0) | 1;
  for (std::size_t i = 0; i < seeds.keys.size(); ++i) seeds.keys[i] = xxh64(name, kSecondSeed + i);
  return seeds;
}

void ContentHash::add_long(Bytes feature, const ContentSeeds& seeds) {
  first += xxh64(feature, seeds.whole);
  second += xxh64(feature, seeds.whole ^ kSecondSeed);
}

void ContentHash::finish(std::uint64_t* out) const {
  const bool some = (first | second) != 0;
  out[0] = some ? xxh64(first, second) | 1 : 0;
  out[1] = some ? xxh64(second, first) : 0;
}

Buffer partition_contents(std::span<const std::uint64_t> hashes, std::span<const std::int64_t> labels,
                          std::uint32_t file, std::uint64_t first, std::array<std::int64_t, kPartitions>& counts) {
  counts.fill(0);
  const std::size_t records = hashes.size() / 2;
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < records; ++i) {
    if (hashes[2 * i] == 0) continue;
    ++counts[hashes[2 * i] >> kPartitionShift];
    ++kept;
  }
  Buffer buffer(static_cast<std::size_t>(kept) * sizeof(ContentRow));
  std::array<ContentRow*, kPartitions> next;
  auto* begin = buffer.as<ContentRow>();
  for (std::size_t p = 0; p < kPartitions; begin += counts[p++]) next[p] = begin;
  for (std::size_t i = 0; i < records; ++i) {
    if (hashes[2 * i] == 0) continue;
    *next[hashes[2 * i] >> kPartitionShift]++ = {hashes[2 * i], hashes[2 * i + 1], labels.empty() ? 0 : labels[i], file,
                                                 static_cast<std::uint32_t>(first + i)};
  }
  return buffer;
}

}  // namespace bushel
