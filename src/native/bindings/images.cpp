// Images resized.
#include <memory>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "image.h"
#include "pool.h"

namespace bushel {
namespace {

template <typename T>
using Image = nb::ndarray<const T, nb::shape<-1, -1, -1>, nb::c_contig, nb::device::cpu>;

ImageSize size_of(const auto& image) { return {image.shape(0), image.shape(1), image.shape(2)}; }

void check_sizes(ImageSize from, ImageSize to) {
  for (const ImageSize size : {from, to})
    if (size.height == 0 || size.width == 0 || size.channels == 0)
      throw nb::value_error("images must have at least one pixel");
  if (from.channels != to.channels) throw nb::value_error("images must keep their channels");
}

template <typename In, typename Out>
nb::object resize_image(const Image<In>& image, std::size_t height, std::size_t width, bool antialias, Kernel kernel) {
  const ImageSize from = size_of(image), to{height, width, from.channels};
  check_sizes(from, to);
  // Resized images are usually copied into a batch and dropped: the next one reuses the memory while the cache has it.
  static const auto shelf = std::make_shared<Shelf>(8);
  auto* lent = new Lent(shelf, height * width * from.channels * sizeof(Out));
  nb::capsule owner(lent, [](void* p) noexcept { delete static_cast<Lent*>(p); });
  {
    const Nogil nogil;
    resize(image.data(), from, lent->buffer.as<Out>(), to, antialias, kernel);
  }
  return nb::cast(nb::ndarray<nb::numpy, Out>(lent->buffer.as<Out>(), {height, width, from.channels}, owner));
}

}  // namespace

void bind_images(nb::module_& m) {
  nb::enum_<Kernel>(m, "Kernel", "How values between pixels are computed.")
      .value("BILINEAR", Kernel::kBilinear)
      .value("AREA", Kernel::kArea)
      .value("BICUBIC", Kernel::kBicubic);
  m.def("resize_to_bytes", &resize_image<std::uint8_t, std::uint8_t>, "image"_a, "height"_a, "width"_a,
        "antialias"_a = false, "kernel"_a = Kernel::kBilinear,
        "A uint8 image of height x width x channels, resized and rounded.");
  m.def("resize_to_floats", &resize_image<std::uint8_t, float>, "image"_a, "height"_a, "width"_a, "antialias"_a = false,
        "kernel"_a = Kernel::kBilinear, "A uint8 image, resized, as float32.");
  m.def("resize_floats", &resize_image<float, float>, "image"_a, "height"_a, "width"_a, "antialias"_a = false,
        "kernel"_a = Kernel::kBilinear, "A float32 image, resized.");
}

}  // namespace bushel
