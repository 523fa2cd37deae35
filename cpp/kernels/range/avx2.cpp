// range.h for AVX2: four vectors of 8 a step, each with a pair of extremes of its own (minimum and maximum have a
// latency of four cycles); the rest 8 at a time, the last ones through a buffer.
//
// vminps and vmaxps return the second operand if either is NaN: with the extreme as the second one, NaN is skipped. The
// buffer is filled up with NaN for that reason. Bound by loads.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/range/range.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"

inline __m256 load(const float* input) noexcept { return _mm256_loadu_ps(input); }

inline __m256 load(const Half* input) noexcept {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(input)));
}

struct Extremes {
  __m256 lowest_f32x8, highest_f32x8;
};

inline Extremes extended(const Extremes& extremes, __m256 value_f32x8) noexcept {
  return {_mm256_min_ps(value_f32x8, extremes.lowest_f32x8), _mm256_max_ps(value_f32x8, extremes.highest_f32x8)};
}

template <class Input>
void extend(const void* input, std::size_t count, Range& range) noexcept {
  const Input* values = static_cast<const Input*>(input);
  const Extremes start = {_mm256_set1_ps(range.lowest), _mm256_set1_ps(range.highest)};
  Extremes extremes[4] = {start, start, start, start};
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    for (std::size_t j = 0; j < 4; ++j) extremes[j] = extended(extremes[j], load(values + i + 8 * j));
  }
  for (; i + 8 <= count; i += 8) extremes[0] = extended(extremes[0], load(values + i));
  if (i < count) {
    Input last[8];
    std::memset(last, 0xff, sizeof(last));
    std::memcpy(last, values + i, (count - i) * sizeof(Input));
    extremes[0] = extended(extremes[0], load(last));
  }
  alignas(32) float lowest[8], highest[8];
  _mm256_store_ps(lowest, _mm256_min_ps(_mm256_min_ps(extremes[0].lowest_f32x8, extremes[1].lowest_f32x8),
                                        _mm256_min_ps(extremes[2].lowest_f32x8, extremes[3].lowest_f32x8)));
  _mm256_store_ps(highest, _mm256_max_ps(_mm256_max_ps(extremes[0].highest_f32x8, extremes[1].highest_f32x8),
                                         _mm256_max_ps(extremes[2].highest_f32x8, extremes[3].highest_f32x8)));
  for (std::size_t lane = 0; lane < 8; ++lane) {
    if (lowest[lane] < range.lowest) range.lowest = lowest[lane];
    if (highest[lane] > range.highest) range.highest = highest[lane];
  }
}

}  // namespace

constinit const RangeKernels avx2::range = {.float32 = extend<float>, .float16 = extend<Half>};

}  // namespace dmlcpu
