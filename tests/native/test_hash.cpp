#include "build.h"
#include "check.h"
#include "hash.h"

using namespace bushel;

// From the reference implementation's own sanity check: https://github.com/Cyan4973/xxHash
TEST(hash, vectors_of_the_reference_implementation_hold) {
  constexpr std::uint64_t kPrime32 = 2654435761u, kPrime64 = 11400714785074694797u;
  std::string data;
  std::uint64_t generator = kPrime32;
  for (int i = 0; i < 222; ++i, generator *= kPrime64) data.push_back(static_cast<char>(generator >> 56));
  const auto of = [&](std::size_t size, std::uint64_t seed) {
    return xxh64(build::Exact(std::string_view(data).substr(0, size)).bytes(), seed);
  };
  CHECK(of(0, 0) == 0xef46db3751d8e999u);
  CHECK(of(0, kPrime32) == 0xac75fda2929b17efu);
  CHECK(of(1, 0) == 0xe934a84adb052768u);
  CHECK(of(1, kPrime32) == 0x5014607643a9b4c3u);
  CHECK(of(4, 0) == 0x9136a0dca57457eeu);
  CHECK(of(14, 0) == 0x8282dcc4994e35c8u);
  CHECK(of(14, kPrime32) == 0xc3bd6bf63deb6df0u);
  CHECK(of(222, 0) == 0xb641ae8cb691c174u);
  CHECK(of(222, kPrime32) == 0x20cb8ab7ae10c14au);
}

TEST(hash, known_words_hold) {
  const auto of = [](std::string_view text) { return xxh64(build::Exact(text).bytes(), 0); };
  CHECK(of("a") == 0xd24ec4f1a98c6e5bu);
  CHECK(of("abc") == 0x44bc2cf5ad770999u);
  CHECK(of("Nobody inspects the spammish repetition") == 0xfbcea83c8a378bf1u);
}

TEST(hash, a_word_has_the_hash_of_its_eight_bytes) {
  build::Random random(1);
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, UINT64_MAX})
    for (int i = 0; i < 100; ++i) {
      std::uint8_t bytes[8];
      const auto word = i == 0 ? 0 : i == 1 ? UINT64_MAX : static_cast<std::uint64_t>(random.any_int());
      store64(bytes, word);
      CHECK(xxh64(word, seed) == xxh64(Bytes(bytes, 8), seed));
    }
}
