#include "jpeg.h"

#include "codec.h"

namespace bushel {

namespace {

constexpr std::uint8_t kEscape = 0xff, kEnd = 0xd9, kScan = 0xda, kExif = 0xe1;
constexpr std::size_t kFrame = 10;  // marker, length, bits, height, width, channels

bool is_frame(std::uint8_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// The data of the segment at `at`, after its marker, its length and `skipped` bytes; cut where the file is.
Bytes segment(Bytes data, std::size_t at, std::size_t skipped) {
  const std::size_t end = std::min(data.size(), at + 2 + load_big16(data.data() + at + 2));
  const std::size_t begin = at + 4 + skipped;
  return begin < end ? data.subspan(begin, end - begin) : Bytes{};
}

}  // namespace

// Most often it is the last.
bool has_jpeg_end(Bytes data, std::size_t from) {
  for (std::size_t at = data.size(); at-- > from + 1;)
    if (data[at] == kEnd && data[at - 1] == kEscape) return true;
  return false;
}

bool walk_jpeg(Bytes data, JpegFrame& frame, const std::function<void(Bytes)>& exif) {
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
      const std::uint8_t* const p = data.data() + at;
      frame = {load_big16(p + 5), load_big16(p + 7), p[9], p[4]};
      return has_jpeg_end(data, at);
    }
    if (marker == kEnd || marker == kScan) return false;
    if (marker == kExif && std::memcmp(data.data() + at + 4, "Exif\0", 6) == 0) exif(segment(data, at, 6));
    at += 2 + load_big16(data.data() + at + 2);
  }
  return false;
}

}  // namespace bushel
