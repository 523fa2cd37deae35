// dequantized_product.h for AVX2 and FMA: two vectors of columns at a time, the rows of which fit the registers.
#include <immintrin.h>

#include <array>
#include <utility>

#include "kernels/dequantized_product/dequantized_product.h"

#ifndef __FMA__
#error "compile with AVX2 and FMA"
#endif

namespace dmlcpu {
namespace {

#include "kernels/lanes/avx2.inl.h"

using Words = __m256i;
constexpr std::size_t kSumVectors = 2, kMostRows = 4;

constexpr std::size_t vectors_of_tile(std::size_t) { return kSumVectors; }

inline Words load_words(const std::uint32_t* words) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
}

// Codes become the ends of the significands of floats beyond 2^23, so that nothing has to be converted.
template <std::size_t bits, std::size_t vectors>
struct Differences {
  Floats zero_point[vectors];  // + 2^23

  explicit Differences(const std::uint8_t* zero_points) noexcept {
    for (std::size_t v = 0; v < vectors; ++v) {
      const __m128i points_u8x8 = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(zero_points + v * kLanes));
      zero_point[v] = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(points_u8x8)) + spread(0x1p23f);
    }
  }

  template <std::size_t shift>
  Floats at(Words words, std::size_t v) const noexcept {
    const Words code_u32x8 = _mm256_and_si256(_mm256_srli_epi32(words, shift), _mm256_set1_epi32((1 << bits) - 1));
    return _mm256_or_ps(_mm256_castsi256_ps(code_u32x8), spread(0x1p23f)) - zero_point[v];
  }
};

template <std::size_t bits, std::size_t vectors, class Use>
inline __attribute__((always_inline)) void with_differences(const std::uint8_t* zero_points, Use use) noexcept {
  use(Differences<bits, vectors>(zero_points));
}

#include "kernels/dequantized_product/panels.inl.h"

}  // namespace

constinit const DequantizedProductKernels avx2::dequantized_product = {.of_4_bits = kFunctions<4>,
                                                                       .of_8_bits = kFunctions<8>};

}  // namespace dmlcpu
