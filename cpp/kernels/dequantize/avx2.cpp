// dequantize.h for AVX2: 8 elements a step. The last step of a row is its last 8 elements, some of them once more; rows
// of fewer go through buffers. Bound by stores and memory.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/dequantize/dequantize.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"

inline __m128i load_64_bits(const void* input) noexcept { return _mm_loadl_epi64(static_cast<const __m128i*>(input)); }
inline __m128i load_128_bits(const void* input) noexcept { return _mm_loadu_si128(static_cast<const __m128i*>(input)); }
inline __m256i load_256_bits(const void* input) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(input));
}

inline __m256 load(const std::uint8_t* input) noexcept {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_64_bits(input)));
}

inline __m256 load(const std::int8_t* input) noexcept {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64_bits(input)));
}

inline __m256 load(const std::uint16_t* input) noexcept {
  return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(load_128_bits(input)));
}

inline __m256 load(const std::int16_t* input) noexcept {
  return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(load_128_bits(input)));
}

// AVX2 has no conversion from uint32. Both 16-bit halves convert exactly and high * 2^16 is exact, so that the one sum
// is the only rounding.
inline __m256 load(const std::uint32_t* input) noexcept {
  const __m256i value_u32x8 = load_256_bits(input);
  const __m256 high_f32x8 = _mm256_cvtepi32_ps(_mm256_srli_epi32(value_u32x8, 16));
  const __m256 low_f32x8 = _mm256_cvtepi32_ps(_mm256_and_si256(value_u32x8, _mm256_set1_epi32(0xffff)));
  return _mm256_add_ps(_mm256_mul_ps(high_f32x8, _mm256_set1_ps(65536.0f)), low_f32x8);
}

inline __m256 load(const std::int32_t* input) noexcept { return _mm256_cvtepi32_ps(load_256_bits(input)); }

inline void store(float* output, __m256 value_f32x8) noexcept { _mm256_storeu_ps(output, value_f32x8); }

inline void store(Half* output, __m256 value_f32x8) noexcept {
  const __m128i value_f16x8 = _mm256_cvtps_ph(value_f32x8, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(output), value_f16x8);
}

// Row number row, by its own scale and zero point or by those of its elements.
template <class Output, class Input, bool per_element>
void dequantize_row(const DequantizeRun& run, std::size_t row) noexcept {
  const Input* input = static_cast<const Input*>(run.input) + row * run.input_row_stride;
  Output* output = static_cast<Output*>(run.output) + row * run.output_row_stride;
  const float *scale = run.scale, *zero_point = run.zero_point;
  const std::size_t count = run.count;
  __m256 scale_f32x8 = {}, zero_point_f32x8 = {};
  if constexpr (!per_element) {
    scale_f32x8 = _mm256_set1_ps(scale[row]);
    zero_point_f32x8 = _mm256_set1_ps(zero_point[row]);
  }
  const auto dequantize_8 = [&](const Input* codes, const float* scales, const float* zero_points, Output* values) {
    if constexpr (per_element) {
      scale_f32x8 = _mm256_loadu_ps(scales);
      zero_point_f32x8 = _mm256_loadu_ps(zero_points);
    }
    store(values, _mm256_mul_ps(_mm256_sub_ps(load(codes), zero_point_f32x8), scale_f32x8));
  };

  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) dequantize_8(input + i, scale + i, zero_point + i, output + i);
  if (i == count) return;
  if (count >= 8) {
    i = count - 8;
    return dequantize_8(input + i, scale + i, zero_point + i, output + i);
  }
  const std::size_t rest = count - i;
  Input last_codes[8] = {};
  float last_scales[8] = {}, last_zero_points[8] = {};
  Output last_values[8];
  std::memcpy(last_codes, input + i, rest * sizeof(Input));
  if constexpr (per_element) {
    std::memcpy(last_scales, scale + i, rest * sizeof(float));
    std::memcpy(last_zero_points, zero_point + i, rest * sizeof(float));
  }
  dequantize_8(last_codes, last_scales, last_zero_points, last_values);
  std::memcpy(output + i, last_values, rest * sizeof(Output));
}

template <class Output, class Input>
void dequantize_run(const DequantizeRun& operands) noexcept {
  const DequantizeRun run = operands;  // a copy: output could alias the original
  for (std::size_t row = 0; row < run.rows; ++row) {
    if (run.per_element) {
      dequantize_row<Output, Input, true>(run, row);
    } else {
      dequantize_row<Output, Input, false>(run, row);
    }
  }
}

template <class Output>
constexpr DequantizeToFloat kDequantizeTo = {.uint8 = dequantize_run<Output, std::uint8_t>,
                                             .int8 = dequantize_run<Output, std::int8_t>,
                                             .uint16 = dequantize_run<Output, std::uint16_t>,
                                             .int16 = dequantize_run<Output, std::int16_t>,
                                             .uint32 = dequantize_run<Output, std::uint32_t>,
                                             .int32 = dequantize_run<Output, std::int32_t>};

}  // namespace

constinit const DequantizeKernels avx2::dequantize = {.to_float32 = kDequantizeTo<float>,
                                                      .to_float16 = kDequantizeTo<Half>};

}  // namespace dmlcpu
