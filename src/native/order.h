// Order is arithmetic: a permutation that is computed, never stored.
#pragma once

#include "bytes.h"

namespace bushel {

// A bijection of 0 .. size-1, chosen by `key`: a Feistel network over the next power of two, repeated until the result
// is below `size`. Each position is computed independently, in constant time and without memory.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key);

  // Replaces each position by where it goes. All must be below the size.
  void apply(std::span<std::int64_t> positions) const;

 private:
  static constexpr int kRounds = 6;
  static constexpr unsigned kLeastBits = 8;  // a network of fewer bits is too poor to look random
  static constexpr std::size_t kBlock = 256;

  void encrypt(std::uint64_t* values, std::size_t count) const;

  std::uint64_t size_;
  unsigned right_bits_;
  std::uint32_t left_mask_, right_mask_;
  std::uint32_t keys_[kRounds];
};

}  // namespace bushel
