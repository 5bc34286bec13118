// What a shuffle buffer does to the order of labels.
#pragma once

#include <cstdint>
#include <span>

namespace bushel {

struct Mixing {
  double classes = 0;       // in a batch, on average
  double single_class = 0;  // share of batches that hold one class only
  std::uint64_t batches = 0;
};

// Sends `labels` (codes below `classes`) through tf.data's shuffle, which holds `buffer` of them and returns one of
// these at random, and cuts the result into batches. A buffer of 0 or 1 leaves the order as it is.
Mixing simulate(std::span<const std::int32_t> labels, std::size_t classes, std::size_t buffer, std::size_t batch,
                std::uint64_t seed);

}  // namespace bushel
