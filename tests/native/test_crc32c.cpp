#include "build.h"
#include "check.h"
#include "crc32c.h"

using namespace bushel;
using build::Exact;

namespace {
std::uint32_t of(std::string_view text) { return crc32c(Exact(text).bytes()); }
}  // namespace

TEST(crc32c, vectors_of_rfc_3720_hold) {
  CHECK(of("") == 0);
  CHECK(of("123456789") == 0xe3069283u);
  CHECK(of(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(of(std::string(32, '\xff')) == 0x62a8ab43u);
  std::string up, down;
  for (char i = 0; i < 32; ++i) {
    up.push_back(i);
    down.insert(down.begin(), i);
  }
  CHECK(of(up) == 0x46dd794eu);
  CHECK(of(down) == 0x113fdb5cu);
}

TEST(crc32c, mask_is_a_rotation_and_a_constant) {
  CHECK(mask(0) == 0xa282ead8u);
  CHECK(mask(0x12345678u) == 0x4f730f40u);
}

TEST(crc32c, the_cpus_instruction_agrees_with_the_table_at_every_length) {
  build::Random random(1);
  std::string data(5000, '\0');
  for (char& c : data) c = static_cast<char>(random.next());
  for (std::size_t size = 0; size <= data.size(); ++size) {
    const Exact exact(std::string_view(data).substr(0, size));
    CHECK(crc32c(exact.bytes()) == crc32c_by_table(exact.bytes()));
  }
}

TEST(crc32c, the_cpus_instruction_agrees_with_the_table_at_every_alignment) {
  build::Random random(2);
  std::string data(8192 + 64, '\0');
  for (char& c : data) c = static_cast<char>(random.next());
  const Exact exact(data);
  for (std::size_t at = 0; at < 64; ++at)
    for (const std::size_t size : {1, 7, 8, 9, 63, 95, 96, 97, 119, 120, 1000, 3071, 3072, 3073, 6144, 8192})
      CHECK(crc32c(exact.bytes().subspan(at, size)) == crc32c_by_table(exact.bytes().subspan(at, size)));
}

TEST(crc32c, a_length_is_summed_as_its_eight_bytes) {
  build::Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t value = random.next() >> random.below(64);
    CHECK(crc32c_of_u64(value) == crc32c_by_table({reinterpret_cast<const std::uint8_t*>(&value), 8}));
  }
}

TEST(crc32c, the_engine_has_a_name) {
  const std::string_view engine = crc32c_engine();
  CHECK(engine == "sse4.2" || engine == "armv8" || engine == "table");
#if defined(__aarch64__)
  CHECK(engine == "armv8");  // of what qemu emulates by default: the path must be the one under test
#endif
}

TEST(crc32c, the_checksum_of_two_pieces_follows_from_theirs) {
  std::string text(70000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + i / 256);
  const auto* data = reinterpret_cast<const std::uint8_t*>(text.data());
  for (const std::size_t cut : {0UL, 1UL, 255UL, 256UL, 4097UL, 65536UL, 70000UL}) {
    const std::uint32_t first = crc32c({data, cut}), second = crc32c({data + cut, text.size() - cut});
    CHECK(crc32c_joined(first, second, text.size() - cut) == crc32c({data, text.size()}));
  }
}
