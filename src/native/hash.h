// XXH64: the hash of keys in an index, and what splits and orders are drawn from. FORMAT.md names it.
#pragma once

#include "bytes.h"

namespace bushel {

std::uint64_t xxh64(Bytes data, std::uint64_t seed);

// The same, of the eight bytes of a word.
std::uint64_t xxh64(std::uint64_t word, std::uint64_t seed);

}  // namespace bushel
