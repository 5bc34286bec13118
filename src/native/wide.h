// Functions compiled twice, with and without AVX2 or BMI2: the loader chooses. The results are the same to the last
// bit, since wider registers change nothing without fused multiplication.
#pragma once

#include <cstddef>  // defines __GLIBC__ where that is the C library

// Under ThreadSanitizer the loader would choose before its runtime is set up, and crash.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__)
#define BUSHEL_WIDE __attribute__((target_clones("avx2", "default")))
#define BUSHEL_SHIFTS __attribute__((target_clones("bmi2", "default")))  // by amounts that only data tell
#else
#define BUSHEL_WIDE
#define BUSHEL_SHIFTS
#endif
