// If a mapped file is truncated, touching what is no longer there ends the process with SIGBUS.
// Guarded memory reads as zeros instead, so that the checksum of a record reveals the loss.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bushel {

// Guards `size` bytes of one mapped file for as long as this lives; `data` must be the start of a page.
class Guard {
 public:
  Guard(const std::uint8_t* data, std::size_t size);
  ~Guard();
  Guard(Guard&& other) noexcept : slot_(other.slot_) { other.slot_ = nullptr; }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  struct Slot;
  friend struct Slots;
  Slot* slot_;
};

}  // namespace bushel
