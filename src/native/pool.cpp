#include "pool.h"

#include <algorithm>

namespace bushel {

Buffer Shelf::take(std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    // The one given back last: most of it may still be in the cache.
    const auto found = std::find_if(free_.rbegin(), free_.rend(), [&](const Buffer& b) { return b.size() == size; });
    if (found != free_.rend()) {
      Buffer buffer = std::move(*found);
      free_.erase(std::next(found).base());
      return buffer;
    }
  }
  return Buffer(size);
}

void Shelf::give_back(Buffer&& buffer) {
  const std::lock_guard lock(mutex_);
  if (most_ == 0) return;
  // The oldest makes room: sizes change when batches do.
  if (free_.size() == most_) free_.erase(free_.begin());
  free_.push_back(std::move(buffer));
}

}  // namespace bushel
