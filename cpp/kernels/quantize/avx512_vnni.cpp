// quantize.h for AVX-512: 64 codes a step from four vectors of 16, the rest of a row by masks. Parameters of elements
// stay in registers while a step goes down the rows.
//
// Bound by arithmetic on two ports while the operands are in cache, by memory otherwise. A division goes by the
// reciprocal (codes/avx512_vnni.inl.h, with the proof), unless a scale is negative or extreme.
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

// The parameters of sixteen lanes: for Rescale::divide_by_reciprocal the reciprocal, else the scale.
struct Lanes {
  __m512 scale_f32x16;
  Reciprocal reciprocal;
  __m512i zero_point_i32x16;
};

template <Rescale rescale>
inline Lanes lanes_of(float scale, float zero_point) noexcept {
  Lanes lanes = {_mm512_set1_ps(scale), {}, _mm512_cvtps_epi32(_mm512_set1_ps(zero_point))};
  if constexpr (rescale == Rescale::divide_by_reciprocal) lanes.reciprocal = reciprocal_of(scale);
  return lanes;
}

template <Rescale rescale>
inline Lanes lanes_of(const float* scale, const float* zero_point, __mmask16 mask) noexcept {
  Lanes lanes = {load(scale, mask), {}, _mm512_cvtps_epi32(load(zero_point, mask))};
  if constexpr (rescale == Rescale::divide_by_reciprocal) lanes.reciprocal = reciprocal_of(lanes.scale_f32x16);
  return lanes;
}

// At most 513.
template <Rescale rescale>
inline __m512 rescaled(__m512 value_f32x16, const Lanes& lanes) noexcept {
  if constexpr (rescale == Rescale::divide) {
    return bounded(_mm512_div_ps(value_f32x16, lanes.scale_f32x16));
  } else if constexpr (rescale == Rescale::divide_by_reciprocal) {
    return bounded_quotient(value_f32x16, lanes.reciprocal);
  } else {
    return bounded(_mm512_mul_ps(value_f32x16, lanes.scale_f32x16));
  }
}

inline __mmask16 part(__mmask64 mask, int j) noexcept { return static_cast<__mmask16>(mask >> (16 * j)); }

inline __mmask64 mask_of(std::size_t count) noexcept {
  return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

// 64 codes, by lanes[j] or, where they are all the same, by lanes[0].
template <Rescale rescale, int kinds, class Input>
inline __m512i codes_of(const Input* input, __mmask64 mask, const Lanes (&lanes)[kinds]) noexcept {
  const auto lanes_at = [&](int j) -> const Lanes& { return lanes[kinds == 1 ? 0 : j]; };
  __m512i rounded_i32x16[4];
  for (int j = 0; j < 4; ++j) {
    rounded_i32x16[j] = _mm512_cvtps_epi32(rescaled<rescale>(load(input + 16 * j, part(mask, j)), lanes_at(j)));
  }
  const PairZeroPoints zero_points = {_mm512_packs_epi32(lanes_at(0).zero_point_i32x16, lanes_at(1).zero_point_i32x16),
                                      _mm512_packs_epi32(lanes_at(2).zero_point_i32x16, lanes_at(3).zero_point_i32x16)};
  return in_order(saturate(rounded_i32x16[0], rounded_i32x16[1], rounded_i32x16[2], rounded_i32x16[3], zero_points));
}

template <Rescale rescale, int kinds, class Input>
inline void quantize_64(const Input* input, std::uint8_t* output, __mmask64 mask, const Lanes (&lanes)[kinds],
                        __m512i flip_u8x64) noexcept {
  _mm512_mask_storeu_epi8(output, mask, _mm512_xor_si512(codes_of<rescale>(input, mask, lanes), flip_u8x64));
}

// How far ahead the input is asked for, in bytes: a step computes too much for the loads of enough others to be under
// way beside it.
constexpr std::size_t kPrefetch = 4096;

// Asks for the 64 elements that are this many bytes ahead.
template <class Input>
inline void prefetch_64(const Input* input, std::size_t bytes) noexcept {
  for (std::size_t line = 0; line < 64 * sizeof(Input); line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(input) + bytes + line, _MM_HINT_T0);
  }
}

// From this length on a row pays for a first step that brings its input to the beginning of a cache line.
constexpr std::size_t kAlignedRow = 512;

template <Rescale rescale, class Input>
void quantize_row(const Input* input, std::uint8_t* output, std::size_t count, const Lanes& of_row,
                  std::uint8_t flip) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  const Lanes lanes[1] = {of_row};  // a copy: bytes of output could alias the original
  const auto quantize_at = [&](std::size_t i, __mmask64 mask) {
    quantize_64<rescale>(input + i, output + i, mask, lanes, flip_u8x64);
  };
  std::size_t i = 0;
  if (count >= kAlignedRow) {
    i = (64 - reinterpret_cast<std::uintptr_t>(input) % 64) % 64 / sizeof(Input);
    quantize_at(0, mask_of(i));
  }
  for (; i + kPrefetch / sizeof(Input) < count; i += 64) {
    prefetch_64(input + i, kPrefetch);
    quantize_at(i, ~__mmask64{0});
  }
  for (; i + 64 <= count; i += 64) quantize_at(i, ~__mmask64{0});
  if (i < count) quantize_at(i, mask_of(count - i));
}

