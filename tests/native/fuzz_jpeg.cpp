// Any bytes as a JPEG: decoded whole, in part and smaller, all of it within bounds, and as the library alone does it.
#include <cstdlib>

#include "jpeg.h"
#include "paint.h"

using namespace bushel;

namespace {

constexpr Limits kSmall{.pixels = 1 << 16, .scans = 20};

void demand(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes image{data, size};
  const EncodedHeader header = read_header(image);
  demand(header.orientation >= 1 && header.orientation <= 8);
  JpegFrame frame;
  walk_jpeg(image, frame, [](Bytes) {});
  const std::size_t channels = size == 0 ? 0 : data[size / 2] % 5;
  Wish wish{channels, channels, channels, kSmall};
  DecodedImage first, again;
  const bool is_refused = !decode_each({{&image, 1}, wish, true}, {&first, 1}, 1).empty();
  Wish by_library = wish;
  by_library.is_by_library = true;
  demand(is_refused == !decode_each({{&image, 1}, by_library, true}, {&again, 1}, 1).empty());
  demand(is_refused ||
         (first.size == again.size && std::memcmp(first.pixels.data(), again.pixels.data(), first.size.values()) == 0));
  wish.least_height = wish.least_width = 0;
  Target target;
  target.size = {5, 6, channels == 1 || channels == 4 ? channels : 3};
  target.dtype = Dtype::float32;
  target.rounds = false;
  float out[5 * 6 * 4];
  auto* const bytes = reinterpret_cast<std::uint8_t*>(out);
  paint({{&image, 1}, wish, true}, target, {}, bytes, 1);
  const auto height = static_cast<std::int32_t>(header.size.height),
             width = static_cast<std::int32_t>(header.size.width);
  const Move part{height / 3, width / 3, height / 2, width / 2, 5, 6, 0, 0};
  const std::uint8_t flips = size % 4;
  paint({{&image, 1}, wish, true}, target, {{&part, 1}, {&flips, 1}}, bytes, 1);
  const Side side{4, 3};
  const Codec codecs[] = {Codec::jpeg, Codec::png};
  const std::int64_t row = 0;
  for (const Codec codec : codecs) {
    RemadeImage made;
    Target any;
    any.size = {1, 1, 1};
    remake({{&image, 1}, {0, 0, 0, kSmall}, true}, any, {}, {{&side, 1}, {&codec, 1}, 90}, {&made, 1}, 1);
  }
  const Wish least{0, 0, 0, kSmall}, least_by_library{0, 0, 0, kSmall, true};
  const std::vector<Refused> verified = verify({{&image, 1}, least, false}, {&row, 1}, 1);
  const std::vector<Refused> expected = verify({{&image, 1}, least_by_library, false}, {&row, 1}, 1);
  demand(verified.size() == expected.size());
  demand(verified.empty() || (verified[0].outcome == expected[0].outcome && verified[0].words == expected[0].words));
  return 0;
}
