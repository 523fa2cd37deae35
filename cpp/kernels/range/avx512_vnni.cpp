// range.h for AVX-512: four vectors of 16 a step, each with a pair of extremes of its own (minimum and maximum have a
// latency of four cycles); the rest by masks.
//
// vminps and vmaxps return the second operand if either is NaN: with the extreme as the second one, NaN is skipped.
// Masked-off lanes are NaN for that reason. Bound by loads.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/range/range.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"

constexpr __mmask16 kAllLanes = 0xffff;

inline __m512 load(const float* input, __mmask16 mask) noexcept {
  const __m512 nan_f32x16 = _mm512_castsi512_ps(_mm512_set1_epi32(-1));
  return _mm512_mask_loadu_ps(nan_f32x16, mask, input);
}

inline __m512 load(const Half* input, __mmask16 mask) noexcept {
  return _mm512_cvtph_ps(_mm256_mask_loadu_epi16(_mm256_set1_epi16(-1), mask, input));
}

struct Extremes {
  __m512 lowest_f32x16, highest_f32x16;
};

inline Extremes extended(const Extremes& extremes, __m512 value_f32x16) noexcept {
  return {_mm512_min_ps(value_f32x16, extremes.lowest_f32x16), _mm512_max_ps(value_f32x16, extremes.highest_f32x16)};
}

template <class Input>
void extend(const void* input, std::size_t count, Range& range) noexcept {
  const Input* values = static_cast<const Input*>(input);
  const Extremes start = {_mm512_set1_ps(range.lowest), _mm512_set1_ps(range.highest)};
  Extremes extremes[4] = {start, start, start, start};
  std::size_t i = 0;
  if (count >= 256) {  // such a run pays for a first step to the beginning of a cache line
    i = (64 - reinterpret_cast<std::uintptr_t>(input) % 64) % 64 / sizeof(Input);
    for (std::size_t j = 0; j < i; j += 16) {
      const __mmask16 mask = i - j >= 16 ? kAllLanes : static_cast<__mmask16>((1U << (i - j)) - 1);
      extremes[0] = extended(extremes[0], load(values + j, mask));
    }
  }
  for (; i + 64 <= count; i += 64) {
    for (std::size_t j = 0; j < 4; ++j) extremes[j] = extended(extremes[j], load(values + i + 16 * j, kAllLanes));
  }
  for (; i < count; i += 16) {
    const std::size_t rest = count - i;
    const __mmask16 mask = rest >= 16 ? kAllLanes : static_cast<__mmask16>((1U << rest) - 1);
    extremes[0] = extended(extremes[0], load(values + i, mask));
  }
  const __m512 lowest_f32x16 = _mm512_min_ps(_mm512_min_ps(extremes[0].lowest_f32x16, extremes[1].lowest_f32x16),
                                             _mm512_min_ps(extremes[2].lowest_f32x16, extremes[3].lowest_f32x16));
  const __m512 highest_f32x16 = _mm512_max_ps(_mm512_max_ps(extremes[0].highest_f32x16, extremes[1].highest_f32x16),
                                              _mm512_max_ps(extremes[2].highest_f32x16, extremes[3].highest_f32x16));
  range.lowest = _mm512_reduce_min_ps(lowest_f32x16);
  range.highest = _mm512_reduce_max_ps(highest_f32x16);
}

}  // namespace

constinit const RangeKernels avx512_vnni::range = {.float32 = extend<float>, .float16 = extend<Half>};

}  // namespace dmlcpu
