// dequantized_product.h for AVX-512: a whole panel at a time. Bound by the vector ports: five operations for 16 codes
// of a row, the shift, the joined and and or, the difference, and two products.
#include <immintrin.h>

#include <utility>

#include "kernels/dequantized_product/dequantized_product.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/lanes/avx512_vnni.inl.h"

using Words = __m512i;
constexpr std::size_t kSumVectors = 4;

inline Words load_words(const std::uint32_t* words) noexcept { return _mm512_loadu_si512(words); }
inline Floats floats_of_bytes(const std::uint8_t* bytes) noexcept {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
}

template <std::size_t bits, std::size_t shift>
inline Floats code_at(Words words) noexcept {
  constexpr int kAndThenOr = 0xea;
  const Words mask_u32x16 = _mm512_set1_epi32((1 << bits) - 1);
  const Words base_u32x16 = _mm512_castps_si512(_mm512_set1_ps(0x1p23f));
  const Words shifted_u32x16 = _mm512_srli_epi32(words, shift);
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(shifted_u32x16, mask_u32x16, base_u32x16, kAndThenOr));
}

#include "kernels/dequantized_product/panels.inl.h"

}  // namespace

constinit const DequantizedProductKernels avx512_vnni::dequantized_product = {.of_4_bits = kFunctions<4>,
                                                                              .of_8_bits = kFunctions<8>};

}  // namespace dmlcpu
