#include <stdexcept>

#include "check.h"
#include "decode_jpeg.h"
#include "encode_png.h"
#include "half.h"
#include "orientation.h"
#include "paint.h"
#include "pictures.h"

using namespace bushel;
using build::Exact;

namespace {

Target target(ImageSize size, Dtype dtype = Dtype::uint8) {
  Target made;
  made.size = size;
  made.dtype = dtype;
  made.rounds = dtype == Dtype::uint8;
  return made;
}

template <typename T>
std::vector<T> painted(const pictures::Pixels& pixels, ImageSize from, const Target& to, const Move* move = nullptr,
                       std::uint8_t flips = 0) {
  std::vector<T> out(to.size.values());
  const Pixels<std::uint8_t> image{pixels.data(), from};
  Moves moves;
  if (move) moves.moves = {move, 1};
  if (flips) moves.flips = {&flips, 1};
  CHECK(paint<std::uint8_t>({&image, 1}, to, moves, reinterpret_cast<std::uint8_t*>(out.data()), 1).empty());
  return out;
}

std::string png(const pictures::Pixels& pixels, ImageSize size) {
  return pictures::Png{size.height, size.width, size.channels == 1 ? 0 : 2}.file(
      pictures::filtered(pixels, size.row(), size.channels, 4));
}

}  // namespace

TEST(paint, an_image_of_the_same_size_is_copied) {
  const ImageSize size{5, 7, 3};
  CHECK(painted<std::uint8_t>(pictures::pixels(size), size, target(size)) == pictures::pixels(size));
}

TEST(paint, a_flip_mirrors_what_was_resized_too) {
  const ImageSize from{9, 11, 3};
  for (const ImageSize to : {from, ImageSize{6, 14, 3}, ImageSize{20, 5, 3}}) {
    const std::vector<float> plain = painted<float>(pictures::pixels(from), from, target(to, Dtype::float32));
    for (const std::uint8_t flips : {1, 2, 3}) {
      const std::vector<float> flipped =
          painted<float>(pictures::pixels(from), from, target(to, Dtype::float32), nullptr, flips);
      for (std::size_t y = 0; y < to.height; ++y)
        for (std::size_t x = 0; x < to.width; ++x)
          for (std::size_t c = 0; c < 3; ++c) {
            const std::size_t row = flips & kUpsideDown ? to.height - 1 - y : y;
            const std::size_t column = flips & kMirrored ? to.width - 1 - x : x;
            CHECK(flipped[(y * to.width + x) * 3 + c] == plain[(row * to.width + column) * 3 + c]);
          }
    }
  }
}

TEST(paint, what_is_put_beyond_the_edge_is_cut_and_room_is_filled) {
  const ImageSize from{2, 2, 1}, to{3, 3, 1};
  Target with_fill = target(to);
  with_fill.fill = 9;
  const Move inside{0, 0, 2, 2, 2, 2, 1, 0}, outside{0, 0, 2, 2, 2, 2, -1, 2};
  CHECK(painted<std::uint8_t>({1, 2, 3, 4}, from, with_fill, &inside) == pictures::Pixels{9, 9, 9, 1, 2, 9, 3, 4, 9});
  CHECK(painted<std::uint8_t>({1, 2, 3, 4}, from, with_fill, &outside) == pictures::Pixels{9, 9, 3, 9, 9, 9, 9, 9, 9});
}

TEST(paint, planes_scaling_and_casts_change_only_what_they_say) {
  const ImageSize size{2, 2, 3};
  const pictures::Pixels pixels = pictures::pixels(size);
  Target to = target(size, Dtype::float32);
  to.has_planes = true;
  to.mean = {1, 2, 3};
  to.std = {2, 4, 8};
  const std::vector<float> planes = painted<float>(pixels, size, to);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      CHECK(planes[c * 4 + i] == (static_cast<float>(pixels[i * 3 + c]) - to.mean[c]) / to.std[c]);
  to.dtype = Dtype::float16;
  const std::vector<std::uint16_t> halves = painted<std::uint16_t>(pixels, size, to);
  std::vector<std::uint16_t> expected(planes.size());
  to_float16(planes.data(), planes.size(), expected.data());
  CHECK(halves == expected);
}

