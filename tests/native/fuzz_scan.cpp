// Any bytes as a file: scanned, verified, resynchronised, and decoded at places that an index may have wrong.
#include <cstdlib>

#include "rows.h"

using namespace bushel;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

// Every whole record from `begin` on, passing over what is damaged; offsets must only ever grow.
std::vector<Extent> scan_past_faults(Bytes file) {
  std::vector<Extent> found;
  for (std::uint64_t at = 0; at < file.size();) {
    const Scan part = scan(file, at, 3, UINT64_MAX);
    std::uint64_t behind = at;
    for (const Extent& extent : part.extents) {
      demand(extent.offset == behind && extent.length <= file.size());
      behind = extent.offset + kHeader + extent.length + kFooter;
      demand(behind <= file.size());
      found.push_back(extent);
    }
    demand(part.end == behind);
    if (part.fault == Fault::none) {
      demand(part.end > at);
      at = part.end;
      continue;
    }
    demand(verify(file, {part.end, 0}) != Fault::none);
    at = resynchronise(file, part.end + 1);
    demand(at > part.end && at <= file.size());
    if (at < file.size()) demand(verify(file, {at, load64(file.data() + at)}) == Fault::none);
  }
  return found;
}

std::vector<Extent> extents_in(Bytes file) {
  std::vector<Extent> extents;
  for (std::size_t at = 0; at + 4 <= file.size() && extents.size() < 8; at += 4)
    extents.push_back(
        {static_cast<std::uint64_t>(file[at] | file[at + 1] << 8), static_cast<std::uint64_t>(file[at + 2])});
  extents.push_back({UINT64_MAX, file.size()});
  extents.push_back({file.size() / 2, UINT64_MAX});
  return extents;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes file(data, size);
  std::vector<Extent> extents = scan_past_faults(file);
  for (const Extent& extent : extents_in(file)) {
    verify(file, extent);
    extents.push_back(extent);
  }
  const std::vector<Name> names = {
      {"x", false, Kind::none}, {"label", false, Kind::none}, {"tokens", true, Kind::none}};
  for (const bool checked : {true, false}) {
    const Decoded one = decode(file, extents, names, {checked, 1, true}),
                  two = decode(file, extents, names, {checked, 2, true});
    for (const Column& column : one.columns) demand(rows::is_sound(column));
    demand(rows::of(one, names, extents.size()) == rows::of(two, names, extents.size()));
  }
  return 0;
}
