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
  const std::uint8_t *a = run.a, *b = run.b;
  std::uint8_t* output = run.output;
  const std::size_t count = run.count;
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

  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) add_32(a + i, b + i, output + i);
  if (i < count) {
    std::uint8_t last_a[32] = {}, last_b[32] = {}, last_sums[32];
    std::memcpy(last_a, a + i, count - i);
    std::memcpy(last_b, b + i, count - i);
    add_32(last_a, last_b, last_sums);
    std::memcpy(output + i, last_sums, count - i);
  }
}

void add_run(const AddRun& run) noexcept {
  if (reciprocal_applies(run.output_parameters.scale)) return add_elements<true>(run);
  add_elements<false>(run);
}

}  // namespace

constinit const AddKernels avx2::add = {.run = add_run};

}  // namespace dmlcpu
