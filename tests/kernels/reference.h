// The arithmetic of the kernel families once more, straight from the formulas of their headers.
#pragma once

#include <cstdint>

namespace dmlcpu::test {

// sat(rne(scaled) + zero_point) in the offset domain, flipped.
std::uint8_t reference_code(float scaled, float zero_point, std::uint8_t flip);

// FLOAT16 bits to float32 (exact) and back (to nearest even). NaN becomes quiet and keeps sign and upper payload.
float reference_widen(std::uint16_t half);
std::uint16_t reference_narrow(float value);

// Sums and products modulo 2^32.
std::int32_t reference_wrap(std::int64_t value);

// The sum of lanes: the upper half is added to the lower one until a lane is left. Overwrites them.
float reference_folded(float (&lanes)[16]);

// The sequence of operations of kernels/lanes/functions.inl.h.
float reference_exponential(float x);

}  // namespace dmlcpu::test
