// block_product.h for AVX512-VNNI: of 64 columns and one row or two, or 32 columns and up to four rows. Of 8 terms of 4
// bits, 3 operations make codes of 16 columns that all rows share, and two make the products of each.
#include <immintrin.h>

#include <cstring>

#include "kernels/block_product/block_product.h"
#include "kernels/dequantized_product/dequantized_product.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/lanes/avx512_vnni.inl.h"
#include "kernels/lanes/steps_of_sixteen.inl.h"

inline void store_codes(Floats whole, std::int8_t* codes) noexcept {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(whole)));
}

#include "kernels/block_product/quantize.inl.h"

using Words = __m512i;
constexpr std::size_t kMostRows = 4;

template <std::size_t rows>
struct Tile {
  static constexpr std::size_t kVectors = rows > 2 ? 2 : 4;
};

inline Words load_words(const std::uint32_t* words) noexcept { return _mm512_loadu_si512(words); }
inline Words integers_of_bytes(const std::uint8_t* bytes) noexcept {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}
inline Words low_products(Words words, std::int32_t factor) noexcept {
  return _mm512_madd_epi16(words, _mm512_set1_epi32(factor));
}
inline Floats floats_of(Words words) noexcept { return _mm512_cvtepi32_ps(words); }

inline Words four_of(const std::int8_t* a) noexcept {
  std::int32_t codes;
  std::memcpy(&codes, a, sizeof(codes));
  return _mm512_set1_epi32(codes);
}

template <std::size_t bits>
struct Codes;

template <>
struct Codes<4> {
  Words low_u8x64, high_u8x64;

  explicit Codes(Words words) noexcept
      : low_u8x64(_mm512_and_si512(words, _mm512_set1_epi8(15))),
        high_u8x64(_mm512_and_si512(_mm512_srli_epi32(words, 4), _mm512_set1_epi8(15))) {}
};

template <>
struct Codes<8> {
  Words all_u8x64;

  explicit Codes(Words words) noexcept : all_u8x64(words) {}
};

inline Words plus_dot(Words sum, const Codes<4>& codes, const std::int8_t* a) noexcept {
  return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(sum, codes.low_u8x64, four_of(a)), codes.high_u8x64, four_of(a + 4));
}
inline Words plus_dot(Words sum, const Codes<8>& codes, const std::int8_t* a) noexcept {
  return _mm512_dpbusd_epi32(sum, codes.all_u8x64, four_of(a));
}

#include "kernels/block_product/tiles.inl.h"

}  // namespace

constinit const BlockProductKernels avx512_vnni::block_product = {
    .quantize = quantize, .multiply_4_bits = multiply<4>, .multiply_8_bits = multiply<8>};

}  // namespace dmlcpu
