// Sorting by 64-bit keys: how a plan shuffles by hash and finds keys that repeat, and how records find their places.
#pragma once

#include <span>
#include <vector>

#include "bytes.h"

namespace bushel {

// How much is done at a time: `threads` work on `at_once` keys or so, which take 16 bytes each.
struct Effort {
  std::size_t threads;
  std::size_t at_once = SIZE_MAX;
};

// Sets out[i] to the number of the key that comes at place i; equal keys keep their order. `out` has room for all.
void sort_order(std::span<const std::uint64_t> keys, std::size_t threads, std::int64_t* out);

// Some of the samples whose keys have these hashes: `rows`, or all.
struct Drawn {
  std::span<const std::uint64_t> hashes;
  const std::int64_t* rows;  // nullptr: all, in order
  std::size_t count;

  std::size_t row(std::size_t i) const { return rows ? static_cast<std::size_t>(rows[i]) : i; }
};

// Sets `out` to the rows in the order of what is drawn for each: XXH64 of its hash, with a seed. Equal draws keep their
// order. False if a row is not below the number of hashes; `out`, which has room for all rows, is then untouched.
bool order_drawn(const Drawn& drawn, std::uint64_t seed, Effort effort, std::int64_t* out);

// The hashes that are there more than once: each once, in order.
std::vector<std::uint64_t> find_repeated(std::span<const std::uint64_t> hashes, Effort effort);

// The keys of `count` rows that are numbered from `first` on, which are below 2^63: a prefix and the decimal digits.
struct NumberKeys {
  Buffer offsets;  // int64, count + 1: key i is data[offsets[i] : offsets[i + 1]]
  Buffer data;
};
NumberKeys make_number_keys(std::uint64_t first, std::size_t count, Bytes prefix);

// Sets out[order[i]] to i, and the rest of `out` to -1. False if a number in `order` is outside of `out`.
bool invert(std::span<const std::int64_t> order, std::size_t threads, std::span<std::int64_t> out);

}  // namespace bushel
