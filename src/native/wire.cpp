#include "wire.h"

#include "cpu.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace bushel {

namespace {

constexpr int kMaxDepth = 100;  // of nested groups

bool skip_within(Cursor& in, std::uint32_t skipped, int depth);

bool skip_group(Cursor& in, std::uint32_t field, int depth) {
  if (depth > kMaxDepth) return false;
  for (std::uint32_t inner = 0; !in.done();) {
    if (!read_tag(in, inner)) return false;
    if (static_cast<WireType>(inner & 7) == WireType::end_group) return inner >> 3 == field;
    if (!skip_within(in, inner, depth)) return false;
  }
  return false;
}

bool advance(Cursor& in, std::size_t size) {
  if (size > in.left()) return false;
  in.p += size;
  return true;
}

bool skip_within(Cursor& in, std::uint32_t skipped, int depth) {
  std::uint64_t value = 0;
  Bytes bytes;
  switch (static_cast<WireType>(skipped & 7)) {
    case WireType::varint:
      return read_varint(in, value);
    case WireType::fixed64:
      return advance(in, 8);
    case WireType::length:
      return read_bytes(in, bytes);
    case WireType::group:
      return skip_group(in, skipped >> 3, depth + 1);
    case WireType::fixed32:
      return advance(in, 4);
    case WireType::end_group:
      return false;
  }
  return false;  // 6 and 7 are not wire types
}

constexpr std::size_t kBlock = 64;

// Bit i is set where byte i ends a varint.
inline std::uint64_t ends_in_block(const std::uint8_t* p) {
#if defined(__SSE2__)
  std::uint64_t continued = 0;
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16 * i));
    continued |= static_cast<std::uint64_t>(static_cast<std::uint16_t>(_mm_movemask_epi8(bytes))) << (16 * i);
  }
  return ~continued;
#elif defined(__aarch64__)
  const std::uint8_t kBits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const uint8x16_t bits = vld1q_u8(kBits);
  uint8x16_t ends[4];
  for (int i = 0; i < 4; ++i) ends[i] = vandq_u8(vcgezq_s8(vreinterpretq_s8_u8(vld1q_u8(p + 16 * i))), bits);
  const uint8x16_t quarters = vpaddq_u8(vpaddq_u8(ends[0], ends[1]), vpaddq_u8(ends[2], ends[3]));
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(quarters, quarters)), 0);
#else
  std::uint64_t ends = 0;
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t word = ~load64(p + 8 * i) & 0x8080808080808080u;
    ends |= ((word >> 7) * 0x0102040810204080u >> 56) << (8 * i);
  }
  return ends;
#endif
}

#if defined(__x86_64__)

// join_sevens() as one instruction, where that is fast.
const bool kHasFastPext = cpu().has_fast_pext;

inline std::uint64_t join_by_pext(std::uint64_t word) {
  // In assembly, so that it can be inlined into code built for every CPU; called only where the CPU has it.
  std::uint64_t joined;
  __asm__("pextq %2, %1, %0" : "=r"(joined) : "r"(word), "r"(0x7f7f7f7f7f7f7f7fu));
  return joined;
}

#endif

template <std::uint64_t (*join)(std::uint64_t)>
bool decode_with(Bytes packed, const std::uint8_t* readable_end, std::int64_t* out) {
  const std::uint8_t* const p = packed.data();
  const std::size_t size = packed.size();
  const std::size_t readable = static_cast<std::size_t>(readable_end - p);
  std::size_t start = 0;
  // The longest varint of a block starts within it or up to nine bytes before, and is loaded as eight bytes from there.
  for (std::size_t block = 0; block < size && block + kBlock + 8 <= readable; block += kBlock) {
    std::uint64_t ends = ends_in_block(p + block);
    if (size - block < kBlock) ends &= (std::uint64_t{1} << (size - block)) - 1;
    for (; ends != 0; ends &= ends - 1) {
      const std::size_t next = block + static_cast<std::size_t>(__builtin_ctzll(ends)) + 1;
      const std::size_t length = next - start;
      if (length <= 8) {
        *out++ = static_cast<std::int64_t>(join(load64(p + start) & (~std::uint64_t{0} >> (64 - 8 * length))));
      } else {
        Cursor in({p + start, length});
        std::uint64_t value = 0;
        if (!read_varint(in, value)) return false;
        *out++ = static_cast<std::int64_t>(value);
      }
      start = next;
    }
  }
  for (Cursor in({p + start, size - start}); !in.done();) {
    std::uint64_t value = 0;
    if (!read_varint(in, value)) return false;
    *out++ = static_cast<std::int64_t>(value);
  }
  return true;
}

}  // namespace

bool skip(Cursor& in, std::uint32_t skipped) { return skip_within(in, skipped, 0); }

std::size_t count_varints(Bytes packed) {
  const std::uint8_t* p = packed.data();
  std::size_t left = packed.size(), count = 0;
#if defined(__SSE2__)
  const __m128i zero = _mm_setzero_si128(), one = _mm_set1_epi8(1), below = _mm_set1_epi8(-1);
  __m128i sums = zero;
  for (; left >= 16; p += 16, left -= 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_and_si128(_mm_cmpgt_epi8(bytes, below), one), zero));
  }
  count = static_cast<std::size_t>(_mm_cvtsi128_si64(sums)) +
          static_cast<std::size_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(sums, sums)));
#endif
  for (; left >= 8; p += 8, left -= 8) count += ((~load64(p) & 0x8080808080808080u) >> 7) * 0x0101010101010101u >> 56;
  for (; left > 0; ++p, --left) count += *p < 0x80;
  return count;
}

bool decode_varints(Bytes packed, const std::uint8_t* readable_end, std::int64_t* out) {
#if defined(__x86_64__)
  if (kHasFastPext) return decode_with<join_by_pext>(packed, readable_end, out);
#endif
  return decode_with<join_sevens>(packed, readable_end, out);
}

}  // namespace bushel
