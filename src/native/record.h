// Framing. A TFRecord file is a sequence of
//   length       u64 le
//   length_crc   u32 le, masked crc32c of `length`
//   data         `length` bytes
//   data_crc     u32 le, masked crc32c of `data`
#pragma once

#include <vector>

#include "bytes.h"

namespace bushel {

inline constexpr std::size_t kHeader = sizeof(std::uint64_t) + sizeof(std::uint32_t);
inline constexpr std::size_t kFooter = sizeof(std::uint32_t);
static_assert(kHeader == 12 && kFooter == 4, "FORMAT.md gives these numbers");

// protobuf, and so every reader of Examples, stops here.
inline constexpr std::uint64_t kMaxRecord = (std::uint64_t{1} << 31) - 1;

// Everything that can be wrong with a record. errors.py has the messages and uses the same numbers.
enum class Fault : std::uint8_t {
  none = 0,
  truncated_header = 1,  // fewer bytes than a header are left
  length_crc = 2,        // neither the length nor the position of the next record can be trusted
  truncated_data = 3,    // fewer bytes are left than the length says
  data_crc = 4,          // the next record can be reached
  too_large = 5,         // longer than kMaxRecord
  malformed = 6,         // the data is not the message it should be
  wrong_kind = 7,        // a feature holds another kind of list than its column
};

struct Extent {
  std::uint64_t offset;  // of the record's header
  std::uint64_t length;  // of its data
};

struct Scan {
  std::vector<Extent> extents;
  Fault fault = Fault::none;
  std::uint64_t end = 0;  // offset after the last whole record, or of the one with the fault
};

// Finds whole records in `file` from `begin` on, until `max_records` or `max_bytes` are reached, the file ends or a
// fault stops it. Reads headers only: checksums of data are verified where data is used.
Scan scan(Bytes file, std::uint64_t begin, std::uint64_t max_records, std::uint64_t max_bytes);

// Whether the data of the record at `extent`, which must be inside `file`, matches its checksum.
bool is_intact(Bytes file, Extent extent);

// What is wrong with the record at `extent`, its data's checksum included.
Fault verify(Bytes file, Extent extent);

// The first offset from `begin` on where a whole record begins and both checksums match; file.size() if none does.
// Takes time in proportion to what it skips, whatever lengths the bytes there claim.
std::uint64_t resynchronise(Bytes file, std::uint64_t begin);

// Copies header and footer of every record, whose data has the length given, to `out`. False if one is not in `file`.
bool copy_framing(Bytes file, std::span<const std::uint64_t> offsets, std::span<const std::uint32_t> lengths,
                  std::uint8_t* out);

// Writes header and footer around `length` bytes of data that are already at out + kHeader.
void frame(std::uint8_t* out, std::uint64_t length);

}  // namespace bushel
