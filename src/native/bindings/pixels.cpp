// Encoded images to batches of pixels, and changes to pixels.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "decode_jpeg.h"
#include "decode_png.h"
#include "encode_jpeg.h"
#include "encode_png.h"
#include "paint.h"

namespace bushel {
namespace {

using Images = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using MoveArray = nb::ndarray<const std::int32_t, nb::shape<-1, 8>, nb::c_contig, nb::device::cpu>;
using FlipArray = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using BoxArray = nb::ndarray<const std::int64_t, nb::shape<-1, 4>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// How images are painted, for any batch.
struct Painting {
  Target target;  // without its size, its dtype and its steps
  Wish wish;
  bool is_upright = true;
};

Painting painting_of(bool planes, bool rounds, Kernel kernel, bool antialias, std::vector<float> mean,
                     std::vector<float> std, float fill, bool upright, std::pair<std::size_t, std::size_t> at_least,
                     std::size_t most_pixels) {
  Painting painting;
  painting.target.has_planes = planes;
  painting.target.rounds = rounds;
  painting.target.scaling = {kernel, antialias};
  painting.target.mean = std::move(mean);
  painting.target.std = std::move(std);
  painting.target.fill = fill;
  painting.is_upright = upright;
  painting.wish.least_height = at_least.first;
  painting.wish.least_width = at_least.second;
  painting.wish.limits.pixels = most_pixels;
  return painting;
}

Dtype dtype_of(const nb::dlpack::dtype& dtype) {
  if (dtype == nb::dtype<std::uint8_t>()) return Dtype::uint8;
  if (dtype == nb::dtype<float>()) return Dtype::float32;
  if (dtype == nb::dtype<std::uint16_t>()) return Dtype::bfloat16;
  if (dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) && dtype.bits == 16) return Dtype::float16;
  throw nb::value_error("a batch must be uint8, float32, float16, or uint16 for bfloat16");
}

// A batch to be painted, and everything known about its images.
struct Batch {
  Target target;
  Moves moves;
  std::vector<Numbers> held;  // what the steps point to
  std::uint8_t* out;
};

Batch batch_of(const Painting& painting, const Images& out, std::size_t count, const std::optional<MoveArray>& moves,
               const std::optional<FlipArray>& flips, nb::sequence steps) {
  static_assert(sizeof(Move) == 8 * sizeof(std::int32_t));
  if (out.ndim() != 4 || out.shape(0) != count) throw nb::value_error("a batch must have one image per row");
  Batch batch{painting.target, {}, {}, static_cast<std::uint8_t*>(out.data())};
  const bool planes = batch.target.has_planes;
  batch.target.size = {out.shape(planes ? 2 : 1), out.shape(planes ? 3 : 2), out.shape(planes ? 1 : 3)};
  batch.target.dtype = dtype_of(out.dtype());
  if (moves) batch.moves.moves = {reinterpret_cast<const Move*>(moves->data()), moves->shape(0)};
  if (flips) batch.moves.flips = {flips->data(), flips->shape(0)};
  for (const nb::handle step : steps) {
    const Numbers& numbers = batch.held.emplace_back(nb::cast<Numbers>(step[1]));
    batch.target.steps.push_back({nb::cast<Change>(step[0]), {numbers.data(), numbers.size()}});
  }
  check_target(batch.target, batch.moves, count);
  return batch;
}

nb::list to_list(const std::vector<Refused>& refusals) {
  nb::list list;
  for (const Refused& refusal : refusals)
    list.append(nb::make_tuple(refusal.row, refusal.outcome, to_str(refusal.words)));
  return list;
}

nb::list decode_images(const Int64s& offsets, nb::handle data, const Images& out, const Painting& painting,
                       std::optional<MoveArray> moves, std::optional<FlipArray> flips, nb::sequence steps,
                       std::size_t threads) {
  const View view(data);
  const std::vector<Bytes> images = rows_of(offsets, view.bytes());
  const Batch batch = batch_of(painting, out, images.size(), moves, flips, steps);
  std::vector<Refused> refusals;
  {
    const Nogil nogil;
    refusals = paint({images, painting.wish, painting.is_upright}, batch.target, batch.moves, batch.out, threads);
  }
  return to_list(refusals);
}

template <typename T>
std::vector<Refused> paint_all(const std::vector<Images>& images, const Batch& batch, std::size_t threads) {
  std::vector<Pixels<T>> pixels;
  for (const Images& image : images)
    pixels.push_back({static_cast<const T*>(image.data()), {image.shape(0), image.shape(1), image.shape(2)}});
  const Nogil nogil;
  return paint<T>(pixels, batch.target, batch.moves, batch.out, threads);
}

nb::list paint_images(nb::sequence images, const Images& out, const Painting& painting, std::optional<MoveArray> moves,
                      std::optional<FlipArray> flips, nb::sequence steps, std::size_t threads) {
  std::vector<Images> held;
  for (const nb::handle image : images) {
    held.push_back(nb::cast<Images>(image));
    if (held.back().ndim() != 3 || held.back().dtype() != held.front().dtype())
      throw nb::value_error("images must be height x width x channels, and all of one dtype");
  }
  const Batch batch = batch_of(painting, out, held.size(), moves, flips, steps);
  if (held.empty()) return {};
  if (held[0].dtype() == nb::dtype<std::uint8_t>()) return to_list(paint_all<std::uint8_t>(held, batch, threads));
  if (held[0].dtype() == nb::dtype<float>()) return to_list(paint_all<float>(held, batch, threads));
  throw nb::value_error("images must be uint8 or float32");
}

// (images, refusals); an image that was refused is None.
nb::tuple decode_each_image(const Int64s& offsets, nb::handle data, std::size_t channels, const Painting& painting,
                            std::size_t threads) {
  const View view(data);
  const std::vector<Bytes> images = rows_of(offsets, view.bytes());
  std::vector<DecodedImage> decoded(images.size());
  std::vector<Refused> refusals;
  {
    const Nogil nogil;
    Wish wish = painting.wish;
    wish.channels = channels;
    refusals = decode_each({images, wish, painting.is_upright}, decoded, threads);
  }
  for (const Refused& refusal : refusals) decoded[refusal.row].pixels = Buffer();
  nb::list arrays;
  for (DecodedImage& image : decoded) {
    if (!image.pixels.data()) {
      arrays.append(nb::none());
      continue;
    }
    auto* owned = new Buffer(std::move(image.pixels));
    nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Buffer*>(p); });
    arrays.append(nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(
        owned->data(), {image.size.height, image.size.width, image.size.channels}, owner)));
  }
  return nb::make_tuple(arrays, to_list(refusals));
}

