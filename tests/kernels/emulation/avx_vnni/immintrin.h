// Stands in for the compiler's <immintrin.h> where kernels of AVX-VNNI are built for machines that may lack it: its
// product in plain C++, and AVX2 as it is.
#pragma once

#include_next <immintrin.h>

#include <cstdint>
#include <cstring>

#define _mm256_dpbusd_avx_epi32 emulated_dpbusd_x8

namespace {

[[maybe_unused]] __m256i emulated_dpbusd_x8(__m256i acc_i32x8, __m256i unsigned_x32, __m256i signed_x32) {
  std::uint32_t acc[8];
  std::uint8_t unsigned_codes[32];
  std::int8_t signed_codes[32];
  std::memcpy(acc, &acc_i32x8, sizeof(acc));
  std::memcpy(unsigned_codes, &unsigned_x32, sizeof(unsigned_codes));
  std::memcpy(signed_codes, &signed_x32, sizeof(signed_codes));
  for (int i = 0; i < 32; ++i) acc[i / 4] += static_cast<std::uint32_t>(unsigned_codes[i] * signed_codes[i]);
  std::memcpy(&acc_i32x8, acc, sizeof(acc));
  return acc_i32x8;
}

}  // namespace
