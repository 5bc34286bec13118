#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "check.h"
#include "wholes.h"

using namespace bushel;

namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "wholes-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
};

}  // namespace

TEST(wholes, files_come_one_behind_the_other_for_any_number_of_threads) {
  const Folder folder;
  std::vector<std::string> names;
  std::vector<std::size_t> sizes;
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    const std::string text(static_cast<std::size_t>(i) * 1000, static_cast<char>('a' + i));
    names.push_back("below/" + std::to_string(i));
    folder.write(names.back(), text);
    sizes.push_back(text.size());
    expected += text;
  }
  const std::vector<std::string_view> paths(names.begin(), names.end());
  for (const std::size_t threads : {0, 1, 3, 50}) {
    std::string out(expected.size(), 0);
    std::vector<std::int32_t> faults(paths.size(), 99);
    read_wholes(folder.path.string(), paths, sizes, threads, reinterpret_cast<std::uint8_t*>(out.data()),
                faults.data());
    CHECK(out == expected && faults == std::vector<std::int32_t>(paths.size(), 0));
  }
}

TEST(wholes, what_cannot_be_read_or_has_another_size_is_told_and_its_neighbours_are_read) {
  const Folder folder;
  folder.write("one", "1");
  folder.write("grown", "123456");
  folder.write("two", "2");
  std::string out(1 + 3 + 1 + 3 + 3 + 1, 0);
  std::vector<std::int32_t> faults(6, 99);
  std::filesystem::create_directory(folder.path / "folder");
  read_wholes(folder.path.string(), {"one", "grown", "two", "missing", "folder", "two"}, {1, 3, 1, 3, 3, 1}, 2,
              reinterpret_cast<std::uint8_t*>(out.data()), faults.data());
  CHECK(faults == std::vector<std::int32_t>({0, kOtherSize, 0, ENOENT, EISDIR, 0}));
  CHECK(out[0] == '1' && out[4] == '2' && out[11] == '2');
}

TEST(wholes, a_folder_that_is_not_there_is_every_files_fault) {
  std::vector<std::int32_t> faults(2, 99);
  read_wholes("/nowhere/at/all", {"a", "b"}, {0, 0}, 1, nullptr, faults.data());
  CHECK(faults == std::vector<std::int32_t>({ENOENT, ENOENT}));
}

TEST(wholes, ranges_of_files_come_one_after_the_other_until_one_cannot_be_read) {
  const Folder folder;
  folder.write("one", "0123456789");
  folder.write("two", "abcdef");
  const std::string one = (folder.path / "one").string(), two = (folder.path / "two").string();
  const std::string none = (folder.path / "none").string();
  std::string out(11, '.');
  auto* const to = reinterpret_cast<std::uint8_t*>(out.data());
  std::int32_t fault = 99;
  const std::vector<FileRange> ranges{{one, 2, 3}, {one, 0, 1}, {two, 4, 2}, {one, 7, 3}};
  CHECK(read_ranges(ranges, to, fault) == 4 && out == "2340ef789..");
  CHECK(read_ranges({}, to, fault) == 0);
  CHECK(read_ranges({{two, 0, 1}, {two, 4, 3}, {one, 0, 1}}, to, fault) == 1 && fault == kOtherSize);
  CHECK(read_ranges({{two, 0, 1}, {none, 0, 1}}, to, fault) == 1 && fault == ENOENT);
}
