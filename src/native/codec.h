// What image decoders share: the outcome for an image, and limits on what it may cost.
#pragma once

#include <stdexcept>

#include "image.h"

namespace bushel {

enum class Codec : std::uint8_t { other, jpeg, png };

enum class Outcome : std::uint8_t {
  ok,
  other,      // not a kind that is decoded here: another decoder may know it, or say what is wrong with it
  damaged,    // the decoder says how
  too_large,  // more pixels than the caller allows
  outside,    // the requested part is not inside the image
};

struct Limits {
  std::size_t pixels = std::size_t{1} << 28;
  int scans = 200;  // of a progressive JPEG; real ones have about ten
};

struct Wish {
  std::size_t channels = 0;                       // 0: as many as the image has
  std::size_t least_height = 0, least_width = 0;  // a JPEG twice as large or more is decoded at a smaller size
  Limits limits;
  bool is_by_library = false;  // leaves all of a JPEG to the library, to compare
};

struct Part {
  std::size_t top, left, height, width;

  bool lies_in(ImageSize size) const {
    return height > 0 && width > 0 && top <= size.height && height <= size.height - top && left <= size.width &&
           width <= size.width - left;
  }
};

// Why pixels cannot be encoded.
struct EncodeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A value of a pixel with alpha, on white.
inline std::uint8_t on_white(unsigned value, unsigned alpha) {
  return static_cast<std::uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

inline std::size_t load_big16(const std::uint8_t* p) { return static_cast<std::size_t>(p[0]) << 8 | p[1]; }
inline std::size_t load_big32(const std::uint8_t* p) { return load_big16(p) << 16 | load_big16(p + 2); }

}  // namespace bushel
