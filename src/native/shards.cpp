#include "shards.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace bushel {

namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kNear = 1024;  // bytes of a record; after that the hardware prefetches by itself

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

Mapping::Mapping(const std::vector<MappedFile>& files, bool own) : own_(own) {
  const std::size_t page = page_size();
  for (const MappedFile& file : files) {
    starts_.push_back(size_);
    size_ += (file.size + page - 1) / page * page;
  }
  if (size_ == 0) return;
  // Reserve addresses first, so that all files fit one after the other.
  void* room = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    error_ = errno;
    size_ = 0;
    return;
  }
  data_ = static_cast<std::uint8_t*>(room);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (map_file(files[i], starts_[i])) continue;
    error_ = errno;
    failed_ = i;
    guards_.clear();
    munmap(data_, size_);
    data_ = nullptr;
    size_ = 0;
    return;
  }
}

bool Mapping::map_file(const MappedFile& file, std::uint64_t start) {
  if (file.size == 0) return true;
  const int descriptor = open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct stat status{};
  bool good = fstat(descriptor, &status) == 0;
  if (good && static_cast<std::uint64_t>(status.st_size) < file.size) {
    errno = ESTALE;  // a page after the end of a file must never be touched
    good = false;
  }
  const int rights = own_ ? PROT_READ | PROT_WRITE : PROT_READ, sharing = own_ ? MAP_PRIVATE : MAP_SHARED;
  good = good && mmap(data_ + start, file.size, rights, sharing | MAP_FIXED, descriptor, 0) != MAP_FAILED;
  if (good) guards_.emplace_back(data_ + start, (file.size + page_size() - 1) / page_size() * page_size());
  const int error = errno;
  close(descriptor);
  errno = error;
  return good;
}

Mapping::~Mapping() {
  guards_.clear();
  if (data_) munmap(data_, size_);
}

Places::Places(std::vector<ShardIndex> shards) : shards_(std::move(shards)) {
  first_.push_back(0);
  for (const ShardIndex& shard : shards_) first_.push_back(first_.back() + shard.records);
}

bool Places::find(std::span<const std::int64_t> rows, Extent* out) const {
  std::size_t at = 0;  // rows in order mostly stay in one shard
  for (const std::int64_t row : rows) {
    const auto number = static_cast<std::uint64_t>(row);
    if (number >= records()) return false;
    if (number < first_[at] || number >= first_[at + 1])
      at = static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), number) - first_.begin()) - 1;
    const ShardIndex& shard = shards_[at];
    const std::uint64_t place = number - first_[at];
    *out++ = {shard.start + shard.offsets[place], shard.lengths[place]};
  }
  return true;
}

// Loads, not prefetch instructions: the processor overlaps them, and unlike prefetches they wait for pages.
std::uint64_t fetch(Bytes memory, std::span<const Extent> extents) {
  std::uint64_t sum = 0;
  for (const Extent extent : extents) {
    if (extent.offset >= memory.size()) continue;
    const std::size_t size = std::min<std::size_t>(kHeader + extent.length + kFooter, memory.size() - extent.offset);
    const std::uint8_t* const data = memory.data() + extent.offset;
    const std::size_t near = std::min(size, kNear);
    for (std::size_t at = 0; at < near; at += kLine) sum += data[at];
    for (std::size_t at = near; at < size; at += page_size()) sum += data[at];
    sum += data[size - 1];
  }
  return sum;
}

}  // namespace bushel
