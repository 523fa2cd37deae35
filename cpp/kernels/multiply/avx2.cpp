// multiply.h for AVX2: 32 codes a step, the rest through buffers of 32. Unpacks and packs both work within 128-bit
// halves, so that what one spreads the other gathers, without a permutation.
//
// Bound by the divider (one vector of 8 in five cycles), by integers by arithmetic, while the operands are in cache, by
// memory otherwise.
#include <immintrin.h>

#include <cstring>

#include "kernels/multiply/multiply.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/codes/differences_avx2.inl.h"
#include "kernels/codes/float_bits.inl.h"
#include "kernels/codes/runs_of_pairs_avx2.inl.h"

void multiply_run(const MultiplyRun& run) noexcept {
  const Operand a_operand = spread(run.a_parameters), b_operand = spread(run.b_parameters);
  const __m256 output_scale_f32x8 = _mm256_set1_ps(run.output_parameters.scale);
  const __m256i output_zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(run.output_parameters.zero_point));
  const __m256i output_flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.output_parameters.flip));

  const auto multiply_32 = [&](const std::uint8_t* a_codes, const std::uint8_t* b_codes, std::uint8_t* products) {
    const Differences a_values = differences(a_codes, a_operand), b_values = differences(b_codes, b_operand);
    __m256i codes_i32x8[4];
    for (int j = 0; j < 4; ++j) {
      const __m256 a_value_f32x8 = _mm256_mul_ps(a_values.f32x8[j], a_operand.scale_f32x8);
      const __m256 b_value_f32x8 = _mm256_mul_ps(b_values.f32x8[j], b_operand.scale_f32x8);
      const __m256 quotient_f32x8 = _mm256_div_ps(_mm256_mul_ps(a_value_f32x8, b_value_f32x8), output_scale_f32x8);
      codes_i32x8[j] = to_unsaturated(bounded(quotient_f32x8), output_zero_point_i32x8);
    }
    const __m256i codes_u8x32 = saturate(codes_i32x8[0], codes_i32x8[1], codes_i32x8[2], codes_i32x8[3]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(products), _mm256_xor_si256(codes_u8x32, output_flip_u8x32));
  };

  for_each_32(run, multiply_32);
}

// Even and odd bytes are words, which vpmaddwd multiplies in pairs: of a's words one of each pair is left at a time, so
// that there is one product. Products are negated floats, whose low words are the same and whose high words are
// negative ones, which become 0: so the bytes of even elements leave room for those of odd ones. The packs leave words
// to be put in order.
void multiply_integers(const MultiplyRun& run) noexcept {
  const auto flip_of = [](const MultiplyOperand& operand) { return _mm256_set1_epi8(static_cast<char>(operand.flip)); };
  const auto zero_point_of = [](const MultiplyOperand& operand) {
    return _mm256_set1_epi16(static_cast<short>(operand.zero_point));
  };
  const __m256i a_flip_u8x32 = flip_of(run.a_parameters), b_flip_u8x32 = flip_of(run.b_parameters);
  const __m256i output_flip_u8x32 = flip_of(run.output_parameters);
  const __m256i a_zero_point_i16x16 = zero_point_of(run.a_parameters);
  const __m256i b_zero_point_i16x16 = zero_point_of(run.b_parameters);
  const __m256i first_i32x8 = _mm256_set1_epi32(kBitsOf2To23 + run.integers.offset);
  const __m256i even_bytes_u16x16 = _mm256_set1_epi16(0x00ff), even_words_u32x8 = _mm256_set1_epi32(0x0000ffff);
  const __m256 multiplier_f32x8 = _mm256_set1_ps(run.integers.multiplier);
  const __m256 addend_f32x8 = _mm256_set1_ps(run.integers.addend);
  const __m256i order_u8x32 =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));

  const auto products_of_8 = [&](__m256i a_i16x16, __m256i b_i16x16) {
    const __m256i product_i32x8 = _mm256_add_epi32(_mm256_madd_epi16(a_i16x16, b_i16x16), first_i32x8);
    return _mm256_castps_si256(_mm256_fnmsub_ps(_mm256_castsi256_ps(product_i32x8), multiplier_f32x8, addend_f32x8));
  };
  const auto products_of_16 = [&](__m256i a_u16x16, __m256i b_u16x16) {
    const __m256i a_i16x16 = _mm256_sub_epi16(a_u16x16, a_zero_point_i16x16);
    const __m256i b_i16x16 = _mm256_sub_epi16(b_u16x16, b_zero_point_i16x16);
    return _mm256_packus_epi16(products_of_8(_mm256_and_si256(even_words_u32x8, a_i16x16), b_i16x16),
                               products_of_8(_mm256_andnot_si256(even_words_u32x8, a_i16x16), b_i16x16));
  };
  for_each_32(run, [&](const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* products) {
    const auto load = [](const std::uint8_t* codes, __m256i flip_u8x32) {
      return _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)), flip_u8x32);
    };
    const __m256i a_u8x32 = load(a, a_flip_u8x32), b_u8x32 = load(b, b_flip_u8x32);
    const __m256i even_u16x16 =
        products_of_16(_mm256_and_si256(a_u8x32, even_bytes_u16x16), _mm256_and_si256(b_u8x32, even_bytes_u16x16));
    const __m256i odd_u16x16 = products_of_16(_mm256_srli_epi16(a_u8x32, 8), _mm256_srli_epi16(b_u8x32, 8));
    const __m256i pairs_u8x32 = _mm256_or_si256(even_u16x16, _mm256_slli_epi16(odd_u16x16, 8));
    const __m256i codes_u8x32 = _mm256_shuffle_epi8(pairs_u8x32, order_u8x32);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(products), _mm256_xor_si256(codes_u8x32, output_flip_u8x32));
  });
}

}  // namespace

constinit const MultiplyKernels avx2::multiply = {.run = multiply_run, .run_integers = multiply_integers};

}  // namespace dmlcpu
