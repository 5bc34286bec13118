#include "spans.h"

#include <unistd.h>

#include <cerrno>

namespace bushel {

bool read_at(int file, std::uint64_t at, std::size_t size, std::uint8_t* out) {
  while (size > 0) {
    const ssize_t count = ::pread(file, out, size, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    const auto done = static_cast<std::size_t>(count);
    at += done;
    out += done;
    size -= done;
  }
  return true;
}

}  // namespace bushel
