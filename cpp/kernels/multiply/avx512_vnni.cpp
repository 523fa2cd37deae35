// multiply.h for AVX-512: 64 codes a step, the rest by one mask. Shuffles and packs both work within 128-bit
// quarters, so that what one spreads the other gathers, without a permutation.
//
// Bound by arithmetic on two ports (about 11 instructions for 16 elements) while the operands are in cache, by memory
// otherwise. The division goes by the reciprocal (codes/avx512_vnni.inl.h, with the proof), unless the output's scale
// is negative or extreme.
#include <immintrin.h>

#include "kernels/multiply/multiply.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/codes/differences_avx512_vnni.inl.h"

template <bool by_reciprocal>
void multiply_elements(const MultiplyRun& run) noexcept {
  const std::uint8_t *a = run.a, *b = run.b;
  std::uint8_t* output = run.output;
  const std::size_t count = run.count;
  const Operand a_operand = spread(run.a_parameters), b_operand = spread(run.b_parameters);
  const __m512 output_scale_f32x16 = _mm512_set1_ps(run.output_parameters.scale);
  const Reciprocal output_reciprocal = reciprocal_of(run.output_parameters.scale);
  const __m512i output_zero_point_i16x32 = _mm512_set1_epi16(static_cast<short>(run.output_parameters.zero_point));
  const __m512i output_flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.output_parameters.flip));

  const auto multiply_64 = [&](std::size_t i, __mmask64 mask) {
    const Differences a_values = differences(a + i, mask, a_operand);
    const Differences b_values = differences(b + i, mask, b_operand);
    __m512i rounded_i32x16[4];
    for (int j = 0; j < 4; ++j) {
      const __m512 a_value_f32x16 = _mm512_mul_ps(a_values.f32x16[j], a_operand.scale_f32x16);
      const __m512 b_value_f32x16 = _mm512_mul_ps(b_values.f32x16[j], b_operand.scale_f32x16);
      const __m512 product_f32x16 = _mm512_mul_ps(a_value_f32x16, b_value_f32x16);
      const __m512 quotient_f32x16 = by_reciprocal ? bounded_quotient(product_f32x16, output_reciprocal)
                                                   : bounded(_mm512_div_ps(product_f32x16, output_scale_f32x16));
      rounded_i32x16[j] = _mm512_cvtps_epi32(quotient_f32x16);
    }
    const __m512i codes_u8x64 =
        saturate(rounded_i32x16[0], rounded_i32x16[1], rounded_i32x16[2], rounded_i32x16[3], output_zero_point_i16x32);
    _mm512_mask_storeu_epi8(output + i, mask, _mm512_xor_si512(codes_u8x64, output_flip_u8x64));
  };

  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) multiply_64(i, ~__mmask64{0});
  if (i < count) multiply_64(i, (__mmask64{1} << (count - i)) - 1);
}

void multiply_run(const MultiplyRun& run) noexcept {
  if (reciprocal_applies(run.output_parameters.scale)) return multiply_elements<true>(run);
  multiply_elements<false>(run);
}

}  // namespace

constinit const MultiplyKernels avx512_vnni::multiply = {.run = multiply_run};

}  // namespace dmlcpu
