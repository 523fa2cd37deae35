// dequantize.h for AVX-512: 16 elements a step, the rest of a row by a mask. Parameters of at most 64 elements
// stay in registers from row to row. Bound by stores and memory.
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

struct Lanes {
  __m512 scale_f32x16, zero_point_f32x16;
};

template <class Output, class Input>
inline void dequantize_16(const Input* input, Output* output, __mmask16 mask, const Lanes& lanes) noexcept {
  const __m512 difference_f32x16 = _mm512_sub_ps(load(input, mask), lanes.zero_point_f32x16);
  store(output, mask, _mm512_mul_ps(difference_f32x16, lanes.scale_f32x16));
}

inline __mmask16 mask_of(std::size_t count) noexcept {
  return count >= 16 ? kAllLanes : static_cast<__mmask16>((1U << count) - 1);
}

// From this length on a row pays for first steps that bring its output to the beginning of a cache line.
constexpr std::size_t kAlignedRow = 256;

template <class Output, class Input>
void dequantize_row(const Input* input, Output* output, std::size_t count, const Lanes& lanes) noexcept {
  std::size_t i = 0;
  const auto dequantize_to = [&](std::size_t end) {
    for (; i + 16 <= end; i += 16) dequantize_16(input + i, output + i, kAllLanes, lanes);
    if (i < end) dequantize_16(input + i, output + i, mask_of(end - i), lanes);
    i = end;
  };
  if (count >= kAlignedRow) {
    dequantize_to((64 - reinterpret_cast<std::uintptr_t>(output) % 64) % 64 / sizeof(Output));
  }
  for (; i + 64 <= count; i += 64) {
    for (std::size_t j = 0; j < 64; j += 16) dequantize_16(input + i + j, output + i + j, kAllLanes, lanes);
  }
  dequantize_to(count);
}

// Rows of 16 * (steps - 1) < count <= 16 * steps elements, with a parameter each.
template <std::size_t steps, class Output, class Input>
void dequantize_columns(const DequantizeRun& run, const Input* input, Output* output) noexcept {
  const __mmask16 last = mask_of(run.count - 16 * (steps - 1));
  Lanes lanes[steps];
  for (std::size_t j = 0; j < steps; ++j) {
    const __mmask16 mask = j + 1 < steps ? kAllLanes : last;
    lanes[j] = {load(run.scale + 16 * j, mask), load(run.zero_point + 16 * j, mask)};
  }
  for (std::size_t row = 0; row < run.rows; ++row) {
    for (std::size_t j = 0; j < steps; ++j) {
      dequantize_16(input + 16 * j, output + 16 * j, j + 1 < steps ? kAllLanes : last, lanes[j]);
    }
    input += run.input_row_stride;
    output += run.output_row_stride;
  }
}

// The same for longer rows: parameters are read again for each, as the stores take longer than that.
template <class Output, class Input>
void dequantize_by_element(const DequantizeRun& run, const Input* input, Output* output) noexcept {
  const auto dequantize_at = [&](std::size_t i, __mmask16 mask) {
    dequantize_16(input + i, output + i, mask, {load(run.scale + i, mask), load(run.zero_point + i, mask)});
  };
  for (std::size_t row = 0; row < run.rows; ++row) {
    std::size_t i = 0;
    for (; i + 64 <= run.count; i += 64) {
      for (std::size_t j = 0; j < 64; j += 16) dequantize_at(i + j, kAllLanes);
    }
    for (; i < run.count; i += 16) dequantize_at(i, mask_of(run.count - i));
    input += run.input_row_stride;
    output += run.output_row_stride;
  }
}

template <class Output, class Input>
void dequantize_run(const DequantizeRun& operands) noexcept {
  const DequantizeRun run = operands;  // a copy: output could alias the original
  const Input* input = static_cast<const Input*>(run.input);
  Output* output = static_cast<Output*>(run.output);
  if (run.per_element) {
    if (run.rows == 1 || run.count > 64) return dequantize_by_element(run, input, output);
    if (run.count > 48) return dequantize_columns<4>(run, input, output);
    if (run.count > 32) return dequantize_columns<3>(run, input, output);
    if (run.count > 16) return dequantize_columns<2>(run, input, output);
    return dequantize_columns<1>(run, input, output);
  }
  for (std::size_t row = 0; row < run.rows; ++row) {
    const Lanes lanes = {_mm512_set1_ps(run.scale[row]), _mm512_set1_ps(run.zero_point[row])};
    dequantize_row(input + row * run.input_row_stride, output + row * run.output_row_stride, run.count, lanes);
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

constinit const DequantizeKernels avx512_vnni::dequantize = {.to_float32 = kDequantizeTo<float>,
                                                             .to_float16 = kDequantizeTo<Half>};

}  // namespace dmlcpu
