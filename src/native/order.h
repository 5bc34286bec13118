// Order is arithmetic: a permutation that is computed, never stored.
#pragma once

#include "bytes.h"

namespace bushel {

// A bijection of 0 .. size-1, chosen by `key`: a Feistel network over a power of two that is not smaller, walked until
// it lands inside. Any place is computed on its own, in the same time and without memory.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t key);

  // Puts in the place of each position where it goes. All must be below the size.
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
