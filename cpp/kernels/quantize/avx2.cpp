// quantize.h for AVX2: 32 codes a step from four vectors of 8. The last step of a row is its last 32 elements, some of
// them once more; shorter rows are taken 8 at a time.
//
// Bound by arithmetic while the operands are in cache, by memory otherwise. A division by one scale goes by its
// reciprocal (codes/avx512_vnni.inl.h has the proof), unless the scale is negative or extreme; one by scales of
// elements is bound by the divider (one vector of 8 in five cycles).
#include <immintrin.h>

#include <cstring>

#include "kernels/quantize/quantize.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/half.inl.h"

enum class Rescale { divide, divide_by_reciprocal, multiply };

// The loads read the first n of eight elements, 1 <= n <= 8.
inline __m256 load(const float* input, std::size_t n) noexcept {
  return n == 8 ? _mm256_loadu_ps(input) : _mm256_maskload_ps(input, lane_mask(n));
}

inline __m256 load(const Half* input, std::size_t n) noexcept {
  Half values[8] = {};
  if (n != 8) input = static_cast<const Half*>(std::memcpy(values, input, n * sizeof(Half)));
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(input)));
}

inline __m256 load(const std::int32_t* input, std::size_t n) noexcept {
  return _mm256_cvtepi32_ps(n == 8 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(input))
                                   : _mm256_maskload_epi32(input, lane_mask(n)));
}

// The parameters of a run, as vectors where there is one value for all elements.
struct Parameters {
  const float* scale;
  const float* zero_point;
  __m256 one_scale_f32x8;
  Reciprocal one_reciprocal;
  __m256i one_zero_point_i32x8;
};

template <Rescale rescale, bool per_element>
inline __m256i rescaled(__m256 value_f32x8, const Parameters& p, std::size_t i, std::size_t n) noexcept {
  __m256 scale_f32x8 = p.one_scale_f32x8;
  __m256i zero_point_i32x8 = p.one_zero_point_i32x8;
  if constexpr (per_element) {
    scale_f32x8 = load(p.scale + i, n);
    zero_point_i32x8 = _mm256_cvtps_epi32(load(p.zero_point + i, n));
  }
  if constexpr (rescale == Rescale::divide) {
    return to_unsaturated(bounded(_mm256_div_ps(value_f32x8, scale_f32x8)), zero_point_i32x8);
  } else if constexpr (rescale == Rescale::divide_by_reciprocal) {
    return to_unsaturated(bounded_quotient(value_f32x8, p.one_reciprocal), zero_point_i32x8);
  } else {
    return to_unsaturated(bounded(_mm256_mul_ps(value_f32x8, scale_f32x8)), zero_point_i32x8);
  }
}

// Row number row, by its own scale and zero point or by those of its elements.
template <class Input, Rescale rescale, bool per_element>
void quantize_row(const QuantizeRun& run, std::size_t row) noexcept {
  const Input* input = static_cast<const Input*>(run.input) + row * run.input_row_stride;
  std::uint8_t* output = run.output + row * run.output_row_stride;
  const std::size_t count = run.count;
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.flip));
  Parameters p = {run.scale, run.zero_point, {}, {}, {}};
  if constexpr (!per_element) {
    p.one_scale_f32x8 = _mm256_set1_ps(run.scale[row]);
    p.one_reciprocal = reciprocal_of(run.scale[row]);
    p.one_zero_point_i32x8 = _mm256_cvtps_epi32(_mm256_set1_ps(run.zero_point[row]));
  }
  const auto unsaturated = [&](std::size_t i, std::size_t n) {
    return rescaled<rescale, per_element>(load(input + i, n), p, i, n);
  };

  const auto quantize_32 = [&](std::size_t i) {
    const __m256i codes_u8x32 =
        saturate_in_order(unsaturated(i, 8), unsaturated(i + 8, 8), unsaturated(i + 16, 8), unsaturated(i + 24, 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + i), _mm256_xor_si256(codes_u8x32, flip_u8x32));
  };
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) quantize_32(i);
  if (i == count) return;
  if (count >= 32) return quantize_32(count - 32);
  for (; i < count; i += 8) {
    const std::size_t n = count - i < 8 ? count - i : 8;
    store_tail(output + i, n, unsaturated(i, n), flip_u8x32);
  }
}

template <class Input, Rescale rescale>
void quantize_run(const QuantizeRun& operands) noexcept {
  const QuantizeRun run = operands;  // a copy: bytes of output could alias the original
  for (std::size_t row = 0; row < run.rows; ++row) {
    if (run.per_element) {
      quantize_row<Input, rescale, true>(run, row);
    } else if (rescale == Rescale::divide && reciprocal_applies(run.scale[row])) {
      quantize_row<Input, Rescale::divide_by_reciprocal, false>(run, row);
    } else {
      quantize_row<Input, rescale, false>(run, row);
    }
  }
}

}  // namespace

constinit const QuantizeKernels avx2::quantize = {.divide_float32 = quantize_run<float, Rescale::divide>,
                                                  .divide_float16 = quantize_run<Half, Rescale::divide>,
                                                  .divide_int32 = quantize_run<std::int32_t, Rescale::divide>,
                                                  .multiply_float32 = quantize_run<float, Rescale::multiply>,
                                                  .multiply_float16 = quantize_run<Half, Rescale::multiply>};

}  // namespace dmlcpu
