#include "guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

namespace bushel {

// The handler runs at any moment in any thread: it only reads atomics, takes no lock, and nothing it reads is freed.
struct Guard::Slot {
  std::atomic<std::uintptr_t> begin{0}, end{0};
};

struct Slots {
  struct Block {
    std::array<Guard::Slot, 256> slots;
    std::atomic<Block*> next{nullptr};
  };

  Guard::Slot* take(std::uintptr_t begin, std::uintptr_t end) {
    const std::lock_guard lock(mutex);
    install();
    if (free.empty()) add_block();
    Guard::Slot* const slot = free.back();
    free.pop_back();
    slot->end.store(end);
    slot->begin.store(begin);
    return slot;
  }

  void give_back(Guard::Slot* slot) {
    const std::lock_guard lock(mutex);
    slot->begin.store(0);
    slot->end.store(0);
    free.push_back(slot);
  }

  // The guarded memory from the page of `address` on: a part of it, so that one unreadable page (a disk may fail) does
  // not cost the whole file; all of it if the system has no room for more parts.
  bool clear(std::uintptr_t address) const {
    const auto page = static_cast<std::uintptr_t>(page_size);
    const std::uintptr_t begin = address / page * page;
    for (const Block* block = first.load(); block; block = block->next.load())
      for (const Guard::Slot& slot : block->slots) {
        const std::uintptr_t low = slot.begin.load(), high = slot.end.load();
        if (low == 0 || address < low || address >= high) continue;
        const std::uintptr_t near = std::min(high, begin + kPart);
        return map_zeros(begin, near) || map_zeros(begin, high);
      }
    return false;
  }

  static Slots& all() {
    static Slots* const kept = new Slots;  // never destroyed: a fault may come while the process ends
    return *kept;
  }

 private:
  static constexpr std::uintptr_t kPart = std::uintptr_t{1} << 20;

  static bool map_zeros(std::uintptr_t begin, std::uintptr_t end) {
    void* const place = reinterpret_cast<void*>(begin);
    const int flags = MAP_PRIVATE | MAP_ANON | MAP_FIXED;
    return mmap(place, end - begin, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
  }

  void add_block() {
    auto* const block = new Block;
    for (Guard::Slot& slot : block->slots) free.push_back(&slot);
    block->next.store(first.load());
    first.store(block);
  }

  // Checked with each mapping: a handler that was set in the meantime is called after this one.
  void install() {
    struct sigaction now{};
    if (sigaction(SIGBUS, nullptr, &now) != 0) return;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == &Slots::handle) return;
    before = now;
    struct sigaction ours{};
    ours.sa_sigaction = &Slots::handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, nullptr);
  }

  static void handle(int number, siginfo_t* info, void* context) {
    const bool is_fault = info->si_code > 0;  // not sent by a process
    if (is_fault && all().clear(reinterpret_cast<std::uintptr_t>(info->si_addr))) return;
    const struct sigaction& before = all().before;
    if (before.sa_flags & SA_SIGINFO) {
      before.sa_sigaction(number, info, context);
    } else if (before.sa_handler == SIG_DFL) {
      signal(number, SIG_DFL);
      raise(number);
    } else if (before.sa_handler != SIG_IGN) {
      before.sa_handler(number);
    }
  }

  std::mutex mutex;
  std::vector<Guard::Slot*> free;
  std::atomic<Block*> first{nullptr};
  const long page_size = sysconf(_SC_PAGESIZE);
  struct sigaction before{};
};

Guard::Guard(const std::uint8_t* data, std::size_t size)
    : slot_(Slots::all().take(reinterpret_cast<std::uintptr_t>(data), reinterpret_cast<std::uintptr_t>(data) + size)) {}

Guard::~Guard() {
  if (slot_) Slots::all().give_back(slot_);
}

}  // namespace bushel
