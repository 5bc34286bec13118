// Work on ranges of rows, one thread per range.
#pragma once

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "bytes.h"
#include "pause.h"

namespace bushel {

struct Range {
  std::size_t begin, end;

  std::size_t count() const { return end - begin; }
};

// `rows` cut into `parts` of nearly the same size.
inline std::vector<Range> cut(std::size_t rows, std::size_t parts) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < parts; ++i) ranges.push_back({rows * i / parts, rows * (i + 1) / parts});
  return ranges;
}

// Calls work(i) for each i below `count`, each in its own thread; the first in this one. Rethrows the first exception;
// the other threads are then told to stop.
template <typename Work>
void in_threads(std::size_t count, Work&& work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<bool> over{false};
  const auto guarded = [&](std::size_t i) noexcept {
    try {
      work(i);
    } catch (const Ended&) {
    } catch (...) {
      errors[i] = std::current_exception();
      over = true;
    }
  };
  const auto in_thread = [&](std::size_t i) noexcept {
    is_over = &over;
    guarded(i);
  };
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::size_t i = 1; i < count; ++i) {
    try {
      threads.emplace_back(in_thread, i);
    } catch (const std::system_error&) {
      guarded(i);  // no thread available: slower, not wrong
    }
  }
  if (count > 0) guarded(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace bushel
