// Ranges of several pieces of memory, copied one behind the other: how records are put into their planned order.
#pragma once

#include <vector>

#include "bytes.h"

namespace bushel {

struct Place {
  std::uint32_t piece;
  std::uint64_t start;
  std::uint64_t length;
};

// Copies every place to `out`, which holds the sum of their lengths. False if one is not within its piece; `out` is
// then filled up to it.
bool gather(const std::vector<Bytes>& pieces, const std::vector<Place>& places, std::uint8_t* out);

}  // namespace bushel
