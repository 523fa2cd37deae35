// resample.h for AVX2: 32 codes of a row a step, the rest by vectors of 8. Bound by the divider.
#include <immintrin.h>

#include <cstring>

#include "kernels/resample/resample.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/lanes/avx2.inl.h"
// after the lanes
#include "kernels/resample/columns.inl.h"

void resample_rows(const ResampleRows& run) noexcept {
  const float *top = run.top, *bottom = run.bottom;
  const Floats weight = spread(run.weight), input_scale = spread(run.input_scale),
               output_scale = spread(run.output_scale);
  const __m256i zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(run.output_zero_point));
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.output_flip));
  const auto unsaturated = [&](Floats upper_row, Floats lower_row) {
    const Floats value = between(upper_row, lower_row, weight) * input_scale;
    return to_unsaturated(bounded(value / output_scale), zero_point_i32x8);
  };
  std::size_t i = 0;
  for (; i + 32 <= run.count; i += 32) {
    __m256i codes_i32x8[4];
    for (std::size_t v = 0; v < 4; ++v) {
      codes_i32x8[v] = unsaturated(load(top + i + 8 * v), load(bottom + i + 8 * v));
    }
    const __m256i codes_u8x32 = saturate_in_order(codes_i32x8[0], codes_i32x8[1], codes_i32x8[2], codes_i32x8[3]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(run.output + i), _mm256_xor_si256(codes_u8x32, flip_u8x32));
  }
  for (; i < run.count; i += 8) {
    const std::size_t rest = run.count - i < 8 ? run.count - i : 8;
    store_tail(run.output + i, rest, unsaturated(load_first(top + i, rest, 0.0f), load_first(bottom + i, rest, 0.0f)),
               flip_u8x32);
  }
}

}  // namespace

constinit const ResampleKernels avx2::resample = {.columns = resample_columns, .rows = resample_rows};

}  // namespace dmlcpu
