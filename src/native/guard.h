// A file that is cut short while it is mapped: touching what is no longer there would end the process with SIGBUS.
// Memory that is guarded reads as zeros instead, so that the checksum of a record says that it is gone.
#pragma once

#include <cstdint>

namespace bushel {

// Guards `size` bytes of one mapped file while this lives; `data` must be the beginning of a page.
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
