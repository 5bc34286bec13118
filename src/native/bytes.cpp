#include "bytes.h"

#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace bushel {

namespace {

// From this size on, memory is asked for in huge pages: first-touch faults would otherwise cost more than the decoding.
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeFrom = 2 * kHugePage;

std::size_t round_up(std::size_t size, std::size_t to) { return (size + to - 1) / to * to; }

}  // namespace

Buffer::Buffer(std::size_t size) : size_(size) {
  if (size > SIZE_MAX / 2) throw std::bad_alloc();
  const std::size_t alignment = size >= kHugeFrom ? kHugePage : kAlignment;
  data_ = static_cast<std::uint8_t*>(std::aligned_alloc(alignment, round_up(size ? size : 1, alignment)));
  if (!data_) throw std::bad_alloc();
#if defined(__linux__)
  if (alignment == kHugePage) madvise(data_, round_up(size, alignment), MADV_HUGEPAGE);
#endif
}

Buffer::~Buffer() { std::free(data_); }

}  // namespace bushel
