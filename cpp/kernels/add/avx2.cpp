// add.h for AVX2: 32 codes a step, the rest through buffers of 32. Unpacks and packs both work within 128-bit halves,
// so that what one spreads the other gathers, without a permutation.
//
// Bound by arithmetic while the operands are in cache, by memory otherwise. The division goes by the reciprocal
// (codes/avx512_vnni.inl.h has the proof), unless the output's scale is negative or extreme.
#include <immintrin.h>

#include <cstring>

#include "kernels/add/add.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/codes/differences_avx2.inl.h"
#include "kernels/codes/float_bits.inl.h"
#include "kernels/codes/runs_of_pairs_avx2.inl.h"

// The correctly rounded quotient, or 0 where it is below 2^-10: the code is the same, and a subnormal quotient, as of
// sums beside a mask whose scale is 2^120, takes a hundred times as long. What is compared with may be rounded, if the
// scale is subnormal, by half of the smallest number: it still is no more than half of the scale.
inline __m256 quotient(__m256 sum_f32x8, __m256 scale_f32x8) noexcept {
  const __m256 sign_f32x8 = _mm256_set1_ps(-0.0f);
  const __m256 least_f32x8 = _mm256_mul_ps(_mm256_andnot_ps(sign_f32x8, scale_f32x8), _mm256_set1_ps(0x1p-10f));
  const __m256 is_small = _mm256_cmp_ps(_mm256_andnot_ps(sign_f32x8, sum_f32x8), least_f32x8, _CMP_LT_OQ);
  return _mm256_div_ps(_mm256_andnot_ps(is_small, sum_f32x8), scale_f32x8);
}

template <bool by_reciprocal>
void add_elements(const AddRun& run) noexcept {
  const Operand a_operand = spread(run.a_parameters), b_operand = spread(run.b_parameters);
  const __m256 output_scale_f32x8 = _mm256_set1_ps(run.output_parameters.scale);
  const Reciprocal output_reciprocal = reciprocal_of(run.output_parameters.scale);
  const __m256i output_zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(run.output_parameters.zero_point));
  const __m256i output_flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.output_parameters.flip));

  const auto add_32 = [&](const std::uint8_t* a_codes, const std::uint8_t* b_codes, std::uint8_t* sums) {
    const Differences a_values = differences(a_codes, a_operand), b_values = differences(b_codes, b_operand);
    __m256i codes_i32x8[4];
    for (int j = 0; j < 4; ++j) {
      const __m256 b_product_f32x8 = _mm256_mul_ps(b_values.f32x8[j], b_operand.scale_f32x8);
      const __m256 sum_f32x8 = _mm256_fmadd_ps(a_values.f32x8[j], a_operand.scale_f32x8, b_product_f32x8);
      const __m256 quotient_f32x8 = by_reciprocal ? bounded_quotient(sum_f32x8, output_reciprocal)
                                                  : bounded(quotient(sum_f32x8, output_scale_f32x8));
      codes_i32x8[j] = to_unsaturated(quotient_f32x8, output_zero_point_i32x8);
    }
    const __m256i codes_u8x32 = saturate(codes_i32x8[0], codes_i32x8[1], codes_i32x8[2], codes_i32x8[3]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), _mm256_xor_si256(codes_u8x32, output_flip_u8x32));
  };

  for_each_32(run, add_32);
}

// Words are unpacked, not bytes: a dword is a0 a1 b0 b1, and its even or its odd bytes are words of a and b, which
// vpmaddwd multiplies and adds. Sums are negated floats, whose low words are the same and whose high words are negative
// ones, which become 0: so the bytes of even elements leave room for those of odd ones.
void add_integers(const AddRun& run) noexcept {
  const auto flip_of = [](const AddOperand& operand) { return _mm256_set1_epi8(static_cast<char>(operand.flip)); };
  const __m256i a_flip_u8x32 = flip_of(run.a_parameters), b_flip_u8x32 = flip_of(run.b_parameters);
  const __m256i output_flip_u8x32 = flip_of(run.output_parameters);
  const __m256i factors_i16x16 = _mm256_set1_epi32(factors_of_words(run.integers));
  const __m256i first_i32x8 = _mm256_set1_epi32(kBitsOf2To23 + run.integers.offset);
  const __m256i even_bytes_u16x16 = _mm256_set1_epi16(0x00ff);
  const __m256 multiplier_f32x8 = _mm256_set1_ps(run.integers.multiplier);
  const __m256 addend_f32x8 = _mm256_set1_ps(run.integers.addend);

  const auto sums_of_8 = [&](__m256i pairs_u16x16) {
    const __m256i sum_i32x8 = _mm256_add_epi32(_mm256_madd_epi16(pairs_u16x16, factors_i16x16), first_i32x8);
    return _mm256_castps_si256(_mm256_fnmsub_ps(_mm256_castsi256_ps(sum_i32x8), multiplier_f32x8, addend_f32x8));
  };
  for_each_32(run, [&](const std::uint8_t* a, const std::uint8_t* b, std::uint8_t* sums) {
    const auto load = [](const std::uint8_t* codes, __m256i flip_u8x32) {
      return _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)), flip_u8x32);
    };
    const __m256i a_u8x32 = load(a, a_flip_u8x32), b_u8x32 = load(b, b_flip_u8x32);
    const __m256i low_u8x32 = _mm256_unpacklo_epi16(a_u8x32, b_u8x32);
    const __m256i high_u8x32 = _mm256_unpackhi_epi16(a_u8x32, b_u8x32);
    const __m256i even_u16x16 = _mm256_packus_epi16(sums_of_8(_mm256_and_si256(low_u8x32, even_bytes_u16x16)),
                                                    sums_of_8(_mm256_and_si256(high_u8x32, even_bytes_u16x16)));
    const __m256i odd_u16x16 =
        _mm256_packus_epi16(sums_of_8(_mm256_srli_epi16(low_u8x32, 8)), sums_of_8(_mm256_srli_epi16(high_u8x32, 8)));
    const __m256i codes_u8x32 = _mm256_or_si256(even_u16x16, _mm256_slli_epi16(odd_u16x16, 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), _mm256_xor_si256(codes_u8x32, output_flip_u8x32));
  });
}

void add_run(const AddRun& run) noexcept {
  if (reciprocal_applies(run.output_parameters.scale)) return add_elements<true>(run);
  add_elements<false>(run);
}

}  // namespace

constinit const AddKernels avx2::add = {.run = add_run, .run_integers = add_integers};

}  // namespace dmlcpu
