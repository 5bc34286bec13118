#include "jpeg.h"

namespace bushel {

namespace {

constexpr std::uint8_t kEscape = 0xff, kEnd = 0xd9, kScan = 0xda, kExif = 0xe1;
constexpr std::size_t kFrame = 10;  // marker, length, bits, height, width, channels

std::size_t load_big16(const std::uint8_t* p) { return static_cast<std::size_t>(p[0]) << 8 | p[1]; }

bool is_frame(std::uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Whether the marker of the end stands anywhere from `from` on; most often it is the last.
bool has_end(Bytes data, std::size_t from) {
  for (std::size_t at = data.size() - 1; at > from; --at)
    if (data[at] == kEnd && data[at - 1] == kEscape) return true;
  return false;
}

}  // namespace

bool read_plain_jpeg(Bytes data, JpegHeader& header) {
  if (data.size() < 3 || data[0] != kEscape || data[1] != 0xd8 || data[2] != kEscape) return false;
  std::size_t at = 2;
  while (data.size() >= kFrame && at <= data.size() - kFrame) {
    if (data[at] != kEscape) return false;
    const std::uint8_t marker = data[at + 1];
    if (marker == kEscape) {  // fill
      ++at;
      continue;
    }
    if (is_frame(marker)) {
      const std::uint8_t* const frame = data.data() + at;
      const std::uint8_t bits = frame[4], channels = frame[9];
      header = {static_cast<std::int64_t>(load_big16(frame + 5)), static_cast<std::int64_t>(load_big16(frame + 7)),
                channels};
      const bool is_plain = bits == 8 && (channels == 1 || channels == 3) && header.height > 0 && header.width > 0;
      return is_plain && has_end(data, at);
    }
    if (marker == kEnd || marker == kScan) return false;
    if (marker == kExif && std::memcmp(data.data() + at + 4, "Exif\0", 6) == 0) return false;
    at += 2 + load_big16(data.data() + at + 2);
  }
  return false;
}

}  // namespace bushel
