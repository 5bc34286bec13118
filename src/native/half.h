// Floats of 16 bits, rounded to even as NumPy and frameworks round them.
#pragma once

#include "bytes.h"

namespace bushel {

void to_float16(const float* in, std::size_t n, std::uint16_t* out);
void to_bfloat16(const float* in, std::size_t n, std::uint16_t* out);

}  // namespace bushel
