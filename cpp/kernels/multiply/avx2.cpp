// multiply.h for AVX2: 32 codes a step, the rest through buffers of 32. Unpacks and packs both work within 128-bit
// halves, so that what one spreads the other gathers, without a permutation.
//
// Bound by the divider (one vector of 8 in five cycles) while the operands are in cache, by memory otherwise.
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

void multiply_run(const MultiplyRun& run) noexcept {
  const std::uint8_t *a = run.a, *b = run.b;
  std::uint8_t* output = run.output;
  const std::size_t count = run.count;
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

  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) multiply_32(a + i, b + i, output + i);
  if (i < count) {
    std::uint8_t last_a[32] = {}, last_b[32] = {}, last_products[32];
    std::memcpy(last_a, a + i, count - i);
    std::memcpy(last_b, b + i, count - i);
    multiply_32(last_a, last_b, last_products);
    std::memcpy(output + i, last_products, count - i);
  }
}

}  // namespace

constinit const MultiplyKernels avx2::multiply = {.run = multiply_run};

}  // namespace dmlcpu
