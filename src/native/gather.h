// Copies ranges of several pieces of memory, one after the other: this puts records into their planned order.
#pragma once

#include <vector>

#include "bytes.h"

namespace bushel {

struct Place {
  std::uint32_t piece;
  std::uint64_t start;
  std::uint64_t length;
};

// Copies every range to `out`, which has room for all of them. False if one is not inside its piece; `out` is then
// filled up to that range.
bool gather(const std::vector<Bytes>& pieces, const std::vector<Place>& places, std::uint8_t* out);

}  // namespace bushel
