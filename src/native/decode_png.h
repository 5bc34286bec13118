// PNGs to pixels: 8 bits per channel or a palette of 256, not interlaced, with the values that Pillow gives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codec.h"
#include "png.h"

namespace bushel {

inline constexpr bool kHasPng =
#if defined(BUSHEL_HAS_DEFLATE) || defined(BUSHEL_HAS_ZLIB)
    true;
#else
    false;
#endif

// The name and version of the library; empty if there is none.
std::string png_library();

// Inflates data to exactly `size` bytes; false if it is damaged or has another size.
class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool inflate(Bytes data, std::uint8_t* out, std::size_t size);

 private:
  void* state_;
};

// One image at a time. Other decoders say what is wrong with an image, unless that would take them long.
class PngDecoder {
 public:
  // Reads all chunks up to the pixels. `data` must stay until the image is decoded.
  Outcome open(Bytes data, const Wish& wish);
  ImageSize size() const { return size_; }

  // Decodes all rows down to the end of `part`, which must be inside the image.
  Outcome decode(const Part& part);
  // The first byte of the part that was decoded, and how many bytes lie between its rows.
  const std::uint8_t* pixels() const { return pixels_; }
  std::size_t stride() const { return stride_; }

  const std::string& words() const { return words_; }

 private:
  bool take(const PngChunk& chunk);
  Bytes packed();
  bool unfilter(std::size_t rows);
  bool convert(const Part& part);

  PngHeader header_;
  ImageSize size_{};
  std::size_t channels_ = 0;  // as stored
  bool is_other_ = false;
  std::size_t colours_ = 0;        // of the palette
  std::uint8_t palette_[256 * 4];  // red, green, blue, alpha
  bool has_alpha_ = false;         // of the palette
  std::vector<Bytes> parts_;       // of the packed pixels
  Buffer packed_, raw_, converted_;
  const std::uint8_t* pixels_ = nullptr;
  std::size_t stride_ = 0;
  std::string words_;
  Inflater inflater_;
};

}  // namespace bushel
