// JPEGs to pixels, row by row, with the values that libjpeg-turbo gives with its accurate settings.
#pragma once

#include <memory>
#include <string>

#include "codec.h"

namespace bushel {

inline constexpr bool kHasJpeg =
#if defined(BUSHEL_HAS_JPEG)
    true;
#else
    false;
#endif

// The name and version of the library; empty if there is none.
std::string jpeg_library();

// One image at a time: open, start, read, finish. Anything wrong with the data is damage, including what the library
// only warns about: other decoders fill such images up with grey.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header. `data` must stay until the image is finished, or another is opened.
  Outcome open(Bytes data, const Wish& wish);
  ImageSize size() const;  // of the image as it will be decoded

  // Goes to the first row of a part, which must be inside the image, decoding no more than needed.
  Outcome start(const Part& part);
  // A row as it is read: it holds `offset` bytes before those of the part, and perhaps some after them.
  std::size_t row_bytes() const;
  std::size_t offset() const;

  Outcome read(std::uint8_t* out, std::size_t stride, std::size_t rows);

  // After the last row that is needed.
  Outcome finish();

  // Instead of start, read and finish: whether all of the image can be decoded.
  Outcome verify();

  // Why the image is damaged, in the library's words.
  const std::string& words() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bushel
