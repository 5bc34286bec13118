#include "bytes.h"

#include <sys/mman.h>

#include <cstdlib>
#include <map>
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

// Large memory: what is in use, and what is not. Of the latter the system may take pages back when it runs short,
// unless they are kept.
class Pool {
 public:
  void add(std::uint8_t* data, std::size_t capacity) {
    const std::lock_guard lock(mutex_);
    all_.insert({data, {capacity, false}});
  }

  // The block that `inside` lies in, which the system never gets back from now on; empty if there is none.
  std::span<std::uint8_t> keep(const std::uint8_t* inside) {
    const std::lock_guard lock(mutex_);
    auto found = all_.upper_bound(const_cast<std::uint8_t*>(inside));
    if (found == all_.begin()) return {};
    --found;
    if (inside >= found->first + found->second.capacity) return {};
    found->second.is_kept = true;
    return {found->first, found->second.capacity};
  }

  // Memory of at least `capacity`, which is set to what it is, and of not much more; nullptr if there is none.
  std::uint8_t* take(std::size_t& capacity) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      const Block block = blocks_[i];
      if (block.capacity < capacity || block.capacity - capacity > capacity / 4) continue;
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
      if (!block.is_kept) held_ -= block.capacity;
      capacity = block.capacity;
      return block.data;
    }
    return nullptr;
  }

  void give(std::uint8_t* data, std::size_t capacity) {
    const std::lock_guard lock(mutex_);
    if (all_.at(data).is_kept) {
      blocks_.push_back({data, capacity, false, true});
      return;
    }
    if (capacity > kMost) return drop(data);
    for (std::size_t i = 0; held_ + capacity > kMost;) {
      if (blocks_[i].is_kept) {
        ++i;
        continue;
      }
      held_ -= blocks_[i].capacity;
      drop(blocks_[i].data);
      blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    blocks_.push_back({data, capacity, false, false});
    held_ += capacity;
    offer_old();
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    std::erase_if(blocks_, [&](const Block& block) {
      if (!block.is_kept) drop(block.data);
      return !block.is_kept;
    });
    held_ = 0;
  }

 private:
  static constexpr std::size_t kMost = std::size_t{512} << 20;
  static constexpr std::size_t kSoonUsed = std::size_t{128} << 20;
  struct Block {
    std::uint8_t* data;
    std::size_t capacity;
    bool is_offered;  // to the system
    bool is_kept;
  };
  struct Known {
    std::size_t capacity;
    bool is_kept;
  };

  void drop(std::uint8_t* data) {
    all_.erase(data);
    std::free(data);
  }

  // Offers the system all but the newest blocks. To do so for every block would interrupt all other threads each time.
  void offer_old() {
#if defined(MADV_FREE)
    std::size_t newer = 0;
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      if (blocks_[i].is_kept) continue;
      newer += blocks_[i].capacity;
      if (newer <= kSoonUsed || blocks_[i].is_offered) continue;
      madvise(blocks_[i].data, blocks_[i].capacity, MADV_FREE);
      blocks_[i].is_offered = true;
    }
#endif
  }

  std::mutex mutex_;
  std::vector<Block> blocks_;  // not in use; oldest first
  std::size_t held_ = 0;       // bytes of those that are not kept
  std::map<std::uint8_t*, Known> all_;
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
  if (capacity_ >= kLarge) pool().add(data_, capacity_);
}

Buffer::~Buffer() {
  if (capacity_ >= kLarge) {
    pool().give(data_, capacity_);
  } else {
    std::free(data_);
  }
}

std::span<std::uint8_t> keep_block(const std::uint8_t* inside) { return pool().keep(inside); }

void give_back_buffers() { pool().clear(); }

}  // namespace bushel