#include "kernels/quantize/prepared_avx512_vnni.inl.h"

// How far ahead where a step goes down the rows, which no hardware foresees: a block of a caller's usual size.
constexpr std::size_t kPrefetchBlock = 16384;

// Elements i to i + 63 of every row.
template <Rescale rescale, class Input>
void quantize_columns(const QuantizeRun& run, std::size_t i, std::uint8_t flip) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  const __mmask64 mask = mask_of(run.count - i);
  Lanes lanes[4];
  for (int j = 0; j < 4; ++j) {
    lanes[j] = lanes_of<rescale>(run.scale + i + 16 * j, run.zero_point + i + 16 * j, part(mask, j));
  }
  const Input* input = static_cast<const Input*>(run.input) + i;
  std::uint8_t* output = run.output + i;
  const auto quantize_rows = [&](__mmask64 of_row) {
    for (std::size_t row = 0; row < run.rows; ++row) {
      prefetch_64(input, kPrefetchBlock);
      quantize_64<rescale>(input, output, of_row, lanes, flip_u8x64);
      input += run.input_row_stride;
      output += run.output_row_stride;
    }
  };
  if (mask == ~__mmask64{0}) return quantize_rows(~__mmask64{0});  // without masks
  quantize_rows(mask);
}

inline bool reciprocal_applies(const float* scale, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; i += 16) {
    const __mmask16 mask = lane_mask(count - i);
    if (!reciprocal_applies(load(scale + i, mask), mask)) return false;
  }
  return true;
}

template <class Input, Rescale rescale>
void quantize_by_element(const QuantizeRun& run, std::uint8_t flip) noexcept {
  constexpr bool divides = rescale == Rescale::divide;
  if (run.rows > 1 && run.count > 64 && run.count % 64 == 0 && run.count <= Parameters::kMost) {
    if (divides && reciprocal_applies(run.scale, run.count)) {
      return quantize_periods<Rescale::divide_by_reciprocal, Input>(run, flip);
    }
    return quantize_periods<rescale, Input>(run, flip);
  }
  for (std::size_t i = 0; i < run.count; i += 64) {
    if (divides && reciprocal_applies(run.scale + i, run.count - i < 64 ? run.count - i : 64)) {
      quantize_columns<Rescale::divide_by_reciprocal, Input>(run, i, flip);
    } else {
      quantize_columns<rescale, Input>(run, i, flip);
    }
  }
}

template <class Input, Rescale rescale>
void quantize_by_row(const QuantizeRun& run, std::uint8_t flip) noexcept {
  constexpr bool divides = rescale == Rescale::divide;
  if (run.rows > 1) {
    for (std::size_t row = 0; row < run.rows; row += Parameters::kMost) {
      const std::size_t rows = run.rows - row < Parameters::kMost ? run.rows - row : Parameters::kMost;
      if (divides && reciprocal_applies(run.scale + row, rows)) {
        quantize_rows<Rescale::divide_by_reciprocal, Input>(run, row, rows, flip);
      } else {
        quantize_rows<rescale, Input>(run, row, rows, flip);
      }
    }
    return;
  }
  if (run.rows == 0) return;
  const Input* input = static_cast<const Input*>(run.input);
  const float scale = run.scale[0], zero_point = run.zero_point[0];
  if (divides && reciprocal_applies(scale)) {
    constexpr Rescale kRescale = Rescale::divide_by_reciprocal;
    return quantize_row<kRescale>(input, run.output, run.count, lanes_of<kRescale>(scale, zero_point), flip);
  }
  quantize_row<rescale>(input, run.output, run.count, lanes_of<rescale>(scale, zero_point), flip);
}

template <class Input, Rescale rescale>
void quantize_run(const QuantizeRun& operands) noexcept {
  const QuantizeRun run = operands;  // a copy: bytes of output could alias the original
  if (run.per_element) return quantize_by_element<Input, rescale>(run, run.flip);
  quantize_by_row<Input, rescale>(run, run.flip);
}

}  // namespace

constinit const QuantizeKernels avx512_vnni::quantize = {.divide_float32 = quantize_run<float, Rescale::divide>,
                                                         .divide_float16 = quantize_run<Half, Rescale::divide>,
                                                         .divide_int32 = quantize_run<std::int32_t, Rescale::divide>,
                                                         .multiply_float32 = quantize_run<float, Rescale::multiply>,
                                                         .multiply_float16 = quantize_run<Half, Rescale::multiply>};

}  // namespace dmlcpu