std::vector<Refused> verify_rows(const std::vector<Bytes>& images, const Int64s& rows, std::size_t most_pixels,
                                 std::size_t threads) {
  for (std::size_t i = 0; i < rows.shape(0); ++i)
    if (rows.data()[i] < 0 || static_cast<std::size_t>(rows.data()[i]) >= images.size())
      throw nb::value_error("rows must be of the column");
  Wish wish;
  wish.limits.pixels = most_pixels;
  const Nogil nogil;
  return verify({images, wish, false}, {rows.data(), rows.shape(0)}, threads);
}

nb::list verify_images(const Int64s& offsets, nb::handle data, const Int64s& rows, std::size_t most_pixels,
                       std::size_t threads) {
  const View view(data);
  return to_list(verify_rows(rows_of(offsets, view.bytes()), rows, most_pixels, threads));
}

using SideArray = nb::ndarray<const std::int32_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

// (data, offsets, channels, refusals)
nb::tuple remake_images(const Int64s& offsets, nb::handle data, const Painting& painting, const SideArray& sizes,
                        const FlipArray& codecs, int quality, std::optional<MoveArray> moves, std::size_t threads) {
  static_assert(sizeof(Side) == 2 * sizeof(std::int32_t) && sizeof(Codec) == 1);
  const View view(data);
  const std::vector<Bytes> images = rows_of(offsets, view.bytes());
  if (sizes.shape(0) != images.size() || codecs.shape(0) != images.size())
    throw nb::value_error("sizes and codecs must be one per image");
  Target target = painting.target;
  target.size = {1, 1, 1};  // that of each image is its own
  Moves where;
  if (moves) where.moves = {reinterpret_cast<const Move*>(moves->data()), moves->shape(0)};
  check_target(target, where, images.size());
  const Remaking remaking{{reinterpret_cast<const Side*>(sizes.data()), sizes.shape(0)},
                          {reinterpret_cast<const Codec*>(codecs.data()), codecs.shape(0)},
                          quality};
  for (const Side& side : remaking.sizes)
    if (side.height < 1 || side.width < 1) throw nb::value_error("images must have at least one pixel");
  std::vector<RemadeImage> made(images.size());
  std::vector<Refused> refusals;
  std::vector<std::int64_t> ends{0}, channels;
  Buffer joined;
  {
    const Nogil nogil;
    refusals = remake({images, painting.wish, painting.is_upright}, target, where, remaking, made, threads);
    for (const RemadeImage& image : made) {
      ends.push_back(ends.back() + static_cast<std::int64_t>(image.data.size()));
      channels.push_back(static_cast<std::int64_t>(image.channels));
    }
    joined = Buffer(static_cast<std::size_t>(ends.back()));
    for (std::size_t i = 0; i < made.size(); ++i)
      if (!made[i].data.empty()) std::memcpy(joined.data() + ends[i], made[i].data.data(), made[i].data.size());
  }
  return nb::make_tuple(to_array<std::uint8_t>(std::move(joined)), copy_to_array(ends, {ends.size()}),
                        copy_to_array(channels, {channels.size()}), to_list(refusals));
}

