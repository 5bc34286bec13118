#include <limits>

#include "augment.h"
#include "check.h"

using namespace bushel;

namespace {

template <typename T>
std::vector<T> changed(std::vector<T> image, ImageSize size, Change change, std::vector<double> numbers) {
  std::vector<T> spare;
  CHECK(numbers.size() == number_count(change));
  change_image(image.data(), size, change, numbers.data(), spare);
  return image;
}

using Values = std::vector<std::uint8_t>;

}  // namespace

TEST(augment, brightness_is_added_and_kept_within_the_range) {
  CHECK(changed<std::uint8_t>({0, 100, 250}, {1, 3, 1}, Change::brightness, {10.4}) == Values{10, 110, 255});
  CHECK(changed<std::uint8_t>({0, 100, 250}, {1, 3, 1}, Change::brightness, {-60}) == Values{0, 40, 190});
  CHECK(changed<float>({0, 100, 250}, {1, 3, 1}, Change::brightness, {0.25}) ==
        std::vector<float>{0.25, 100.25, 250.25});
}

TEST(augment, bytes_are_rounded_to_even) {
  CHECK(changed<std::uint8_t>({1, 2, 3}, {1, 3, 1}, Change::brightness, {0.5}) == Values{2, 2, 4});
}

TEST(augment, contrast_moves_each_channel_from_its_own_mean) {
  CHECK(changed<std::uint8_t>({10, 30}, {1, 2, 1}, Change::contrast, {2}) == Values{0, 40});
  CHECK(changed<std::uint8_t>({10, 100, 50, 30, 100, 60}, {1, 2, 3}, Change::contrast, {2}) ==
        Values{0, 100, 45, 40, 100, 65});
  CHECK(changed<std::uint8_t>({10, 100, 30, 100}, {1, 2, 2}, Change::contrast, {2}) == Values{0, 100, 40, 100});
}

TEST(augment, saturation_moves_colours_from_their_grey_and_leaves_grey_as_it_is) {
  CHECK(changed<std::uint8_t>({50, 50, 50}, {1, 1, 3}, Change::saturation, {1.2}) == Values{50, 50, 50});
  CHECK(changed<std::uint8_t>({200, 0, 0}, {1, 1, 3}, Change::saturation, {0}) == Values{60, 60, 60});
}

TEST(augment, hue_multiplies_colours_by_its_matrix) {
  CHECK(changed<std::uint8_t>({1, 2, 3}, {1, 1, 3}, Change::hue, {0, 1, 0, 0, 0, 1, 1, 0, 0}) == Values{2, 3, 1});
}

TEST(augment, a_flip_mirrors_rows_or_columns) {
  const Values image{1, 2, 3, 4, 5, 6};
  CHECK(changed(image, {2, 3, 1}, Change::flip, {0, 1}) == Values{3, 2, 1, 6, 5, 4});
  CHECK(changed(image, {2, 3, 1}, Change::flip, {1, 0}) == Values{4, 5, 6, 1, 2, 3});
}

TEST(augment, a_rotation_turns_against_the_clock_and_fills_what_comes_from_outside) {
  const Values image{1, 2, 3, 4};
  CHECK(changed(image, {2, 2, 1}, Change::rotate, {0, 9}) == image);
  CHECK(changed(image, {2, 2, 1}, Change::rotate, {180, 9}) == Values{4, 3, 2, 1});
  CHECK(changed(image, {2, 2, 1}, Change::rotate, {90, 9}) == Values{2, 4, 1, 3});
  CHECK(changed(Values(25, 7), {5, 5, 1}, Change::rotate, {45, 9})[0] == 9);
  CHECK(changed(Values(25, 7), {5, 5, 1}, Change::rotate, {45, 9})[12] == 7);
}

TEST(augment, a_cutout_beyond_the_edge_ends_there) {
  CHECK(changed<std::uint8_t>({1, 2, 3, 4}, {2, 2, 1}, Change::cutout, {-3, 1, 1, 7, 9}) == Values{1, 9, 3, 4});
  CHECK(changed<std::uint8_t>({1, 2, 3, 4}, {2, 2, 1}, Change::cutout, {5, 5, 9, 9, 9}) == Values{1, 2, 3, 4});
}

TEST(augment, a_shift_repeats_the_edge_however_far_it_goes) {
  const Values image{1, 2, 3, 4, 5, 6};
  const double not_a_number = std::numeric_limits<double>::quiet_NaN();
  CHECK(changed(image, {2, 3, 1}, Change::shift, {0, 0}) == image);
  CHECK(changed(image, {2, 3, 1}, Change::shift, {0, 1}) == Values{2, 3, 3, 5, 6, 6});
  CHECK(changed(image, {2, 3, 1}, Change::shift, {1, -1}) == Values{4, 4, 5, 4, 4, 5});
  CHECK(changed(image, {2, 3, 1}, Change::shift, {-9, 9}) == Values{3, 3, 3, 3, 3, 3});
  CHECK(changed(image, {2, 3, 1}, Change::shift, {1e300, -1e300}) == Values{4, 4, 4, 4, 4, 4});
  CHECK(changed(image, {2, 3, 1}, Change::shift, {not_a_number, 0}) == Values{1, 2, 3, 1, 2, 3});
  CHECK(changed(image, {1, 2, 3}, Change::shift, {0, 1}) == Values{4, 5, 6, 4, 5, 6});
}

TEST(augment, rows_are_mixed_by_their_shares_and_pasted_by_their_parts) {
  const Values batch{10, 20, 30, 40};  // two rows of two
  const std::int64_t partners[] = {1, 0};
  const double shares[] = {0.5, 1};
  std::vector<float> mixed(4);
  mix_rows(batch.data(), 2, partners, shares, mixed.data());
  CHECK(mixed == std::vector<float>{20, 30, 30, 40});
  const Part parts[] = {{0, 1, 1, 1}, {}};
  Values pasted(4);
  paste_rows(batch.data(), {1, 2, 1}, partners, parts, pasted.data());
  CHECK(pasted == Values{10, 40, 30, 40});
}
