#include <vector>

#include "check.h"
#include "shuffle.h"

using namespace bushel;

namespace {

std::vector<std::int32_t> sorted(std::int32_t classes, std::size_t each) {
  std::vector<std::int32_t> labels;
  for (std::int32_t label = 0; label < classes; ++label) labels.insert(labels.end(), each, label);
  return labels;
}

}  // namespace

TEST(shuffle, a_buffer_of_one_leaves_the_order) {
  const Mixing mixing = simulate(sorted(10, 100), 10, 1, 50, 1);
  CHECK(mixing.batches == 20 && mixing.classes == 1 && mixing.single_class == 1);
  const Mixing none = simulate(sorted(10, 100), 10, 0, 50, 1);
  CHECK(none.batches == 20 && none.classes == 1);
}

TEST(shuffle, a_buffer_of_everything_mixes_all_classes) {
  const Mixing mixing = simulate(sorted(10, 1000), 10, 10000, 100, 1);
  CHECK(mixing.batches == 100 && mixing.classes > 9.98 && mixing.single_class == 0);
  const Mixing larger = simulate(sorted(10, 1000), 10, 1u << 30, 100, 1);
  CHECK(larger.classes == mixing.classes);
}

TEST(shuffle, a_larger_buffer_mixes_no_worse) {
  double before = 0;
  for (const std::size_t buffer : {1u, 100u, 1000u, 3000u, 10000u}) {
    const double classes = simulate(sorted(10, 1000), 10, buffer, 64, 3).classes;
    CHECK(classes >= before - 0.05);
    before = classes;
  }
}

TEST(shuffle, the_same_seed_gives_the_same) {
  const std::vector<std::int32_t> labels = sorted(5, 200);
  const Mixing one = simulate(labels, 5, 100, 32, 9), two = simulate(labels, 5, 100, 32, 9);
  CHECK(one.classes == two.classes && one.single_class == two.single_class);
  CHECK(simulate(labels, 5, 100, 32, 10).classes != one.classes);
}

TEST(shuffle, the_last_batch_counts_if_it_is_more_than_half) {
  CHECK(simulate(sorted(1, 100), 1, 1, 40, 1).batches == 2);
  CHECK(simulate(sorted(1, 110), 1, 1, 40, 1).batches == 3);
  CHECK(simulate(sorted(1, 5), 1, 1, 40, 1).batches == 1);
}

TEST(shuffle, nothing_and_batches_of_nothing_are_survived) {
  CHECK(simulate({}, 0, 10, 10, 1).batches == 0);
  CHECK(simulate({}, 0, 0, 0, 1).classes == 0);
  const Mixing ones = simulate(sorted(2, 3), 2, 4, 0, 1);
  CHECK(ones.batches == 6 && ones.single_class == 1);
}
