// quantize.h for AVX-512: 64 codes a step from four vectors of 16, the rest 16 at a time by masks.
//
// Bound by arithmetic on two ports while the operands are in cache, by memory otherwise. A division by one scale goes
// by its reciprocal (codes/avx512_vnni.inl.h, with the proof), unless the scale is negative or extreme.
#include <immintrin.h>

#include <cstring>

#include "kernels/quantize/quantize.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/half.inl.h"

enum class Rescale { divide, divide_by_reciprocal, multiply };

inline __m512 load(const float* input, __mmask16 mask) noexcept { return _mm512_maskz_loadu_ps(mask, input); }

inline __m512 load(const Half* input, __mmask16 mask) noexcept {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, input));
}

inline __m512 load(const std::int32_t* input, __mmask16 mask) noexcept {
  return _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(mask, input));
}

// The parameters of a run, as vectors where there is one value for all elements.
struct Parameters {
  const float* scale;
  const float* zero_point;
  Reciprocal one_scale;
  __m512i one_zero_point_i32x16;
};

template <Rescale rescale, bool per_element>
inline __m512i rescaled(__m512 value_f32x16, const Parameters& p, std::size_t i, __mmask16 mask) noexcept {
  __m512 scale_f32x16 = p.one_scale.scale_f32x16;
  __m512i zero_point_i32x16 = p.one_zero_point_i32x16;
  if constexpr (per_element) {
    scale_f32x16 = _mm512_maskz_loadu_ps(mask, p.scale + i);
    zero_point_i32x16 = _mm512_cvtps_epi32(_mm512_maskz_loadu_ps(mask, p.zero_point + i));
  }
  if constexpr (rescale == Rescale::divide) {
    return to_unsaturated(bounded(_mm512_div_ps(value_f32x16, scale_f32x16)), zero_point_i32x16);
  } else if constexpr (rescale == Rescale::divide_by_reciprocal) {
    return to_unsaturated(bounded_quotient(value_f32x16, p.one_scale), zero_point_i32x16);
  } else {
    return to_unsaturated(bounded(_mm512_mul_ps(value_f32x16, scale_f32x16)), zero_point_i32x16);
  }
}

template <class Input, Rescale rescale, bool per_element>
void quantize_elements(const QuantizeRun& run) noexcept {
  const Input* input = static_cast<const Input*>(run.input);
  std::uint8_t* output = run.output;
  const std::size_t count = run.count;
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.flip));
  Parameters p = {.scale = run.scale, .zero_point = run.zero_point, .one_scale = {}, .one_zero_point_i32x16 = {}};
  if constexpr (!per_element) {
    p.one_scale = reciprocal_of(*run.scale);
    p.one_zero_point_i32x16 = _mm512_cvtps_epi32(_mm512_set1_ps(*run.zero_point));
  }
  const auto unsaturated = [&](std::size_t i, __mmask16 mask) {
    return rescaled<rescale, per_element>(load(input + i, mask), p, i, mask);
  };

  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const __m512i codes_u8x64 = saturate_in_order(unsaturated(i, kAllLanes), unsaturated(i + 16, kAllLanes),
                                                  unsaturated(i + 32, kAllLanes), unsaturated(i + 48, kAllLanes));
    _mm512_storeu_si512(output + i, _mm512_xor_si512(codes_u8x64, flip_u8x64));
  }
  for (; i < count; i += 16) {
    const __mmask16 mask = lane_mask(count - i);
    store_tail(output + i, mask, unsaturated(i, mask), flip_u8x64);
  }
}

template <class Input, Rescale rescale>
void quantize_run(const QuantizeRun& run) noexcept {
  if (run.per_element) return quantize_elements<Input, rescale, true>(run);
  if (rescale == Rescale::divide && reciprocal_applies(*run.scale)) {
    return quantize_elements<Input, Rescale::divide_by_reciprocal, false>(run);
  }
  quantize_elements<Input, rescale, false>(run);
}

}  // namespace

constinit const QuantizeKernels avx512_vnni::quantize = {.divide_float32 = quantize_run<float, Rescale::divide>,
                                                         .divide_float16 = quantize_run<Half, Rescale::divide>,
                                                         .divide_int32 = quantize_run<std::int32_t, Rescale::divide>,
                                                         .multiply_float32 = quantize_run<float, Rescale::multiply>,
                                                         .multiply_float16 = quantize_run<Half, Rescale::multiply>};

}  // namespace dmlcpu
