#include "half.h"

#include <bit>

#include "cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bushel {

namespace {

std::uint16_t float16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);   // not a number
  if (size >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // would round beyond the largest
  if (size < 0x38800000) {  // subnormal: adding a number of the right size rounds it
    const float shifted = std::bit_cast<float>(size) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
  }
  const std::uint32_t rounded = size + 0xfff + (size >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000) >> 13));
}

#if defined(__x86_64__)
const bool kHasF16c = cpu().has_avx2;

// Returns how many were converted.
[[gnu::target("avx2,f16c")]] std::size_t eights_to_float16(const float* in, std::size_t n, std::uint16_t* out) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
#else
constexpr bool kHasF16c = false;
std::size_t eights_to_float16(const float*, std::size_t, std::uint16_t*) { return 0; }
#endif

}  // namespace

void to_float16(const float* in, std::size_t n, std::uint16_t* out) {
  for (std::size_t i = kHasF16c ? eights_to_float16(in, n, out) : 0; i < n; ++i) out[i] = float16_of(in[i]);
}

void to_bfloat16(const float* in, std::size_t n, std::uint16_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(in[i]);
    const bool is_number = (bits & 0x7fffffff) <= 0x7f800000;
    const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    out[i] = static_cast<std::uint16_t>((is_number ? rounded : bits | 0x400000) >> 16);
  }
}

}  // namespace bushel
