#include "orientation.h"

#include <algorithm>

#include "jpeg.h"
#include "png.h"

namespace bushel {

namespace {

constexpr std::uint8_t kScan[] = {0xff, 0xda};
constexpr std::uint8_t kExif[] = {'E', 'x', 'i', 'f', 0, 0};
constexpr std::size_t kTag = 0x0112, kShort = 3, kEntry = 12;

// Numbers in the byte order that EXIF data declare; false beyond their end.
struct Numbers {
  Bytes data;
  bool is_big;

  bool read(std::size_t at, std::size_t size, std::size_t& value) const {
    if (at > data.size() || size > data.size() - at) return false;
    value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | data[at + (is_big ? i : size - 1 - i)];
    return true;
  }
};

int exif_orientation(Bytes exif) {
  if (exif.size() < 8 || exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M')) return 1;
  const Numbers numbers{exif, exif[0] == 'M'};
  std::size_t at, count;
  if (!numbers.read(4, 4, at) || !numbers.read(at, 2, count)) return 1;
  for (std::size_t entry = at + 2; count > 0; --count, entry += kEntry) {
    std::size_t tag, kind, value;
    if (!numbers.read(entry, 2, tag) || !numbers.read(entry + 2, 2, kind)) return 1;
    if (tag != kTag || kind != kShort) continue;
    return numbers.read(entry + 8, 2, value) && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// `from`: where row 0 of the output begins; `along` and `down`: how far to the next pixel and the next row.
template <std::size_t channels>
void copy_turned(const std::uint8_t* from, std::ptrdiff_t along, std::ptrdiff_t down, ImageSize to, std::uint8_t* out) {
  for (std::size_t y = 0; y < to.height; ++y, from += down) {
    const std::uint8_t* pixel = from;
    for (std::size_t x = 0; x < to.width; ++x, pixel += along, out += channels)
      for (std::size_t c = 0; c < channels; ++c) out[c] = pixel[c];
  }
}

}  // namespace

int jpeg_orientation(Bytes data) {
  int orientation = 1;
  JpegFrame frame;
  const bool is_whole = walk_jpeg(data, frame, [&](Bytes exif) { orientation = exif_orientation(exif); });
  if (orientation == 1 || !is_whole || !frame.height || !frame.width) return 1;
  // EXIF data after the pixels do not count.
  const auto scan = std::search(data.begin(), data.end(), std::begin(kScan), std::end(kScan));
  return std::search(data.begin(), scan, std::begin(kExif), std::end(kExif)) == scan ? 1 : orientation;
}

int png_orientation(Bytes data) {
  int orientation = 1;
  PngHeader header;
  if (!read_png_header(data, header)) return 1;
  for_each_png_chunk(data, [&](const PngChunk& chunk) {
    if (chunk.is("eXIf")) orientation = exif_orientation(chunk.data);
    return !chunk.is("IDAT");
  });
  constexpr std::uint8_t kEnd[] = {'I', 'E', 'N', 'D'};
  return std::search(data.begin(), data.end(), std::begin(kEnd), std::end(kEnd)) == data.end() ? 1 : orientation;
}

void turn(const std::uint8_t* in, ImageSize size, int orientation, std::uint8_t* out) {
  const auto pixel = static_cast<std::ptrdiff_t>(size.channels), row = static_cast<std::ptrdiff_t>(size.row());
  const std::uint8_t* const right = in + row - pixel;
  const std::uint8_t* const bottom = in + static_cast<std::ptrdiff_t>(size.height - 1) * row;
  const ImageSize to = turned(size, orientation);
  const auto copy = [&](const std::uint8_t* from, std::ptrdiff_t along, std::ptrdiff_t down) {
    if (size.channels == 1) return copy_turned<1>(from, along, down, to, out);
    if (size.channels == 3) return copy_turned<3>(from, along, down, to, out);
    copy_turned<4>(from, along, down, to, out);
  };
  switch (orientation) {
    case 2:
      return copy(right, -pixel, row);
    case 3:
      return copy(bottom + row - pixel, -pixel, -row);
    case 4:
      return copy(bottom, pixel, -row);
    case 5:
      return copy(in, row, pixel);
    case 6:
      return copy(bottom, -row, pixel);
    case 7:
      return copy(bottom + row - pixel, -row, -pixel);
    case 8:
      return copy(right, row, -pixel);
    default:
      std::memcpy(out, in, size.values());
  }
}

}  // namespace bushel
