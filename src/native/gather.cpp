#include "gather.h"

#include <algorithm>

#include "pause.h"

namespace bushel {

namespace {

bool is_within(const std::vector<Bytes>& pieces, const Place& place) {
  if (place.piece >= pieces.size()) return false;
  const std::size_t size = pieces[place.piece].size();
  return place.start <= size && place.length <= size - place.start;
}

}  // namespace

bool gather(const std::vector<Bytes>& pieces, const std::vector<Place>& places, std::uint8_t* out) {
  constexpr std::size_t kAhead = 16;  // records are far apart: fetch the next ones while this one is copied
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i + kAhead < places.size()) {
      const Place& coming = places[i + kAhead];
      if (coming.piece < pieces.size() && coming.start < pieces[coming.piece].size())
        __builtin_prefetch(pieces[coming.piece].data() + coming.start);
    }
    const Place& place = places[i];
    breathe(place.length);
    if (!is_within(pieces, place)) return false;
    if (place.length != 0) std::memcpy(out, pieces[place.piece].data() + place.start, place.length);
    out += place.length;
  }
  return true;
}

bool find_rows(const std::vector<std::span<const std::int64_t>>& columns, std::span<const std::int64_t> which,
               std::span<const std::int64_t> rows, std::vector<Place>& out) {
  constexpr std::size_t kAhead = 16;  // as above
  const auto offset_of = [&](std::size_t i) -> const std::int64_t* {
    const auto column = static_cast<std::size_t>(which[i]), row = static_cast<std::size_t>(rows[i]);
    if (column >= columns.size() || row >= columns[column].size() || row + 1 == columns[column].size()) return nullptr;
    return columns[column].data() + row;
  };
  out.reserve(out.size() + rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) __builtin_prefetch(offset_of(i + kAhead));
    const std::int64_t* const offset = offset_of(i);
    breathe(sizeof(Place));
    if (!offset || offset[0] < 0 || offset[1] < offset[0]) return false;
    out.push_back({static_cast<std::uint32_t>(which[i]), static_cast<std::uint64_t>(offset[0]),
                   static_cast<std::uint64_t>(offset[1] - offset[0])});
  }
  return true;
}

bool find_scattered(const std::vector<Bytes>& pieces, const std::vector<Place>& places,
                    std::span<const std::int64_t> lengths, Scattered& out) {
  std::vector<std::uintptr_t> addresses;
  std::uintptr_t lowest = UINTPTR_MAX, highest = 0;
  std::size_t at = 0;
  for (const std::int64_t length : lengths) {
    if (length < static_cast<std::int64_t>(kHeader + kFooter)) return false;
    const auto size = static_cast<std::uint64_t>(length);
    const std::size_t first = at;
    const std::uint8_t* begin = nullptr;
    std::uint64_t found = 0;
    bool is_whole = true;  // neighbouring pieces may lie one after the other in memory
    for (; found < size && at < places.size(); ++at) {
      if (!is_within(pieces, places[at])) return false;
      const std::uint8_t* const data = pieces[places[at].piece].data() + places[at].start;
      if (at == first) begin = data;
      is_whole = is_whole && data == begin + found;
      found += places[at].length;
    }
    if (found != size) return false;
    const Place& last = places[at - 1];
    if (!is_whole || pieces[last.piece].size() - last.start - last.length < Scattered::kSlack) {
      const Buffer& copy = out.copies.emplace_back(size + Scattered::kSlack);
      gather(pieces,
             {places.begin() + static_cast<std::ptrdiff_t>(first), places.begin() + static_cast<std::ptrdiff_t>(at)},
             copy.data());
      std::memset(copy.data() + size, 0, Scattered::kSlack);
      begin = copy.data();
    }
    addresses.push_back(reinterpret_cast<std::uintptr_t>(begin));
    lowest = std::min(lowest, addresses.back());
    highest = std::max(highest, addresses.back() + size + Scattered::kSlack);
  }
  if (at != places.size()) return false;
  if (addresses.empty()) return true;
  out.span = {reinterpret_cast<const std::uint8_t*>(lowest), highest - lowest};
  for (std::size_t i = 0; i < addresses.size(); ++i)
    out.extents.push_back({addresses[i] - lowest, static_cast<std::uint64_t>(lengths[i]) - kHeader - kFooter});
  return true;
}

}  // namespace bushel
