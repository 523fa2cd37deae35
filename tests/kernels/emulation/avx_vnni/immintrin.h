// Stands in for the compiler's <immintrin.h> where kernels of AVX-VNNI are built for machines that may lack it: its
// products in plain C++, and AVX2 as it is.
#pragma once

#include_next <immintrin.h>

#include <cstdint>
#include <cstring>

#define _mm256_dpbusd_avx_epi32 emulated_dpbusd_x8
#define _mm256_dpwssd_avx_epi32 emulated_dpwssd_x8

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

[[maybe_unused]] __m256i emulated_dpwssd_x8(__m256i acc_i32x8, __m256i a_i16x16, __m256i b_i16x16) {
  std::uint32_t acc[8];
  std::int16_t a[16], b[16];
  std::memcpy(acc, &acc_i32x8, sizeof(acc));
  std::memcpy(a, &a_i16x16, sizeof(a));
  std::memcpy(b, &b_i16x16, sizeof(b));
  for (int i = 0; i < 16; ++i) acc[i / 2] += static_cast<std::uint32_t>(a[i] * b[i]);
  std::memcpy(&acc_i32x8, acc, sizeof(acc));
  return acc_i32x8;
}

}  // namespace
