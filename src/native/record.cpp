#include "record.h"

#include "crc32c.h"

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

bool data_is_intact(Bytes file, Extent extent) {
  const std::uint8_t* data = file.data() + extent.offset + kHeader;
  return mask(crc32c({data, extent.length})) == load32(data + extent.length);
}

}  // namespace

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
    // Records tend to be alike: ask for the header that is some records ahead, if they stay so.
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
  return data_is_intact(file, extent) ? Fault::none : Fault::data_crc;
}

std::uint64_t resynchronise(Bytes file, std::uint64_t begin) {
  for (std::uint64_t offset = begin; offset + kHeader + kFooter <= file.size(); ++offset) {
    std::uint64_t length = 0;
    if (read_header(file, offset, length) == Fault::none && data_is_intact(file, {offset, length})) return offset;
  }
  return file.size();
}

void frame(std::uint8_t* out, std::uint64_t length) {
  store64(out, length);
  store32(out + sizeof length, mask(crc32c_of_u64(length)));
  store32(out + kHeader + length, mask(crc32c({out + kHeader, length})));
}

}  // namespace bushel
