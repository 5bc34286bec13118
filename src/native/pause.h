// Long work reports now and then how much it has done, so that whoever waits for it can stop it.
#pragma once

#include <atomic>
#include <cstddef>

namespace bushel {

// Called now and then by a working thread; may throw to end the work. Set by whoever waits.
using Pause = void (*)();
inline thread_local Pause on_pause = nullptr;

// Set in threads that help another: true when the work of that thread is over.
inline thread_local const std::atomic<bool>* is_over = nullptr;

// Thrown in a thread whose work nobody needs any more.
struct Ended {};

// Call this in every loop that can be long, with the approximate number of bytes processed since the last call.
inline void breathe(std::size_t work) {
  constexpr std::size_t kBetween = std::size_t{4} << 20;  // a few milliseconds of the slowest work
  static thread_local std::size_t done = 0;
  if ((done += work) < kBetween) return;
  done = 0;
  if (is_over && is_over->load(std::memory_order_relaxed)) throw Ended{};
  if (on_pause) on_pause();
}

}  // namespace bushel
