#include "png.h"

namespace bushel {

std::size_t PngHeader::channels() const {
  switch (colour) {
    case PngColour::rgb:
      return 3;
    case PngColour::grey_alpha:
      return 2;
    case PngColour::rgba:
      return 4;
    default:
      return 1;
  }
}

bool read_png_header(Bytes data, PngHeader& header) {
  if (data.size() < kPngHeader || std::memcmp(data.data(), kPngSignature, sizeof kPngSignature) != 0) return false;
  if (load_big32(data.data() + 8) != 13 || std::memcmp(data.data() + 12, "IHDR", 4) != 0) return false;
  const std::uint8_t colour = data[25];
  header = {load_big32(data.data() + 20), load_big32(data.data() + 16), data[24], static_cast<PngColour>(colour),
            data[28] != 0};
  const bool is_colour = colour == 0 || colour == 2 || colour == 3 || colour == 4 || colour == 6;
  return is_colour && header.height > 0 && header.width > 0;
}

}  // namespace bushel
