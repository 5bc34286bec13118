// Any bytes as a PNG: as they are, with checksums that match, and as the rows of one whose header they begin with.
#include <cstdlib>

#include "paint.h"
#include "pictures.h"

using namespace bushel;

namespace {

constexpr Limits kSmall{.pixels = 1 << 16, .scans = 20};

void demand(bool holds) {
  if (!holds) std::abort();
}

void run(const std::string& file, std::size_t channels) {
  const build::Exact exact(file);
  const Bytes image = exact.bytes();
  const EncodedHeader header = read_header(image);
  demand(header.orientation >= 1 && header.orientation <= 8);
  DecodedImage whole;
  const bool is_refused = !decode_each({{&image, 1}, {channels, 0, 0, kSmall}, true}, {&whole, 1}, 1).empty();
  const bool is_told = header.codec != Codec::other;  // what lacks its end is not
  demand(is_refused || !is_told || (whole.size.height == header.size.height && whole.size.width == header.size.width));
  Target target;
  target.size = {5, 6, channels ? channels : 3};
  pictures::Pixels out(target.size.values());
  paint({{&image, 1}, {0, 0, 0, kSmall}, true}, target, {}, out.data(), 1);
  const Side side{4, 3};
  const Codec codecs[] = {Codec::jpeg, Codec::png};
  const std::int64_t row = 0;
  for (const Codec codec : codecs) {
    RemadeImage made;
    Target any;
    any.size = {1, 1, 1};
    remake({{&image, 1}, {0, 0, 0, kSmall}, true}, any, {}, {{&side, 1}, {&codec, 1}, 90}, {&made, 1}, 1);
  }
  verify({{&image, 1}, {0, 0, 0, kSmall}, false}, {&row, 1}, 1);
  if (is_refused || !is_told || channels == 0) return;
  const auto height = static_cast<std::int32_t>(header.size.height),
             width = static_cast<std::int32_t>(header.size.width);
  const Move part{height / 2, width / 2, height - height / 2, width - width / 2, 5, 6, 0, 0};
  demand(paint({{&image, 1}, {0, 0, 0, kSmall}, true}, target, {{&part, 1}, {}}, out.data(), 1).empty());
}

// A change that is made behind a checksum would not be seen.
std::string mended(std::string file) {
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t length = load_big32(reinterpret_cast<const std::uint8_t*>(file.data()) + at);
    if (length > file.size() - at - 12) break;
    file.replace(at + 8 + length, 4,
                 pictures::big32(pictures::crc32(std::string_view(file).substr(at + 4, 4 + length))));
    at += 12 + length;
  }
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file(reinterpret_cast<const char*>(data), size);
  constexpr std::size_t kChannels[] = {0, 1, 3, 4};
  const std::size_t channels = kChannels[size == 0 ? 0 : data[size / 2] % 4];
  run(file, channels);
  run(mended(file), channels);
  if (size < 4) return 0;
  constexpr int kColours[] = {0, 2, 3, 4, 6};
  constexpr std::size_t kStored[] = {1, 3, 1, 2, 4};
  const std::size_t colour = data[2] % 5, row = 1 + (1 + data[1] % 16) * kStored[colour];
  std::string rows = file.substr(4, (1 + data[0] % 16) * row);
  rows.resize((1 + data[0] % 16) * row);
  for (std::size_t at = 0; at < rows.size(); at += row) rows[at] = static_cast<char>(rows[at] % 6);
  const std::string palette = pictures::chunk("PLTE", std::string(3 * (1 + std::size_t{data[3]}), 'p'));
  run(pictures::Png{1 + std::size_t{data[0]} % 16, 1 + std::size_t{data[1]} % 16, kColours[colour], 8, 0, palette}.file(
          rows, 1 + data[3] % 3),
      channels);
  return 0;
}
