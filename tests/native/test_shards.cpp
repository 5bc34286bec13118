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