TEST(paint, encoded_images_become_what_their_pixels_do) {
  const ImageSize size{13, 17, 3}, to{8, 9, 3};
  const pictures::Pixels pixels = pictures::pixels(size);
  const Exact file(png(pixels, size));
  const std::vector<Bytes> images(5, file.bytes());
  const Target wanted = target(to, Dtype::float32);
  const std::vector<float> expected = painted<float>(pixels, size, wanted);
  for (const std::size_t threads : {1u, 3u}) {
    std::vector<float> out(images.size() * to.values());
    CHECK(paint({images, {}, true}, wanted, {}, reinterpret_cast<std::uint8_t*>(out.data()), threads).empty());
    for (std::size_t i = 0; i < images.size(); ++i)
      CHECK(std::memcmp(out.data() + i * to.values(), expected.data(), expected.size() * sizeof(float)) == 0);
  }
}

TEST(paint, images_that_cannot_be_used_are_told_by_their_rows) {
  const ImageSize size{4, 4, 3};
  const Exact good(png(pictures::pixels(size), size)), cut(png(pictures::pixels(size), size).substr(0, 40)),
      none("GIF8");
  const std::vector<Bytes> images{none.bytes(), good.bytes(), cut.bytes(), good.bytes(), {}};
  const std::vector<Move> moves{{0, 0, 4, 4, 4, 4, 0, 0},
                                {0, 0, 4, 4, 4, 4, 0, 0},
                                {0, 0, 4, 4, 4, 4, 0, 0},
                                {1, 0, 4, 4, 4, 4, 0, 0},
                                {0, 0, 4, 4, 4, 4, 0, 0}};
  pictures::Pixels out(images.size() * size.values());
  const std::vector<Refused> refused = paint({images, {}, true}, target(size), {moves, {}}, out.data(), 2);
  CHECK(refused.size() == 4 && refused[0].row == 0 && refused[1].row == 2 && refused[2].row == 3 &&
        refused[3].row == 4);
  CHECK(refused[0].outcome == Outcome::other && refused[2].outcome == Outcome::outside);
  CHECK(std::memcmp(out.data() + size.values(), pictures::pixels(size).data(), size.values()) == 0);
}

TEST(paint, images_are_encoded_again_with_the_size_and_the_codec_of_each) {
  const ImageSize size{12, 9, 3};
  const std::string file = png(pictures::pixels(size), size), grey = png(pictures::pixels({4, 4, 1}), {4, 4, 1});
  const Exact first(file), second(grey), none("none");
  const Bytes images[] = {first.bytes(), second.bytes(), none.bytes(), first.bytes()};
  const Side sizes[] = {{5, 6}, {4, 4}, {3, 3}, {2, 2}};
  const Codec codecs[] = {Codec::png, Codec::png, Codec::png, Codec::other};
  for (const std::size_t threads : {1u, 3u}) {
    RemadeImage made[4];
    const std::vector<Refused> refused =
        remake({images, {}, true}, target({1, 1, 1}), {}, {sizes, codecs, 90}, made, threads);
    CHECK(refused.size() == 1 && refused[0].row == 2 && refused[0].outcome == Outcome::other);
    const ImageSize small{5, 6, 3};
    const pictures::Pixels pixels = painted<std::uint8_t>(pictures::pixels(size), size, target(small));
    CHECK(made[0].data == encode_png(pixels.data(), small) && made[0].channels == 3);
    CHECK(made[1].data == encode_png(pictures::pixels({4, 4, 1}).data(), {4, 4, 1}) && made[1].channels == 1);
    CHECK(made[2].data.empty() && made[3].data.empty());
  }
}

TEST(paint, images_are_verified_to_their_last_pixel) {
  const ImageSize size{12, 9, 3};
  const std::string file = png(pictures::pixels(size), size);
  std::string flipped = file;
  flipped[flipped.size() - 20] = static_cast<char>(flipped[flipped.size() - 20] ^ 1);
  const Exact whole(file), cut(file.substr(0, file.size() / 2)), damaged(flipped);
  const Bytes images[] = {whole.bytes(), cut.bytes(), damaged.bytes(), cut.bytes()};
  const std::int64_t rows[] = {2, 0, 1};
  const std::vector<Refused> refused = verify({images, {}, false}, rows, 2);
  CHECK(refused.size() == 2 && refused[0].row == 1 && refused[1].row == 2);
}

