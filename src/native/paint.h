// Puts images into a batch: decodes, crops, resizes, flips, changes, scales, casts and lays them out in one pass.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "augment.h"
#include "codec.h"

namespace bushel {

// Where the pixels of one image go: a part of it is resized and put somewhere, perhaps beyond the edges.
struct Move {
  std::int32_t top, left, height, width;  // of the part
  std::int32_t to_height, to_width;       // the size after resizing
  std::int32_t at_top, at_left;           // where it goes
};

inline constexpr std::uint8_t kMirrored = 1, kUpsideDown = 2;  // flips, after resizing

enum class Dtype : std::uint8_t { uint8, float32, float16, bfloat16 };

std::size_t size_of(Dtype dtype);

// The form that images have in a batch.
struct Target {
  ImageSize size;
  Dtype dtype = Dtype::uint8;
  bool has_planes = false;  // channels x height x width
  Scaling scaling;
  bool rounds = true;            // values are rounded to bytes after resizing, whatever follows
  std::vector<float> mean, std;  // of each channel, or none: (value - mean) / std
  float fill = 0;                // for what a move leaves empty
  std::vector<Step> steps;       // before all is scaled and cast
};

struct Side {
  std::int32_t height, width;
};

struct Moves {
  std::span<const Move> moves;          // none: all of an image fills its place
  std::span<const std::uint8_t> flips;  // none: as it is
};

struct Refused {
  std::size_t row;
  Outcome outcome;
  std::string words;
};

// Images that are already decoded.
template <typename T>
struct Pixels {
  const T* data;
  ImageSize size;
};

struct EncodedImages {
  std::span<const Bytes> images;
  Wish wish;  // its channels are those of the target
  bool is_upright = true;
};

// Throws std::invalid_argument if there is not one move, flip or step per image, or if one is impossible.
void check_target(const Target& target, const Moves& moves, std::size_t count);

// Rows of `out` whose images are refused are not written, or only in part. Uses as many threads as requested.
std::vector<Refused> paint(const EncodedImages& encoded, const Target& target, const Moves& moves, std::uint8_t* out,
                           std::size_t threads);
template <typename T>
std::vector<Refused> paint(std::span<const Pixels<T>> images, const Target& target, const Moves& moves,
                           std::uint8_t* out, std::size_t threads);

struct DecodedImage {
  Buffer pixels;
  ImageSize size{};
};

// Each image whole, at its own size.
std::vector<Refused> decode_each(const EncodedImages& encoded, std::span<DecodedImage> out, std::size_t threads);

// Whether every pixel of an image can be decoded, at the smallest scale there is; only the rows named are looked at.
std::vector<Refused> verify(const EncodedImages& encoded, std::span<const std::int64_t> rows, std::size_t threads);

// What images are encoded as again: one size and one codec each (`other`: it is left out), and the quality of JPEGs.
struct Remaking {
  std::span<const Side> sizes;
  std::span<const Codec> codecs;
  int quality = 95;
};

struct RemadeImage {
  std::vector<std::uint8_t> data;
  std::size_t channels = 0;
};

// Each image decoded, moved, and encoded again with the channels that it has; a JPEG has no alpha. The size of the
// target is that of each image.
std::vector<Refused> remake(const EncodedImages& encoded, const Target& target, const Moves& moves,
                            const Remaking& remaking, std::span<RemadeImage> out, std::size_t threads);

struct EncodedHeader {
  Codec codec = Codec::other;
  ImageSize size{};  // turned upright, with the channels that it names: 2 for grey with alpha
  int orientation = 1;
  int bits = 8;
  bool is_animated = false;
};

// What is known before decoding; `other` if it may be an image, but not of a kind that is decoded here.
EncodedHeader read_header(Bytes image);

}  // namespace bushel