// Codec, height, width, channels, orientation, bits, and whether it is animated.
nb::object image_headers(const Int64s& offsets, nb::handle data) {
  const View view(data);
  const std::vector<Bytes> images = rows_of(offsets, view.bytes());
  std::vector<std::int64_t> found;
  {
    const Nogil nogil;
    for (const Bytes image : images) {
      const EncodedHeader header = read_header(image);
      for (const std::size_t number :
           {static_cast<std::size_t>(header.codec), header.size.height, header.size.width, header.size.channels,
            static_cast<std::size_t>(header.orientation), static_cast<std::size_t>(header.bits),
            static_cast<std::size_t>(header.is_animated)})
        found.push_back(static_cast<std::int64_t>(number));
    }
  }
  return copy_to_array(found, {images.size(), 7});
}

std::size_t values_of(const Images& images) { return images.shape(0) ? images.size() / images.shape(0) : 0; }

void check_partners(const Images& images, const Images& out, const Int64s& partners) {
  if (images.ndim() < 2 || out.ndim() != images.ndim() || out.size() != images.size() ||
      partners.shape(0) != images.shape(0))
    throw nb::value_error("batches must have one shape, and one partner per row");
  for (std::size_t i = 0; i < partners.shape(0); ++i)
    if (partners.data()[i] < 0 || static_cast<std::size_t>(partners.data()[i]) >= images.shape(0))
      throw nb::value_error("partners must be rows of the batch");
}

