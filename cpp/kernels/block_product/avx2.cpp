// block_product.h for AVX2: products of unsigned halves of bytes and signed bytes, which do not saturate: two of them
// are at most 2 * 15 * 127, and those of 8 terms less than 2^13. Codes of 8 bits are two halves, the higher one
// times 16.
#include <immintrin.h>

#include <cstring>

#include "kernels/block_product/block_product.h"
#include "kernels/dequantized_product/dequantized_product.h"

#ifndef __FMA__
#error "compile with AVX2 and FMA"
#endif

namespace dmlcpu {
namespace {

#include "kernels/lanes/avx2.inl.h"
#include "kernels/lanes/steps_of_sixteen.inl.h"

inline void store_codes(Floats whole, std::int8_t* codes) noexcept {
  const __m256i whole_i32x8 = _mm256_cvtps_epi32(whole);
  const __m128i whole_i16x8 =
      _mm_packs_epi32(_mm256_castsi256_si128(whole_i32x8), _mm256_extracti128_si256(whole_i32x8, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(codes), _mm_packs_epi16(whole_i16x8, whole_i16x8));
}

#include "kernels/block_product/quantize.inl.h"

using Words = __m256i;
constexpr std::size_t kMostRows = 2;

// A row meets whole rows of a panel, which are read as they follow each other in memory: there lies the matrix that
// one row, or a few, are multiplied by. Its sums are in memory from block to block, as those of two rows are.
template <std::size_t rows>
struct Tile {
  static constexpr std::size_t kVectors = 8 / rows;
};

inline Words load_words(const std::uint32_t* words) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
}
inline Words integers_of_bytes(const std::uint8_t* bytes) noexcept {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
}
inline Words low_products(Words words, std::int32_t factor) noexcept {
  return _mm256_madd_epi16(words, _mm256_set1_epi32(factor));
}
inline Floats floats_of(Words words) noexcept { return _mm256_cvtepi32_ps(words); }

inline Words four_of(const std::int8_t* a) noexcept {
  std::int32_t codes;
  std::memcpy(&codes, a, sizeof(codes));
  return _mm256_set1_epi32(codes);
}

template <std::size_t bits>
struct Codes {
  Words low_u8x32, high_u8x32;

  explicit Codes(Words words) noexcept
      : low_u8x32(_mm256_and_si256(words, _mm256_set1_epi8(15))),
        high_u8x32(_mm256_and_si256(_mm256_srli_epi32(words, 4), _mm256_set1_epi8(15))) {}
};

inline Words plus_dot(Words sum, const Codes<4>& codes, const std::int8_t* a) noexcept {
  const Words low_i16x16 = _mm256_maddubs_epi16(codes.low_u8x32, four_of(a));
  const Words high_i16x16 = _mm256_maddubs_epi16(codes.high_u8x32, four_of(a + 4));
  const Words both_i16x16 = _mm256_add_epi16(low_i16x16, high_i16x16);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(both_i16x16, _mm256_set1_epi16(1)));
}
inline Words plus_dot(Words sum, const Codes<8>& codes, const std::int8_t* a) noexcept {
  const Words low_i16x16 = _mm256_maddubs_epi16(codes.low_u8x32, four_of(a));
  const Words high_i16x16 = _mm256_maddubs_epi16(codes.high_u8x32, four_of(a));
  const Words low_i32x8 = _mm256_madd_epi16(low_i16x16, _mm256_set1_epi16(1));
  const Words high_i32x8 = _mm256_madd_epi16(high_i16x16, _mm256_set1_epi16(16));
  return _mm256_add_epi32(sum, _mm256_add_epi32(low_i32x8, high_i32x8));
}

#include "kernels/block_product/tiles.inl.h"

}  // namespace

constinit const BlockProductKernels avx2::block_product = {
    .quantize = quantize, .multiply_4_bits = multiply<4>, .multiply_8_bits = multiply<8>};

}  // namespace dmlcpu
