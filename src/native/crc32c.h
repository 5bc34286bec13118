// CRC-32C (Castagnoli), the checksum of TFRecord, and the mask that TFRecord stores it under.
#pragma once

#include "bytes.h"

namespace bushel {

// Uses the CPU's own instruction where it has one; chosen once, at run time.
std::uint32_t crc32c(Bytes data);

// One instruction or eight table look-ups: for the eight bytes of a record's length.
std::uint32_t crc32c_of_u64(std::uint64_t value);

// The checksum of two pieces of data joined, from the checksums of both and the size of the second.
std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_size);

// "sse4.2", "armv8" or "table".
const char* crc32c_engine();

// The fallback. It is always present, so that the fast versions can be tested against it.
std::uint32_t crc32c_by_table(Bytes data);

// A checksum that is stored with its data is masked, because the CRC of data that contains its own CRC is weak.
inline std::uint32_t mask(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace bushel
