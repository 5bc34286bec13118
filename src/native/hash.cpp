#include "hash.h"

#include <bit>

namespace bushel {

namespace {

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87u, kPrime2 = 0xc2b2ae3d27d4eb4fu, kPrime3 = 0x165667b19e3779f9u,
                        kPrime4 = 0x85ebca77c2b2ae63u, kPrime5 = 0x27d4eb2f165667c5u;

std::uint64_t mix_lane(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

std::uint64_t join_lane(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ mix_lane(0, lane)) * kPrime1 + kPrime4;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

}  // namespace

std::uint64_t xxh64(Bytes data, std::uint64_t seed) {
  const std::uint8_t* p = data.data();
  std::size_t left = data.size();
  std::uint64_t hash = seed + kPrime5;
  if (left >= 32) {
    std::uint64_t lanes[4] = {seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1};
    for (; left >= 32; p += 32, left -= 32)
      for (int i = 0; i < 4; ++i) lanes[i] = mix_lane(lanes[i], load64(p + 8 * i));
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (const std::uint64_t lane : lanes) hash = join_lane(hash, lane);
  }
  hash += data.size();
  for (; left >= 8; p += 8, left -= 8) hash = std::rotl(hash ^ mix_lane(0, load64(p)), 27) * kPrime1 + kPrime4;
  if (left >= 4) {
    hash = std::rotl(hash ^ load32(p) * kPrime1, 23) * kPrime2 + kPrime3;
    p += 4;
    left -= 4;
  }
  for (; left > 0; ++p, --left) hash = std::rotl(hash ^ *p * kPrime5, 11) * kPrime1;
  return avalanche(hash);
}

std::uint64_t xxh64(std::uint64_t word, std::uint64_t seed) {
  const std::uint64_t hash = seed + kPrime5 + sizeof word;
  return avalanche(std::rotl(hash ^ mix_lane(0, word), 27) * kPrime1 + kPrime4);
}

}  // namespace bushel
