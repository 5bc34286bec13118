// Large buffers for reuse: touching fresh memory from the system costs more than filling a batch.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "bytes.h"

namespace bushel {

// Where buffers that were given back wait to be used again; at most `most` of them.
class Shelf {
 public:
  explicit Shelf(std::size_t most) : most_(most) {}

  // A buffer of `size` bytes: one that was given back, if there is one.
  Buffer take(std::size_t size);
  void give_back(Buffer&& buffer);

 private:
  std::mutex mutex_;
  std::vector<Buffer> free_;
  std::size_t most_;
};

// A buffer that goes back to its shelf, if that is still there.
struct Lent {
  Buffer buffer;
  std::weak_ptr<Shelf> shelf;

  Lent(const std::shared_ptr<Shelf>& from, std::size_t size) : buffer(from->take(size)), shelf(from) {}
  ~Lent() {
    if (const std::shared_ptr<Shelf> home = shelf.lock()) home->give_back(std::move(buffer));
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
};

}  // namespace bushel
