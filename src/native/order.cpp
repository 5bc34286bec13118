#include "order.h"

#include <algorithm>
#include <bit>

namespace bushel {

namespace {

std::uint64_t next(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// The round function: every bit of `half` reaches every bit of the result.
std::uint32_t scramble(std::uint32_t half, std::uint32_t key) {
  half = (half ^ key) * 0x7feb352du;
  half = (half ^ half >> 15) * 0x846ca68bu;
  return half ^ half >> 16;
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size) {
  const unsigned bits = std::max(static_cast<unsigned>(std::bit_width(size - (size > 0))), kLeastBits);
  const unsigned left_bits = bits / 2;
  right_bits_ = bits - left_bits;
  left_mask_ = static_cast<std::uint32_t>((std::uint64_t{1} << left_bits) - 1);
  right_mask_ = static_cast<std::uint32_t>((std::uint64_t{1} << right_bits_) - 1);
  for (std::uint32_t& round : keys_) round = static_cast<std::uint32_t>(next(key) >> 32);
}

// Round by round over all values, which are independent of each other. The halves differ by at most one bit in size and
// keep their sides; each changes the other in turn.
void Permutation::encrypt(std::uint64_t* values, std::size_t count) const {
  std::uint32_t left[kBlock], right[kBlock];
  for (std::size_t i = 0; i < count; ++i) {
    left[i] = static_cast<std::uint32_t>(values[i] >> right_bits_);
    right[i] = static_cast<std::uint32_t>(values[i]) & right_mask_;
  }
  for (int round = 0; round < kRounds; round += 2) {
    for (std::size_t i = 0; i < count; ++i) left[i] ^= scramble(right[i], keys_[round]) & left_mask_;
    for (std::size_t i = 0; i < count; ++i) right[i] ^= scramble(left[i], keys_[round + 1]) & right_mask_;
  }
  for (std::size_t i = 0; i < count; ++i) values[i] = std::uint64_t{left[i]} << right_bits_ | right[i];
}

void Permutation::apply(std::span<std::int64_t> positions) const {
  std::uint64_t values[kBlock];
  std::size_t places[kBlock];
  std::size_t walking = 0;
  for (std::size_t at = 0; at < positions.size() || walking > 0;) {
    for (; walking < kBlock && at < positions.size(); ++at, ++walking) {
      values[walking] = static_cast<std::uint64_t>(positions[at]);
      places[walking] = at;
    }
    encrypt(values, walking);
    std::size_t outside = 0;  // these continue, together with the next positions
    for (std::size_t i = 0; i < walking; ++i) {
      positions[places[i]] = static_cast<std::int64_t>(values[i]);
      const bool is_outside = values[i] >= size_;
      values[outside] = values[i];
      places[outside] = places[i];
      outside += is_outside;
    }
    walking = outside;
  }
}

}  // namespace bushel
