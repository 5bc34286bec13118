#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "check.h"
#include "shards.h"

using namespace bushel;

namespace {

// A file that is gone with this.
struct Written {
  std::string path = "/tmp/bushel-test-XXXXXX";
  explicit Written(const std::string& text) {
    const int file = mkstemp(path.data());
    CHECK(write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    close(file);
  }
  ~Written() { unlink(path.c_str()); }
};

}  // namespace

TEST(shards, files_lie_behind_each_other) {
  const Written a("first"), b(std::string(5000, 'x')), c("third");
  const Mapping mapping({{a.path, 5}, {b.path, 5000}, {c.path, 5}}, false);
  CHECK(mapping.error() == 0);
  const Bytes bytes = mapping.bytes();
  const auto at = [&](std::size_t file, std::string_view text) {
    return std::memcmp(bytes.data() + mapping.starts()[file], text.data(), text.size()) == 0;
  };
  CHECK(at(0, "first") && at(1, "xxxxx") && at(2, "third"));
}

TEST(shards, a_missing_or_shorter_file_is_named) {
  const Written a("first");
  const Mapping missing({{a.path, 5}, {"/tmp/bushel-no-such-file", 5}}, false);
  CHECK(missing.error() == ENOENT && missing.failed() == 1 && missing.bytes().empty());
  CHECK(Mapping({{a.path, 6}}, false).error() == ESTALE);
}

TEST(shards, memory_of_ones_own_may_be_written_to) {
  const Written a("first");
  {
    const Mapping own({{a.path, 5}}, true);
    own.data()[0] = 'F';
  }
  const Mapping again({{a.path, 5}}, false);
  CHECK(again.bytes()[0] == 'f');
}

TEST(shards, what_is_cut_off_a_mapped_file_reads_as_zeros) {
  const std::size_t size = std::size_t{5} << 20;
  const Written a(std::string(size, 'a')), b(std::string(size, 'b'));
  const Mapping mapping({{a.path, size}, {b.path, size}}, false);
  CHECK(truncate(a.path.c_str(), 4096) == 0);
  const Bytes bytes = mapping.bytes();
  CHECK(bytes[0] == 'a' && bytes[4095] == 'a');
  CHECK(bytes[4096] == 0 && bytes[size - 1] == 0 && bytes[size / 2] == 0);
  CHECK(bytes[mapping.starts()[1]] == 'b' && bytes[mapping.starts()[1] + size - 1] == 'b');
}

TEST(shards, a_fault_elsewhere_is_for_the_handler_that_was_there_before) {
  static sigjmp_buf back;
  struct sigaction handler{};
  handler.sa_handler = [](int) { siglongjmp(back, 1); };
  sigaction(SIGBUS, &handler, nullptr);
  const Written a(std::string(8192, 'a'));
  const Mapping mapping({{a.path, 8192}}, false);  // finds another handler than its own
  const int descriptor = open(a.path.c_str(), O_RDONLY);
  void* const bare = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  CHECK(truncate(a.path.c_str(), 0) == 0);
  bool asked = false;
  if (sigsetjmp(back, 1) == 0) {
    static_cast<void>(*static_cast<volatile std::uint8_t*>(bare));
  } else {
    asked = true;
  }
  CHECK(asked && mapping.bytes()[5000] == 0);
  munmap(bare, 8192);
}

TEST(shards, nothing_is_mapped_of_nothing) {
  const Written empty("");
  CHECK(Mapping({}, false).bytes().empty());
  CHECK(Mapping({{empty.path, 0}}, false).error() == 0);
}

TEST(shards, records_are_found_over_all_shards) {
  const std::vector<std::uint64_t> offsets = {0, 20, 50};
  const std::vector<std::uint32_t> lengths = {4, 14, 1};
  const Places places(
      {{offsets.data(), lengths.data(), 3, 0}, {nullptr, nullptr, 0, 0}, {offsets.data(), lengths.data(), 2, 4096}});
  CHECK(places.records() == 5);
  std::vector<Extent> out(3);
  const std::vector<std::int64_t> rows = {4, 0, 2};
  CHECK(places.find(rows, out.data()));
  CHECK(out[0].offset == 4116 && out[0].length == 14);
  CHECK(out[1].offset == 0 && out[2].offset == 50);
  const std::vector<std::int64_t> beyond = {5}, negative = {-1};
  CHECK(!places.find(beyond, out.data()) && !places.find(negative, out.data()));
}

TEST(shards, fetching_stays_within_the_memory) {
  const std::vector<std::uint8_t> memory(100);
  const std::vector<Extent> extents = {{0, 10}, {90, 1000}, {200, 5}, {99, 0}};
  CHECK(fetch(memory, extents) == 0);
}
