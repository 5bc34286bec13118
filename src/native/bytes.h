// Spans, little-endian loads and owned memory: what every part of the core shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace bushel {

using Bytes = std::span<const std::uint8_t>;

static_assert(sizeof(std::size_t) == 8, "records are addressed with 64-bit offsets");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the wire is little-endian, and values are copied as they are");

inline std::uint32_t load32(const std::uint8_t* p) {
  std::uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline std::uint64_t load64(const std::uint8_t* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline void store32(std::uint8_t* p, std::uint32_t v) { std::memcpy(p, &v, sizeof v); }
inline void store64(std::uint8_t* p, std::uint64_t v) { std::memcpy(p, &v, sizeof v); }

// Owned, uninitialised memory, aligned to 64 bytes so that frameworks can take it without a copy.
class Buffer {
 public:
  static constexpr std::size_t kAlignment = 64;

  Buffer() = default;
  explicit Buffer(std::size_t size);
  ~Buffer();
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }

  std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

// The large block of buffers that `inside` lies in, which the system never gets back from now on: a device may read it
// by itself. Empty if `inside` lies elsewhere.
std::span<std::uint8_t> keep_block(const std::uint8_t* inside);

// Gives the memory of buffers that are gone, which is kept for the next ones, back to the system.
void give_back_buffers();

}  // namespace bushel
