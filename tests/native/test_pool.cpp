#include "check.h"
#include "pool.h"

using namespace bushel;

TEST(pool, a_buffer_given_back_is_used_again) {
  const auto shelf = std::make_shared<Shelf>(2);
  const std::uint8_t* first = nullptr;
  {
    const Lent lent(shelf, 1000);
    first = lent.buffer.data();
  }
  const Lent again(shelf, 1000), other(shelf, 1000);
  CHECK(again.buffer.data() == first && other.buffer.data() != first);
}

TEST(pool, the_buffer_given_back_last_is_used_first) {
  const auto shelf = std::make_shared<Shelf>(2);
  auto first = std::make_unique<Lent>(shelf, 1000), second = std::make_unique<Lent>(shelf, 1000);
  const std::uint8_t* const last = second->buffer.data();
  first.reset();
  second.reset();
  CHECK(Lent(shelf, 1000).buffer.data() == last);
}

TEST(pool, another_size_is_another_buffer) {
  const auto shelf = std::make_shared<Shelf>(1);
  {
    const Lent lent(shelf, 1000);
  }
  CHECK(Lent(shelf, 2000).buffer.size() == 2000);
}

TEST(pool, a_buffer_may_outlive_its_shelf) {
  auto shelf = std::make_shared<Shelf>(4);
  const Lent lent(shelf, 10);
  shelf.reset();
  lent.buffer.data()[9] = 1;
  CHECK(lent.shelf.expired());
}

TEST(pool, a_large_block_that_is_kept_stays_where_it_is) {
  constexpr std::size_t kSize = std::size_t{600} << 20;  // more than the pool holds otherwise
  const std::uint8_t* first = nullptr;
  {
    const Buffer buffer(kSize);
    first = buffer.data();
    const std::span<std::uint8_t> block = keep_block(buffer.data() + kSize - 1);
    CHECK(block.data() == first && block.size() >= kSize);
  }
  const Buffer other(std::size_t{400} << 20), another(std::size_t{300} << 20);
  CHECK(Buffer(kSize).data() == first);
  give_back_buffers();
  CHECK(Buffer(kSize).data() == first);
  CHECK(other.data() != first && another.data() != first);
}

TEST(pool, memory_of_others_is_in_no_block) {
  const Buffer large(std::size_t{8} << 20), small(1000);
  const std::uint8_t own = 0;
  CHECK(keep_block(&own).empty() && keep_block(small.data()).empty() && keep_block(nullptr).empty());
  CHECK(!keep_block(large.data()).empty() && keep_block(large.data() - 1).empty());
}
