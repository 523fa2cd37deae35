// dequantize.h for AVX-512: 16 elements a step, the rest by a mask. Bound by stores and memory.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/dequantize/dequantize.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"

constexpr __mmask16 kAllLanes = 0xffff;

inline __m512 load(const std::uint8_t* input, __mmask16 mask) noexcept {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, input)));
}

inline __m512 load(const std::int8_t* input, __mmask16 mask) noexcept {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, input)));
}

inline __m512 load(const std::uint16_t* input, __mmask16 mask) noexcept {
  return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, input)));
}

inline __m512 load(const std::int16_t* input, __mmask16 mask) noexcept {
  return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_maskz_loadu_epi16(mask, input)));
}

inline __m512 load(const std::uint32_t* input, __mmask16 mask) noexcept {
  return _mm512_cvtepu32_ps(_mm512_maskz_loadu_epi32(mask, input));
}

inline __m512 load(const std::int32_t* input, __mmask16 mask) noexcept {
  return _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(mask, input));
}

inline __m512 load(const float* input, __mmask16 mask) noexcept { return _mm512_maskz_loadu_ps(mask, input); }

inline void store(float* output, __mmask16 mask, __m512 value_f32x16) noexcept {
  _mm512_mask_storeu_ps(output, mask, value_f32x16);
}

inline void store(Half* output, __mmask16 mask, __m512 value_f32x16) noexcept {
  const __m256i value_f16x16 = _mm512_cvtps_ph(value_f32x16, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_mask_storeu_epi16(output, mask, value_f16x16);
}

template <class Output, class Input, bool per_element>
void dequantize_elements(const DequantizeRun& run) noexcept {
  const Input* input = static_cast<const Input*>(run.input);
  Output* output = static_cast<Output*>(run.output);
  const float *scale = run.scale, *zero_point = run.zero_point;
  const std::size_t count = run.count;
  __m512 scale_f32x16 = {}, zero_point_f32x16 = {};
  if constexpr (!per_element) {
    scale_f32x16 = _mm512_set1_ps(*scale);
    zero_point_f32x16 = _mm512_set1_ps(*zero_point);
  }
  const auto dequantize_16 = [&](std::size_t i, __mmask16 mask) {
    if constexpr (per_element) {
      scale_f32x16 = load(scale + i, mask);
      zero_point_f32x16 = load(zero_point + i, mask);
    }
    const __m512 difference_f32x16 = _mm512_sub_ps(load(input + i, mask), zero_point_f32x16);
    store(output + i, mask, _mm512_mul_ps(difference_f32x16, scale_f32x16));
  };

  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) dequantize_16(i, kAllLanes);
  if (i < count) dequantize_16(i, static_cast<__mmask16>((1U << (count - i)) - 1));
}

template <class Output, class Input>
void dequantize_run(const DequantizeRun& run) noexcept {
  if (run.per_element) return dequantize_elements<Output, Input, true>(run);
  dequantize_elements<Output, Input, false>(run);
}

template <class Output>
constexpr DequantizeToFloat kDequantizeTo = {.uint8 = dequantize_run<Output, std::uint8_t>,
                                             .int8 = dequantize_run<Output, std::int8_t>,
                                             .uint16 = dequantize_run<Output, std::uint16_t>,
                                             .int16 = dequantize_run<Output, std::int16_t>,
                                             .uint32 = dequantize_run<Output, std::uint32_t>,
                                             .int32 = dequantize_run<Output, std::int32_t>};

}  // namespace

constinit const DequantizeKernels avx512_vnni::dequantize = {.to_float32 = kDequantizeTo<float>,
                                                             .to_float16 = kDequantizeTo<Half>};

}  // namespace dmlcpu