TEST(paint, what_cannot_be_asked_for_is_refused_before_anything_is_done) {
  const auto is_refused = [](const Target& to, const Moves& moves) {
    try {
      check_target(to, moves, 2);
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  const Target plain = target({4, 4, 1});
  CHECK(!is_refused(plain, {}));
  const std::uint8_t flip = 1;
  CHECK(is_refused(plain, {{}, {&flip, 1}}));
  const Move nothing[2] = {{0, 0, 1, 1, 0, 1, 0, 0}, {0, 0, 1, 1, 1, 1, 0, 0}};
  CHECK(is_refused(plain, {nothing, {}}));
  CHECK(is_refused(target({0, 4, 1}), {}));
  Target changed = plain;
  const double numbers[2] = {1, 2}, endless[2] = {1, 1 / 0.0};
  changed.steps = {{Change::saturation, numbers}};
  CHECK(is_refused(changed, {}));
  changed.steps = {{Change::brightness, endless}};
  CHECK(is_refused(changed, {}));
  changed.steps = {{Change::rotate, numbers}};
  CHECK(is_refused(changed, {}));
  changed.steps = {{Change::brightness, numbers}};
  CHECK(!is_refused(changed, {}));
}

TEST(paint, steps_change_each_image_by_its_own_numbers) {
  const ImageSize size{2, 2, 1};
  const pictures::Pixels pixels{10, 20, 30, 250};
  const Pixels<std::uint8_t> images[2] = {{pixels.data(), size}, {pixels.data(), size}};
  Target to = target(size);
  const double added[2] = {10, -15}, boxes[10] = {0, 0, 1, 1, 7, 1, 1, 9, 9, 8};
  to.steps = {{Change::brightness, added}, {Change::cutout, boxes}};
  pictures::Pixels out(8);
  CHECK(paint<std::uint8_t>(images, to, {}, out.data(), 1).empty());
  CHECK(out == pictures::Pixels{7, 30, 40, 255, 0, 5, 15, 8});
}

TEST(paint, each_image_can_be_decoded_at_its_own_size) {
  const ImageSize one{3, 4, 3}, other{6, 2, 1};
  const Exact first(png(pictures::pixels(one), one)), second(png(pictures::pixels(other), other)), none("");
  const std::vector<Bytes> images{first.bytes(), none.bytes(), second.bytes()};
  std::vector<DecodedImage> out(3);
  const std::vector<Refused> refused = decode_each({images, {}, true}, out, 1);
  CHECK(refused.size() == 1 && refused[0].row == 1);
  CHECK(out[0].size == one && out[2].size == other);
  CHECK(std::memcmp(out[0].pixels.data(), pictures::pixels(one).data(), one.values()) == 0);
}

TEST(orientation, turning_follows_exif) {
  const pictures::Pixels in{1, 2, 3, 4, 5, 6};  // two rows of three
  const pictures::Pixels expected[] = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1}, {4, 5, 6, 1, 2, 3},
                                       {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3}, {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    pictures::Pixels out(6);
    turn(in.data(), {2, 3, 1}, orientation, out.data());
    CHECK(out == expected[orientation - 1]);
    CHECK(turned({2, 3, 1}, orientation).height == (orientation < 5 ? 2u : 3u));
  }
}

TEST(orientation, a_png_says_it_in_a_chunk_and_garbage_says_upright) {
  const std::string exif = std::string("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22);
  const auto with = [](const std::string& data) {
    const Exact file(pictures::Png{1, 1, 0, 8, 0, pictures::chunk("eXIf", data)}.file(std::string(2, '\0')));
    return png_orientation(file.bytes());
  };
  CHECK(with(exif) == 6);
  for (std::size_t size = 0; size < 20; ++size) CHECK(with(exif.substr(0, size)) == 1);
  std::string far = exif;
  for (const std::size_t at : {4, 5, 6, 7}) far[at] = '\xff';
  CHECK(with(far) == 1);
}

TEST(half, floats_round_to_even) {
  const float in[] = {0, 1, -2, 65504, 65520, 1e-8f, 6.0e-8f, 2049, 2051, 1.0f / 3, 0, 0, 0, 0, 0, 0, 2049};
  std::uint16_t out[17];
  to_float16(in, 17, out);
  const std::uint16_t expected[] = {0, 0x3c00, 0xc000, 0x7bff, 0x7c00, 0, 1, 0x6800, 0x6802, 0x3555};
  CHECK(std::memcmp(out, expected, sizeof expected) == 0);
  CHECK(out[16] == 0x6800);  // one by one as eight at once
  to_bfloat16(in, 17, out);
  CHECK(out[1] == 0x3f80 && out[2] == 0xc000 && out[9] == 0x3eab);
}
