#include "crc32c.h"

#include <algorithm>
#include <array>

#include "cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <arm_neon.h>
#if defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#endif

namespace bushel {

namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78u;  // reflected

using Table = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Table make_table() {
  Table table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    table[0][i] = crc;
  }
  for (std::size_t slice = 1; slice < 8; ++slice)
    for (std::size_t i = 0; i < 256; ++i)
      table[slice][i] = (table[slice - 1][i] >> 8) ^ table[0][table[slice - 1][i] & 0xff];
  return table;
}

constexpr Table kTable = make_table();

std::uint32_t step_by_table(std::uint32_t crc, std::uint64_t word) {
  word ^= crc;
  std::uint32_t next = 0;
  for (std::size_t byte = 0; byte < 8; ++byte) next ^= kTable[7 - byte][(word >> (8 * byte)) & 0xff];
  return next;
}

// Long data is cut into three lanes that the CPU works on at once: the instruction takes three cycles, and one can
// start in each. A lane of n words is moved past the words after it by a carry-less product with x^(64n - 33) mod P.
constexpr std::size_t kMaxLaneWords = 128;

constexpr std::uint32_t times_x(std::uint32_t v) { return (v >> 1) ^ ((v & 1) ? kPolynomial : 0); }

struct LaneShifts {
  std::array<std::uint32_t, kMaxLaneWords + 1> one{};  // past one lane of n words
  std::array<std::uint32_t, kMaxLaneWords + 1> two{};  // past two
};

constexpr LaneShifts make_lane_shifts() {
  LaneShifts shifts{};
  std::uint32_t power = 0x80000000u;  // x^0, reflected
  for (std::size_t exponent = 0; exponent <= 2 * 64 * kMaxLaneWords; ++exponent, power = times_x(power)) {
    const std::size_t bits = exponent + 33;
    if (bits % 64 == 0 && bits / 64 <= kMaxLaneWords) shifts.one[bits / 64] = power;
    if (bits % 128 == 0 && bits / 128 <= kMaxLaneWords) shifts.two[bits / 128] = power;
  }
  return shifts;
}

constexpr LaneShifts kLaneShifts = make_lane_shifts();

// The product of two polynomials modulo P, reflected.
constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = 0x80000000u; bit; bit >>= 1, b = times_x(b))
    if (a & bit) sum ^= b;
  return sum;
}

// The factor for a checksum that n bytes follow: x^(8n) mod P, with n written in base 256.
using Shifts = std::array<std::array<std::uint32_t, 256>, 8>;

Shifts make_shifts() {
  Shifts shifts{};
  std::uint32_t step = 0x80000000u >> 8;  // x^8
  for (auto& digit : shifts) {
    digit[0] = 0x80000000u;
    for (std::size_t i = 1; i < 256; ++i) digit[i] = product(digit[i - 1], step);
    step = product(digit[255], step);
  }
  return shifts;
}

#if defined(__x86_64__)

#define BUSHEL_HARDWARE __attribute__((target("sse4.2,crc32,pclmul")))

bool has_hardware() { return cpu().has_crc32c; }
constexpr const char* kHardwareName = "sse4.2";

BUSHEL_HARDWARE inline std::uint32_t step(std::uint32_t crc, std::uint64_t word) {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, word));
}
BUSHEL_HARDWARE inline std::uint32_t step_byte(std::uint32_t crc, std::uint8_t byte) { return _mm_crc32_u8(crc, byte); }
BUSHEL_HARDWARE inline std::uint64_t carryless_product(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(
      _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)), _mm_cvtsi32_si128(static_cast<int>(b)), 0)));
}

#elif defined(__aarch64__)

#if defined(__clang__)
#define BUSHEL_HARDWARE __attribute__((target("crc,aes")))
#else
#define BUSHEL_HARDWARE __attribute__((target("+crc+crypto")))
#endif

bool has_hardware() {
#if defined(__linux__)
  const unsigned long capabilities = getauxval(AT_HWCAP);
  return (capabilities & HWCAP_CRC32) && (capabilities & HWCAP_PMULL);
#else
  return true;  // every arm64 Mac has both
#endif
}
constexpr const char* kHardwareName = "armv8";