void mix_images(const Images& images, const Int64s& partners, const Doubles& shares, const Images& out) {
  check_partners(images, out, partners);
  if (out.dtype() != nb::dtype<float>() || shares.shape(0) != images.shape(0))
    throw nb::value_error("rows are mixed as float32, with one share per row");
  const std::span<const std::int64_t> others{partners.data(), partners.shape(0)};
  const std::span<const double> parts{shares.data(), shares.shape(0)};
  const std::size_t values = values_of(images);
  auto* const mixed = static_cast<float*>(out.data());
  const bool is_bytes = images.dtype() == nb::dtype<std::uint8_t>();
  if (!is_bytes && images.dtype() != nb::dtype<float>()) throw nb::value_error("images must be uint8 or float32");
  const Nogil nogil;
  if (is_bytes)
    mix_rows(static_cast<const std::uint8_t*>(images.data()), values, others, parts, mixed);
  else
    mix_rows(static_cast<const float*>(images.data()), values, others, parts, mixed);
}

void paste_images(const Images& images, const Int64s& partners, const BoxArray& boxes, const Images& out) {
  check_partners(images, out, partners);
  if (images.ndim() != 4 || out.dtype() != images.dtype() || boxes.shape(0) != images.shape(0))
    throw nb::value_error("images must be rows x height x width x channels, with one box per row");
  const ImageSize size{images.shape(1), images.shape(2), images.shape(3) * images.itemsize()};
  std::vector<Part> parts;
  for (std::size_t i = 0; i < boxes.shape(0); ++i) {
    const std::int64_t* const box = boxes.data() + 4 * i;
    const bool is_empty = box[2] == 0 || box[3] == 0;
    const Part part{static_cast<std::size_t>(box[0]), static_cast<std::size_t>(box[1]),
                    static_cast<std::size_t>(box[2]), static_cast<std::size_t>(box[3])};
    if (!is_empty && !part.lies_in(size)) throw nb::value_error("boxes must lie in the images");
    parts.push_back(is_empty ? Part{} : part);
  }
  const Nogil nogil;
  paste_rows(static_cast<const std::uint8_t*>(images.data()), size, {partners.data(), partners.shape(0)}, parts,
             static_cast<std::uint8_t*>(out.data()));
}

using Picture = nb::ndarray<const std::uint8_t, nb::shape<-1, -1, -1>, nb::c_contig, nb::device::cpu>;

template <typename Encode>
nb::object encoded_bytes(const Picture& pixels, Encode&& encode) {
  std::vector<std::uint8_t> data;
  {
    const Nogil nogil;
    data = encode(pixels.data(), ImageSize{pixels.shape(0), pixels.shape(1), pixels.shape(2)});
  }
  return to_bytes(data);
}

nb::dict codec_names() {
  nb::dict names;
  names["jpeg"] = to_str(jpeg_library());
  names["png"] = to_str(png_library());
  return names;
}

}  // namespace

