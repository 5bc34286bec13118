// Feeds a fuzz target every file under the folders given, and mutations of them: the same ones in every run.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "build.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kMutations = 100;  // of each seed

void run(std::string_view input) {
  const build::Exact exact(input);  // ends where the input does, so that ASan sees what reads past it
  LLVMFuzzerTestOneInput(exact.bytes().data(), exact.size());
}

std::string mutated(std::string data, const std::vector<std::string>& seeds, build::Random& random) {
  for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
    const std::size_t at = random.below(data.size() + 1);
    switch (random.below(7)) {
      case 0:
        data.insert(at, 1, static_cast<char>(random.next()));
        break;
      case 1:
        data.erase(at, 1 + random.below(4));
        break;
      case 2:
        data.resize(at);
        break;
      case 3: {
        const std::string& other = seeds[random.below(seeds.size())];
        data.insert(at, other.substr(random.below(other.size() + 1)));
        break;
      }
      default:
        if (at == data.size()) break;
        data[at] = static_cast<char>(random.one_in(2) ? data[at] ^ (1 << random.below(8)) : random.next());
    }
  }
  return data;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> seeds;
  for (int i = 1; i < argc; ++i)
    for (const auto& found : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!found.is_regular_file()) continue;
      std::ifstream file(found.path(), std::ios::binary);
      seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  std::sort(seeds.begin(), seeds.end());  // a folder has no order of its own
  build::Random random(0);
  for (const std::string& seed : seeds) {
    run(seed);
    for (int i = 0; i < kMutations; ++i) run(mutated(seed, seeds, random));
  }
  std::printf("%zu seeds, %d mutations of each\n", seeds.size(), kMutations);
  return seeds.empty() ? 1 : 0;
}