BUSHEL_HARDWARE inline std::uint32_t step(std::uint32_t crc, std::uint64_t word) { return __crc32cd(crc, word); }
BUSHEL_HARDWARE inline std::uint32_t step_byte(std::uint32_t crc, std::uint8_t byte) { return __crc32cb(crc, byte); }
BUSHEL_HARDWARE inline std::uint64_t carryless_product(std::uint32_t a, std::uint32_t b) {
  return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64(a, b)), 0);
}

#else

#define BUSHEL_HARDWARE
bool has_hardware() { return false; }
constexpr const char* kHardwareName = "none";
inline std::uint32_t step(std::uint32_t crc, std::uint64_t word) { return step_by_table(crc, word); }
inline std::uint32_t step_byte(std::uint32_t crc, std::uint8_t b) { return (crc >> 8) ^ kTable[0][(crc ^ b) & 0xff]; }
inline std::uint64_t carryless_product(std::uint32_t, std::uint32_t) { return 0; }

#endif

// Takes three lanes of `words` words each from `p`.
BUSHEL_HARDWARE inline std::uint32_t three_lanes(std::uint32_t crc, const std::uint8_t* p, std::size_t words) {
  const std::uint8_t *second = p + 8 * words, *third = second + 8 * words;
  std::uint32_t b = 0, c = 0;
  for (std::size_t i = 0; i + 1 < words; ++i) {
    crc = step(crc, load64(p + 8 * i));
    b = step(b, load64(second + 8 * i));
    c = step(c, load64(third + 8 * i));
  }
  const std::size_t last = 8 * (words - 1);
  crc = step(crc, load64(p + last));
  b = step(b, load64(second + last));
  const std::uint64_t moved =
      carryless_product(crc, kLaneShifts.two[words]) ^ carryless_product(b, kLaneShifts.one[words]);
  return step(c, load64(third + last) ^ moved);
}

BUSHEL_HARDWARE std::uint32_t crc32c_by_hardware(Bytes data) {
  constexpr std::size_t kLanesFrom = 96;  // below this, joining the lanes costs more than it saves
  std::uint32_t crc = ~0u;
  const std::uint8_t* p = data.data();
  std::size_t left = data.size();
  while (left >= kLanesFrom) {
    const std::size_t words = std::min(left / 24, kMaxLaneWords);
    crc = three_lanes(crc, p, words);
    p += 24 * words;
    left -= 24 * words;
  }
  for (; left >= 8; p += 8, left -= 8) crc = step(crc, load64(p));
  for (; left > 0; ++p, --left) crc = step_byte(crc, *p);
  return ~crc;
}

BUSHEL_HARDWARE std::uint32_t u64_by_hardware(std::uint64_t value) { return ~step(~0u, value); }

std::uint32_t u64_by_table(std::uint64_t value) { return ~step_by_table(~0u, value); }

struct Engine {
  std::uint32_t (*of_bytes)(Bytes);
  std::uint32_t (*of_u64)(std::uint64_t);
  const char* name;
};

const Engine kEngine = has_hardware() ? Engine{crc32c_by_hardware, u64_by_hardware, kHardwareName}
                                      : Engine{crc32c_by_table, u64_by_table, "table"};

}  // namespace

std::uint32_t crc32c_by_table(Bytes data) {
  std::uint32_t crc = ~0u;
  std::size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) crc = step_by_table(crc, load64(data.data() + i));
  for (; i < data.size(); ++i) crc = (crc >> 8) ^ kTable[0][(crc ^ data[i]) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(Bytes data) { return kEngine.of_bytes(data); }
std::uint32_t crc32c_of_u64(std::uint64_t value) { return kEngine.of_u64(value); }

std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) {
  static const Shifts shifts = make_shifts();
  for (std::size_t digit = 0; second_size; ++digit, second_size >>= 8)
    if (second_size & 0xff) first = product(shifts[digit][second_size & 0xff], first);
  return first ^ second;
}

const char* crc32c_engine() { return kEngine.name; }

}  // namespace bushel
