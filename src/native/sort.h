// The order that sorts keys: how a plan shuffles by hash, and how records find their places.
#pragma once

#include <span>

#include "bytes.h"

namespace bushel {

// Sets out[i] to the number of the key that comes at place i; equal keys keep their order. `out` has room for all.
void sort_order(std::span<const std::uint64_t> keys, std::size_t threads, std::int64_t* out);

}  // namespace bushel
