#include "wholes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "threads.h"

namespace bushel {

namespace {

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

std::int32_t read_whole(int folder, const char* path, std::size_t size, std::uint8_t* out) {
  const Descriptor file(::openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return errno;
  struct stat status;
  if (::fstat(file.number(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return EINVAL;  // a pipe may never end
  if (static_cast<std::uint64_t>(status.st_size) != size) return kOtherSize;
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file.number(), out + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return kOtherSize;  // truncated while it was read
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

std::int32_t read_range(int file, const FileRange& range, std::uint8_t* out) {
  std::size_t done = 0;
  while (done < range.size) {
    const ssize_t count = ::pread(file, out + done, range.size - done, static_cast<off_t>(range.offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return kOtherSize;
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

}  // namespace

std::size_t read_ranges(const std::vector<FileRange>& ranges, std::uint8_t* out, std::int32_t& fault) {
  std::string path;  // zero-terminated, as the system needs it
  for (std::size_t i = 0; i < ranges.size();) {
    path.assign(ranges[i].path);
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    fault = file.is_open() ? 0 : errno;
    for (bool is_same = true; fault == 0 && is_same; is_same = i < ranges.size() && ranges[i].path == path) {
      breathe(ranges[i].size + (std::size_t{1} << 12));
      fault = read_range(file.number(), ranges[i], out);
      if (fault == 0) out += ranges[i++].size;
    }
    if (fault != 0) return i;
  }
  return ranges.size();
}

void read_wholes(const std::string& folder, const std::vector<std::string_view>& paths,
                 const std::vector<std::size_t>& sizes, std::size_t threads, std::uint8_t* out, std::int32_t* faults) {
  const Descriptor top(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!top.is_open()) {
    std::fill(faults, faults + paths.size(), errno);
    return;
  }
  std::vector<std::size_t> starts(paths.size());
  for (std::size_t i = 1; i < paths.size(); ++i) starts[i] = starts[i - 1] + sizes[i - 1];
  const std::vector<Range> ranges = cut(paths.size(), std::clamp<std::size_t>(threads, 1, paths.size() + 1));
  in_threads(ranges.size(), [&](std::size_t part) {
    std::string path;  // zero-terminated, as the system needs it
    for (std::size_t i = ranges[part].begin; i < ranges[part].end; ++i) {
      path.assign(paths[i]);
      breathe(sizes[i] + (std::size_t{1} << 14));
      faults[i] = read_whole(top.number(), path.c_str(), sizes[i], out + starts[i]);
    }
  });
}

}  // namespace bushel
