// What records hold, as hashes, by which those with the same content are found. The hashes are compared within one
// check and stored nowhere.
#pragma once

#include <array>
#include <span>

#include "hash.h"

namespace bushel {

inline constexpr std::size_t kShort = 16;  // bytes that two words hold

// Up to kShort bytes as two words, which with the size say what they are.
inline void load_short(Bytes data, std::uint64_t words[2]) {
  const std::uint8_t* const p = data.data();
  const std::size_t size = data.size();
  if (size >= 8) {
    words[0] = load64(p);
    words[1] = load64(p + size - 8);
  } else if (size >= 4) {
    words[0] = load32(p);
    words[1] = load32(p + size - 4);
  } else if (size > 0) {
    words[0] = p[0];
    words[1] = std::uint64_t{p[size / 2]} << 8 | p[size - 1];
  } else {
    words[0] = words[1] = 0;
  }
}

// Both halves of a product: all bits of the factors reach all bits of the result.
inline std::uint64_t fold_product(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// What a feature's name adds to the hash of its content; `whole` is 0 if it is no part of it.
struct ContentSeeds {
  std::uint64_t whole = 0;
  std::array<std::uint64_t, 4> keys{};
};

ContentSeeds seeds_of(Bytes name);

// The two hashes of one record: those of its features in any order.
struct ContentHash {
  std::uint64_t first = 0, second = 0;

  void add(Bytes feature, const ContentSeeds& seeds) {
    if (feature.size() > kShort) return add_long(feature, seeds);
    std::uint64_t words[2];
    load_short(feature, words);
    first += fold_product(words[0] ^ seeds.keys[0], (words[1] ^ seeds.keys[1]) + feature.size());
    second += fold_product(words[0] ^ seeds.keys[2], (words[1] ^ seeds.keys[3]) + feature.size());
  }

  // Sets both to 0 if nothing was added; else the first is not 0.
  void finish(std::uint64_t* out) const;

 private:
  void add_long(Bytes feature, const ContentSeeds& seeds);
};

// A record in the join. duplicates.py has the same layout.
struct ContentRow {
  std::uint64_t hash, check;
  std::int64_t label;
  std::uint32_t file, record;
};
static_assert(sizeof(ContentRow) == 32);

inline constexpr std::size_t kPartitions = 64;  // by the highest bits of the hash

// Rows of consecutive records of one file, from number `first` on: `hashes` holds two of each, and those without
// content are left out. `labels` may be empty. They are sorted by partition; `counts` is set to how many each has.
Buffer partition_contents(std::span<const std::uint64_t> hashes, std::span<const std::int64_t> labels,
                          std::uint32_t file, std::uint64_t first, std::array<std::int64_t, kPartitions>& counts);

}  // namespace bushel
