// few_channels.h for AVX2, exact: codes are widened to 16 bits and multiplied by vpmaddwd, even and odd bytes apart, as
// in gemm/avx2.cpp. Those of 8 pixels are widened once for all channels of a tile.
#include <immintrin.h>

#include <cstring>

#include "kernels/few_channels/few_channels.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/few_channels/codes_avx2.inl.h"

struct Activations {
  __m256i even_i16x16, odd_i16x16;
};
using Factors = Activations;

constexpr std::size_t kFactorBytes = 8;
template <std::size_t filters>
constexpr std::size_t kVectors = filters <= 2 ? 4 : 2;

inline Activations activations_at(const std::uint8_t* bytes) noexcept {
  const __m256i codes_u8x32 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
  return {_mm256_and_si256(codes_u8x32, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(codes_u8x32, 8)};
}
inline Factors factors_at(const std::uint8_t* bytes) noexcept {
  int pairs[2];
  std::memcpy(pairs, bytes, sizeof(pairs));
  return {_mm256_set1_epi32(pairs[0]), _mm256_set1_epi32(pairs[1])};
}
inline Integers plus_products(Integers sum, const Activations& activations, const Factors& factors) noexcept {
  const __m256i even_i32x8 = _mm256_madd_epi16(activations.even_i16x16, factors.even_i16x16);
  const __m256i odd_i32x8 = _mm256_madd_epi16(activations.odd_i16x16, factors.odd_i16x16);
  return _mm256_add_epi32(sum, _mm256_add_epi32(even_i32x8, odd_i32x8));
}

#include "kernels/few_channels/tiles.inl.h"

}  // namespace

constinit const FewChannelsKernels avx2::few_channels = {
    .most_channels = 6.7, .most_channels_of_many = 6.7, .widened = true, .convolve = convolve};

}  // namespace dmlcpu
