// What this processor can do, asked of itself: not every compiler's runtime answers for __builtin_cpu_supports.
#pragma once

#if defined(__x86_64__)

#include <cpuid.h>

#include <cstdint>

namespace bushel {

struct Cpu {
  bool has_crc32c = false;  // with the products of polynomials that joining checksums takes
  bool has_avx2 = false;    // every processor with this has F16C
  bool has_fast_pext = false;

  Cpu() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    has_crc32c = (c & bit_SSE4_2) != 0 && (c & bit_PCLMUL) != 0;
    const bool keeps_registers = (c & bit_OSXSAVE) != 0 && (c & bit_AVX) != 0 && keeps_wide_registers();
    const unsigned family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    has_avx2 = keeps_registers && (b & bit_AVX2) != 0;
    // On the first two Zens it takes about a hundred cycles.
    has_fast_pext = (b & bit_BMI2) != 0 && !(is_amd() && family <= 0x17);
  }

 private:
  // Whether the system saves the registers of AVX when it switches threads.
  static bool keeps_wide_registers() {
    std::uint32_t low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6;
  }

  static bool is_amd() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx;
  }
};

inline const Cpu& cpu() {
  static const Cpu found;
  return found;
}

}  // namespace bushel

#endif
