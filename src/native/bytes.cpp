#include "bytes.h"

#include <sys/mman.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace bushel {

namespace {

// From this size on, memory is requested in huge pages and kept when it is given back: otherwise the system would clear
// pages on first touch, which costs more than decoding.
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = 2 * kHugePage;

std::size_t round_up(std::size_t size, std::size_t to) { return (size + to - 1) / to * to; }

// Large memory that is not in use. The system may take its pages back when it runs short.
class Pool {
 public:
  // Memory of at least `capacity`, which is set to what it is, and of not much more; nullptr if there is none.
  std::uint8_t* take(std::size_t& capacity) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      const Block block = blocks_[i];
      if (block.capacity < capacity || block.capacity - capacity > capacity / 4) continue;
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
      held_ -= block.capacity;
      capacity = block.capacity;
      return block.data;
    }
    return nullptr;
  }

  void give(std::uint8_t* data, std::size_t capacity) {
    if (capacity > kMost) {
      std::free(data);
      return;
    }
    const std::lock_guard lock(mutex_);
    while (held_ + capacity > kMost) {
      held_ -= blocks_.front().capacity;
      std::free(blocks_.front().data);
      blocks_.erase(blocks_.begin());
    }
    blocks_.push_back({data, capacity, false});
    held_ += capacity;
    offer_old();
  }

 private:
  static constexpr std::size_t kMost = std::size_t{512} << 20;
  static constexpr std::size_t kSoonUsed = std::size_t{128} << 20;
  struct Block {
    std::uint8_t* data;
    std::size_t capacity;
    bool is_offered;  // to the system
  };

  // Offers the system all but the newest blocks. To do so for every block would interrupt all other threads each time.
  void offer_old() {
#if defined(MADV_FREE)
    std::size_t newer = 0;
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      newer += blocks_[i].capacity;
      if (newer <= kSoonUsed || blocks_[i].is_offered) continue;
      madvise(blocks_[i].data, blocks_[i].capacity, MADV_FREE);
      blocks_[i].is_offered = true;
    }
#endif
  }

  std::mutex mutex_;
  std::vector<Block> blocks_;  // oldest first
  std::size_t held_ = 0;
};

// Never destroyed: arrays may outlive every static.
Pool& pool() {
  static Pool* const kept = new Pool;
  return *kept;
}

}  // namespace

Buffer::Buffer(std::size_t size) : size_(size) {
  if (size > SIZE_MAX / 2) throw std::bad_alloc();
  const std::size_t alignment = size >= kLarge ? kHugePage : kAlignment;
  capacity_ = round_up(size ? size : 1, alignment);
  if (capacity_ >= kLarge) data_ = pool().take(capacity_);
  if (data_) return;
  data_ = static_cast<std::uint8_t*>(std::aligned_alloc(alignment, capacity_));
  if (!data_) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  if (capacity_ >= kLarge) madvise(data_, capacity_, MADV_HUGEPAGE);
#endif
}

Buffer::~Buffer() {
  if (capacity_ >= kLarge) {
    pool().give(data_, capacity_);
  } else {
    std::free(data_);
  }
}

}  // namespace bushel
