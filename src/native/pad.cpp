#include "pad.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace bushel {

namespace {

void fill_values(std::uint8_t* out, std::size_t count, const std::uint8_t* fill, std::size_t width) {
  const bool same = std::all_of(fill, fill + width, [&](std::uint8_t byte) { return byte == fill[0]; });
  if (same) {
    std::memset(out, fill[0], count * width);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) std::memcpy(out + i * width, fill, width);
}

}  // namespace

bool Rows::is_valid() const {
  if (width == 0 || splits.empty() || splits.front() < 0) return false;
  for (std::size_t i = 1; i < splits.size(); ++i)
    if (splits[i] < splits[i - 1]) return false;
  return static_cast<std::size_t>(splits.back()) <= values.size() / width;
}

Padded pad(const Rows& rows, std::size_t length, const std::uint8_t* fill) {
  const std::size_t width = rows.width;
  Padded out{Buffer(rows.count() * length * width), Buffer(rows.count() * length)};
  for (std::size_t row = 0; row < rows.count(); ++row) {
    const auto begin = static_cast<std::size_t>(rows.splits[row]);
    const std::size_t real = std::min(static_cast<std::size_t>(rows.splits[row + 1]) - begin, length);
    std::uint8_t* const values = out.values.data() + row * length * width;
    std::uint8_t* const mask = out.mask.data() + row * length;
    if (real > 0) std::memcpy(values, rows.values.data() + begin * width, real * width);
    fill_values(values + real * width, length - real, fill, width);
    std::memset(mask, 1, real);
    std::memset(mask + real, 0, length - real);
  }
  return out;
}

std::vector<std::int64_t> pack(std::span<const std::int64_t> lengths, std::int64_t capacity, std::int64_t& bins) {
  std::vector<std::size_t> longest(lengths.size());
  std::iota(longest.begin(), longest.end(), std::size_t{0});
  std::stable_sort(longest.begin(), longest.end(), [&](std::size_t a, std::size_t b) {
    return std::min(lengths[a], capacity) > std::min(lengths[b], capacity);
  });
  std::vector<std::int64_t> bin_of(lengths.size());
  std::multimap<std::int64_t, std::int64_t> open;  // room left -> bin
  std::int64_t count = 0;
  for (const std::size_t row : longest) {
    const std::int64_t length = std::clamp<std::int64_t>(lengths[row], 0, capacity);
    if (length == 0 && count > 0) {
      bin_of[row] = 0;  // takes no room
      continue;
    }
    auto fitting = open.lower_bound(length);
    std::int64_t bin = count, room = capacity;
    if (fitting != open.end()) {
      room = fitting->first;
      bin = fitting->second;
      open.erase(fitting);
    } else {
      ++count;
    }
    bin_of[row] = bin;
    if (room > length) open.emplace(room - length, bin);
  }
  std::vector<std::int64_t> number(static_cast<std::size_t>(count), -1);
  bins = 0;
  for (std::int64_t& bin : bin_of) {
    std::int64_t& renamed = number[static_cast<std::size_t>(bin)];
    if (renamed < 0) renamed = bins++;
    bin = renamed;
  }
  return bin_of;
}

Packed lay_out(const Rows& rows, std::span<const std::int64_t> bins, std::size_t count, std::size_t length,
               const std::uint8_t* fill) {
  const std::size_t width = rows.width, cells = count * length;
  Packed out{Buffer(cells * width), Buffer(cells * sizeof(std::int32_t)), Buffer(cells * sizeof(std::int32_t))};
  fill_values(out.values.data(), cells, fill, width);
  std::memset(out.segments.data(), 0, out.segments.size());
  std::memset(out.positions.data(), 0, out.positions.size());
  std::vector<std::size_t> used(count, 0);
  std::vector<std::int32_t> segments(count, 0);
  for (std::size_t row = 0; row < rows.count(); ++row) {
    const auto bin = static_cast<std::size_t>(bins[row]);
    const auto begin = static_cast<std::size_t>(rows.splits[row]);
    const std::size_t real = std::min(static_cast<std::size_t>(rows.splits[row + 1]) - begin, length - used[bin]);
    const std::size_t at = bin * length + used[bin];
    const std::int32_t segment = ++segments[bin];
    if (real > 0) std::memcpy(out.values.data() + at * width, rows.values.data() + begin * width, real * width);
    for (std::size_t i = 0; i < real; ++i) {
      out.segments.as<std::int32_t>()[at + i] = segment;
      out.positions.as<std::int32_t>()[at + i] = static_cast<std::int32_t>(i);
    }
    used[bin] += real;
  }
  return out;
}

}  // namespace bushel
