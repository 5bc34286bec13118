// Long work says now and then how much it has done, so that whoever waits for it can end it.
#pragma once

#include <atomic>
#include <cstddef>

namespace bushel {

// What a thread that works calls now and then; may throw to end the work. Set by whoever knows what is waited for.
using Pause = void (*)();
inline thread_local Pause on_pause = nullptr;

// Set in threads that help another one: true when that one's work is over.
inline thread_local const std::atomic<bool>* is_over = nullptr;

// Thrown in a thread whose work nobody needs any more.
struct Ended {};

// To be called in every loop that can be long, with about how many bytes were looked at since the last call.
inline void breathe(std::size_t work) {
  constexpr std::size_t kBetween = std::size_t{4} << 20;  // some milliseconds of the slowest work there is
  static thread_local std::size_t done = 0;
  if ((done += work) < kBetween) return;
  done = 0;
  if (is_over && is_over->load(std::memory_order_relaxed)) throw Ended{};
  if (on_pause) on_pause();
}

}  // namespace bushel
