// resample.h for AVX-512: 64 codes of a row a step, the rest by masked vectors of 16. Bound by arithmetic: the division
// goes by the reciprocal (codes/avx512_vnni.inl.h, with the proof), unless the output's scale is negative or extreme.
#include <immintrin.h>

#include "kernels/resample/resample.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/lanes/avx512_vnni.inl.h"
// after the lanes
#include "kernels/resample/columns.inl.h"

template <bool by_reciprocal>
void make_codes(const ResampleRows& run) noexcept {
  const float *top = run.top, *bottom = run.bottom;
  const Floats weight = spread(run.weight), input_scale = spread(run.input_scale),
               output_scale = spread(run.output_scale);
  const Reciprocal reciprocal = reciprocal_of(run.output_scale);
  const __m512i zero_point_i32x16 = _mm512_set1_epi32(static_cast<int>(run.output_zero_point));
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.output_flip));
  const auto unsaturated = [&](Floats upper_row, Floats lower_row) {
    const Floats value = between(upper_row, lower_row, weight) * input_scale;
    const Floats scaled = by_reciprocal ? bounded_quotient(value, reciprocal) : bounded(value / output_scale);
    return to_unsaturated(scaled, zero_point_i32x16);
  };
  std::size_t i = 0;
  for (; i + 64 <= run.count; i += 64) {
    __m512i codes_i32x16[4];
    for (std::size_t v = 0; v < 4; ++v) {
      codes_i32x16[v] = unsaturated(load(top + i + 16 * v), load(bottom + i + 16 * v));
    }
    const __m512i codes_u8x64 = saturate_in_order(codes_i32x16[0], codes_i32x16[1], codes_i32x16[2], codes_i32x16[3]);
    _mm512_storeu_si512(run.output + i, _mm512_xor_si512(codes_u8x64, flip_u8x64));
  }
  for (; i < run.count; i += 16) {
    const __mmask16 mask = lane_mask(run.count - i);
    store_tail(run.output + i, mask,
               unsaturated(_mm512_maskz_loadu_ps(mask, top + i), _mm512_maskz_loadu_ps(mask, bottom + i)), flip_u8x64);
  }
}

void resample_rows(const ResampleRows& run) noexcept {
  if (reciprocal_applies(run.output_scale)) return make_codes<true>(run);
  make_codes<false>(run);
}

}  // namespace

constinit const ResampleKernels avx512_vnni::resample = {.columns = resample_columns, .rows = resample_rows};

}  // namespace dmlcpu
