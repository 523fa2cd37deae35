// dequantized_product.h for AVX-512: a whole panel at a time. Bound by the vector ports: five operations for 16 codes
// of a row, the shift, the joined and and or, the difference, and two products.
#include <immintrin.h>

#include <array>
#include <utility>

#include "kernels/dequantized_product/dequantized_product.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/lanes/avx512_vnni.inl.h"

using Words = __m512i;
constexpr std::size_t kSumVectors = 4, kMostRows = 8;

// More than four rows have no registers for four vectors, and with one a vector that is dequantized serves more of them
// than with two: 8 rows by 128 x 64 take 1.39 us, and in tiles of four rows 1.49.
constexpr std::size_t vectors_of_tile(std::size_t rows) { return rows > 4 ? 1 : kSumVectors; }

inline Words load_words(const std::uint32_t* words) noexcept { return _mm512_loadu_si512(words); }

// Codes become the ends of the significands of floats beyond 2^23, so that nothing has to be converted.
template <std::size_t bits, std::size_t vectors>
struct Differences {
  Floats zero_point[vectors];  // + 2^23

  explicit Differences(const std::uint8_t* zero_points) noexcept {
    for (std::size_t v = 0; v < vectors; ++v) {
      const __m128i points_u8x16 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(zero_points + v * kLanes));
      zero_point[v] = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(points_u8x16)) + spread(0x1p23f);
    }
  }

  template <std::size_t shift>
  Floats at(Words words, std::size_t v) const noexcept {
    constexpr int kAndThenOr = 0xea;
    const Words mask_u32x16 = _mm512_set1_epi32((1 << bits) - 1);
    const Words base_u32x16 = _mm512_castps_si512(spread(0x1p23f));
    const Words shifted_u32x16 = _mm512_srli_epi32(words, shift);
    const Words code_u32x16 = _mm512_ternarylogic_epi32(shifted_u32x16, mask_u32x16, base_u32x16, kAndThenOr);
    return _mm512_castsi512_ps(code_u32x16) - zero_point[v];
  }
};

// Those of 16 codes from one zero point are in a table, of which a permutation looks up four bits.
struct DifferencesOfOne {
  Floats difference;  // by the code

  explicit DifferencesOfOne(std::uint8_t zero_point) noexcept {
    const Words codes_i32x16 = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    difference = _mm512_cvtepi32_ps(_mm512_sub_epi32(codes_i32x16, _mm512_set1_epi32(zero_point)));
  }

  template <std::size_t shift>
  Floats at(Words words, std::size_t) const noexcept {
    return _mm512_permutexvar_ps(_mm512_srli_epi32(words, shift), difference);
  }
};

template <std::size_t bits, std::size_t vectors, class Use>
inline __attribute__((always_inline)) void with_differences(const std::uint8_t* zero_points, Use use) noexcept {
  if constexpr (bits == 4) {
    static_assert(vectors * kLanes <= 64);
    constexpr __mmask64 kColumns = ~__mmask64{0} >> (64 - vectors * kLanes);
    const Words points_u8x64 = _mm512_maskz_loadu_epi8(kColumns, zero_points);
    const Words first_u8x64 = _mm512_set1_epi8(static_cast<char>(*zero_points));
    if (_mm512_mask_cmpneq_epi8_mask(kColumns, points_u8x64, first_u8x64) == 0) {
      return use(DifferencesOfOne(*zero_points));
    }
  }
  use(Differences<bits, vectors>(zero_points));
}

#include "kernels/dequantized_product/panels.inl.h"

}  // namespace

constinit const DequantizedProductKernels avx512_vnni::dequantized_product = {.of_4_bits = kFunctions<4>,
                                                                              .of_8_bits = kFunctions<8>};

}  // namespace dmlcpu
