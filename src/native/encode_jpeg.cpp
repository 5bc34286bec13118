#include "encode_jpeg.h"

#if defined(BUSHEL_HAS_JPEG)

#include <csetjmp>
#include <cstdlib>

#include "jpeg_errors.h"

namespace bushel {

namespace {

constexpr int kAccurate = 96;  // from this quality on the DCT is accurate

// State that survives a jump out of the library.
struct Encoder {
  jpeg_compress_struct image{};
  jpeg_error_mgr errors{};
  std::jmp_buf home;
  unsigned char* data = nullptr;
  unsigned long size = 0;
  char words[JMSG_LENGTH_MAX] = "";

  Encoder() = default;
  ~Encoder() {
    jpeg_destroy_compress(&image);
    std::free(data);
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
};

// False if the library gave up. Nothing in here has a destructor.
bool encode(Encoder& encoder, const std::uint8_t* pixels, ImageSize size, int quality) {
  jpeg_compress_struct& image = encoder.image;
  const auto leave = [](j_common_ptr common) {
    auto& self = *static_cast<Encoder*>(common->client_data);
    self.errors.format_message(common, self.words);
    std::longjmp(self.home, 1);
  };
  set_jpeg_errors(encoder.errors, leave, [](j_common_ptr, int) {});
  image.err = &encoder.errors;
  image.client_data = &encoder;
  if (setjmp(encoder.home)) return false;
  jpeg_create_compress(&image);
  jpeg_mem_dest(&image, &encoder.data, &encoder.size);
  image.image_height = static_cast<JDIMENSION>(size.height);
  image.image_width = static_cast<JDIMENSION>(size.width);
  image.input_components = static_cast<int>(size.channels);
  image.in_color_space = size.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&image);
  jpeg_set_quality(&image, quality, TRUE);
  image.dct_method = quality < kAccurate ? JDCT_IFAST : JDCT_ISLOW;
  jpeg_start_compress(&image, TRUE);
  while (image.next_scanline < image.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels + image.next_scanline * size.row());
    jpeg_write_scanlines(&image, &row, 1);
  }
  jpeg_finish_compress(&image);
  return true;
}

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const std::uint8_t* pixels, ImageSize size, int quality) {
  if (size.channels != 1 && size.channels != 3) throw EncodeError("a JPEG has 1 or 3 channels");
  if (size.height == 0 || size.width == 0 || size.height > JPEG_MAX_DIMENSION || size.width > JPEG_MAX_DIMENSION)
    throw EncodeError("a JPEG has 1 to 65500 pixels a side");
  Encoder encoder;
  if (!encode(encoder, pixels, size, quality)) throw EncodeError(encoder.words);
  return {encoder.data, encoder.data + encoder.size};
}

}  // namespace bushel

#else

namespace bushel {

std::vector<std::uint8_t> encode_jpeg(const std::uint8_t*, ImageSize, int) {
  throw EncodeError("bushel was compiled without libjpeg");
}

}  // namespace bushel

#endif
