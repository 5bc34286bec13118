#include "record.h"

#include <algorithm>

#include "crc32c.h"
#include "pause.h"

namespace bushel {

namespace {

// What the header at `offset` says; `length` is set unless the header itself is at fault.
Fault read_header(Bytes file, std::uint64_t offset, std::uint64_t& length) {
  const std::uint64_t left = file.size() - offset;
  if (left < kHeader) return Fault::truncated_header;
  const std::uint8_t* p = file.data() + offset;
  length = load64(p);
  if (mask(crc32c_of_u64(length)) != load32(p + sizeof length)) return Fault::length_crc;
  if (length > kMaxRecord) return Fault::too_large;
  if (left - kHeader < length + kFooter) return Fault::truncated_data;
  return Fault::none;
}

// Checksums of any part of a file from `begin` on, reading each byte about once: the checksums of prefixes are kept at
// every kGrid bytes, and a part is the difference of two prefixes.
class PartChecksums {
 public:
  PartChecksums(Bytes file, std::uint64_t begin) : file_(file), begin_(begin) {}

  std::uint32_t of(std::uint64_t offset, std::uint64_t length) {
    return crc32c_joined(up_to(offset), up_to(offset + length), length);
  }

 private:
  static constexpr std::uint64_t kGrid = 1024;

  std::uint32_t up_to(std::uint64_t end) {
    const std::uint64_t whole = (end - begin_) / kGrid;
    while (grid_.size() <= whole) {
      const std::uint64_t at = begin_ + (grid_.size() - 1) * kGrid;
      grid_.push_back(crc32c_joined(grid_.back(), crc32c(file_.subspan(at, kGrid)), kGrid));
      breathe(kGrid);
    }
    const std::uint64_t at = begin_ + whole * kGrid;
    return crc32c_joined(grid_[whole], crc32c(file_.subspan(at, end - at)), end - at);
  }

  Bytes file_;
  std::uint64_t begin_;
  std::vector<std::uint32_t> grid_{0};
};

}  // namespace

bool is_intact(Bytes file, Extent extent) {
  constexpr std::uint64_t kAtOnce = std::uint64_t{16} << 20;
  const Bytes data = file.subspan(extent.offset + kHeader, extent.length);
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < data.size(); at += kAtOnce) {
    const Bytes piece = data.subspan(at, std::min<std::uint64_t>(kAtOnce, data.size() - at));
    crc = at == 0 ? crc32c(piece) : crc32c_joined(crc, crc32c(piece), piece.size());
    breathe(piece.size());
  }
  return mask(crc) == load32(file.data() + extent.offset + kHeader + extent.length);
}

Scan scan(Bytes file, std::uint64_t begin, std::uint64_t max_records, std::uint64_t max_bytes) {
  Scan result;
  std::uint64_t offset = begin;
  while (offset < file.size() && result.extents.size() < max_records && offset - begin < max_bytes) {
    std::uint64_t length = 0;
    result.fault = read_header(file, offset, length);
    if (result.fault != Fault::none) break;
    result.extents.push_back({offset, length});
    const std::uint64_t step = kHeader + length + kFooter;
    offset += step;
    // Records tend to be alike: prefetch the header some records ahead, assuming that they stay so.
    constexpr std::uint64_t kAhead = 16;
    if (step < 4096 && file.size() - offset > kAhead * step) __builtin_prefetch(file.data() + offset + kAhead * step);
  }
  result.end = offset;
  return result;
}

Fault verify(Bytes file, Extent extent) {
  if (extent.offset > file.size()) return Fault::truncated_header;
  std::uint64_t length = 0;
  const Fault fault = read_header(file, extent.offset, length);
  if (fault != Fault::none) return fault;
  if (length != extent.length) return Fault::length_crc;
  return is_intact(file, extent) ? Fault::none : Fault::data_crc;
}

std::uint64_t resynchronise(Bytes file, std::uint64_t begin) {
  constexpr std::uint64_t kFree = std::uint64_t{1} << 20;
  PartChecksums checksums(file, begin);
  std::uint64_t spent = 0;  // on lengths that led nowhere; beyond a limit, the way with a fixed cost is taken
  for (std::uint64_t offset = begin; offset + kHeader + kFooter <= file.size(); ++offset) {
    breathe(1);
    std::uint64_t length = 0;
    if (read_header(file, offset, length) != Fault::none) continue;
    spent += length;
    const bool is_whole = spent <= kFree + (offset - begin) ? is_intact(file, {offset, length})
                                                            : mask(checksums.of(offset + kHeader, length)) ==
                                                                  load32(file.data() + offset + kHeader + length);
    if (is_whole) return offset;
  }
  return file.size();
}

bool copy_framing(Bytes file, std::span<const std::uint64_t> offsets, std::span<const std::uint32_t> lengths,
                  std::uint8_t* out) {
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::uint64_t size = kHeader + std::uint64_t{lengths[i]} + kFooter;
    if (offsets[i] > file.size() || size > file.size() - offsets[i]) return false;
    breathe(kHeader + kFooter);
    const std::uint8_t* const record = file.data() + offsets[i];
    std::memcpy(out, record, kHeader);
    std::memcpy(out + kHeader, record + size - kFooter, kFooter);
    out += kHeader + kFooter;
  }
  return true;
}

void frame(std::uint8_t* out, std::uint64_t length) {
  store64(out, length);
  store32(out + sizeof length, mask(crc32c_of_u64(length)));
  store32(out + kHeader + length, mask(crc32c({out + kHeader, length})));
}

}  // namespace bushel