void bind_pixels(nb::module_& m) {
  nb::enum_<Outcome>(m, "Outcome", "The outcome for an image.")
      .value("OK", Outcome::ok)
      .value("OTHER", Outcome::other, "It is not a kind that is decoded here: use another decoder.")
      .value("DAMAGED", Outcome::damaged)
      .value("TOO_LARGE", Outcome::too_large, "It has more pixels than are allowed, or than there is memory for.")
      .value("OUTSIDE", Outcome::outside, "The requested part is not inside it.");
  nb::enum_<Change>(m, "Change", "What a step does to an image, and the numbers that it needs.")
      .value("FLIP", Change::flip, "Vertical, horizontal: each 0 or 1.")
      .value("BRIGHTNESS", Change::brightness, "What is added.")
      .value("CONTRAST", Change::contrast, "The factor by which values move from the mean of their channel.")
      .value("SATURATION", Change::saturation, "The factor by which colours move from grey.")
      .value("HUE", Change::hue, "The matrix that colours are multiplied by, row by row.")
      .value("ROTATE", Change::rotate, "Degrees, and the value beyond the edges.")
      .value("CUTOUT", Change::cutout, "Top, left, bottom, right, and the value to fill in.")
      .value("SHIFT", Change::shift, "The row and column that come to the upper left corner.");
  nb::class_<Painting>(
      m, "Painting",
      "How images become rows of a batch. `planes`: channels come first. `rounds`: what was resized is "
      "rounded to bytes, whatever the batch holds. `mean`, `std`: of each channel, or empty.")
      .def(nb::new_(&painting_of), "planes"_a = false, "rounds"_a = true, "kernel"_a = Kernel::kBilinear,
           "antialias"_a = false, "mean"_a = std::vector<float>(), "std"_a = std::vector<float>(), "fill"_a = 0.0f,
           "upright"_a = true, "at_least"_a = std::pair<std::size_t, std::size_t>(0, 0),
           "most_pixels"_a = Limits{}.pixels);
  m.def("decode_images", &decode_images, "offsets"_a, "data"_a, "out"_a.noconvert(), "painting"_a,
        "moves"_a.none() = nb::none(), "flips"_a.none() = nb::none(), "steps"_a = nb::list(), "threads"_a = 1,
        "Decode encoded images into the rows of a batch (uint8, float32, float16, or uint16 for bfloat16), and return "
        "(row, outcome, words) of those that were not. `moves`: int32, for each image the top, left, height and width "
        "of its part, the height and width that this is resized to, and the top and left where that is put. `flips`: "
        "uint8, 1 for left to right, 2 for upside down. `steps`: (change, float64 numbers of each image).");
  m.def("paint_images", &paint_images, "images"_a, "out"_a.noconvert(), "painting"_a, "moves"_a.none() = nb::none(),
        "flips"_a.none() = nb::none(), "steps"_a = nb::list(), "threads"_a = 1,
        "The same for images that are already decoded, uint8 or float32.");
  m.def("decode_each", &decode_each_image, "offsets"_a, "data"_a, "channels"_a, "painting"_a, "threads"_a = 1,
        "(images, refusals): each image at its own size, None if it was refused. 0 channels: as many as it has.");
  m.def("image_headers", &image_headers, "offsets"_a, "data"_a,
        "Codec (0 other, 1 JPEG, 2 PNG), height, width, channels, orientation, bits per channel, and 1 if it is "
        "animated, of each image; height and width are those of the image turned upright.");
  m.def("verify_images", &verify_images, "offsets"_a, "data"_a, "rows"_a, "most_pixels"_a = Limits{}.pixels,
        "threads"_a = 1, "(row, outcome, words) of those of the rows whose images do not decode to the last pixel.");
  m.def("remake_images", &remake_images, "offsets"_a, "data"_a, "painting"_a, "sizes"_a, "codecs"_a, "quality"_a = 95,
        "moves"_a.none() = nb::none(), "threads"_a = 1,
        "(data, offsets, channels, refusals) of images that are decoded, moved, and encoded again with the height and "
        "width and the codec (0 to leave it out, 1 JPEG, 2 PNG) of each.");
  m.def("mix_images", &mix_images, "images"_a.noconvert(), "partners"_a, "shares"_a, "out"_a.noconvert(),
        "Blends each row with its partner, by the share of each.");
  m.def("paste_images", &paste_images, "images"_a.noconvert(), "partners"_a, "boxes"_a, "out"_a.noconvert(),
        "Pastes a box (top, left, height, width) of its partner into each image.");
  m.def(
      "encode_jpeg",
      [](const Picture& pixels, int quality) {
        return encoded_bytes(pixels,
                             [&](const std::uint8_t* p, ImageSize size) { return encode_jpeg(p, size, quality); });
      },
      "pixels"_a, "quality"_a = 95, "A JPEG of uint8 pixels of 1 or 3 channels.");
  m.def(
      "encode_png", [](const Picture& pixels) { return encoded_bytes(pixels, encode_png); }, "pixels"_a,
      "A PNG of uint8 pixels of 1, 3 or 4 channels.");
  m.def("codecs", &codec_names, "The library that decodes each format here; empty: none.");
}

}  // namespace bushel
