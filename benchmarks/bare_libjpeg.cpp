// What libjpeg-turbo takes to decode JPEGs that are in memory, and nothing else: what `pixels_core.py` compares with.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>
// after <cstdio>, which it needs
#include <jpeglib.h>

namespace {

// The library's own handlers would exit: the data of a benchmark are intact.
void decode(const std::uint8_t* data, std::size_t size, std::vector<std::uint8_t>& out) {
  jpeg_decompress_struct image;
  jpeg_error_mgr errors;
  image.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&image);
  jpeg_mem_src(&image, data, size);
  jpeg_read_header(&image, TRUE);
  jpeg_start_decompress(&image);
  const std::size_t row = std::size_t{image.output_width} * static_cast<std::size_t>(image.output_components);
  if (out.size() < row * image.output_height) out.resize(row * image.output_height);
  while (image.output_scanline < image.output_height) {
    JSAMPROW rows[16];
    for (std::size_t i = 0; i < 16; ++i) rows[i] = out.data() + (image.output_scanline + i) * row;
    jpeg_read_scanlines(&image, rows, 16);
  }
  jpeg_finish_decompress(&image);
  jpeg_destroy_decompress(&image);
}

}  // namespace

extern "C" void bare_decode(const std::uint8_t* data, const std::int64_t* offsets, std::int64_t count, int threads) {
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    std::vector<std::uint8_t> out;
    for (std::int64_t i = next++; i < count; i = next++)
      decode(data + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i]), out);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}
