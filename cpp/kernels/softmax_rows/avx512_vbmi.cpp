// softmax_rows.h with AVX512_VBMI: 64 codes a step, the rest by one mask.
//
//   1  the largest and the smallest code of a row
//   2  each byte of 64 exponentials by permutations, and vpdpbusd adds four of them to a lane: of integers, so that
//      sums are exact in any order
//   3  the codes of the output by how far a code is below the largest: 64 * parts of them, in registers; from where
//      shares round to 0 on they are the zero point
//   4  these by permutations
//
// Rows whose codes are close have fewer parts. A row waits for itself most of the time, from the maximum to the sum to
// the quotients: two are taken at a time.
#include <immintrin.h>

#include "kernels/softmax/softmax.h"
#include "kernels/softmax_rows/softmax_rows.h"

#ifndef __AVX512VBMI__
#error "compile with AVX512_VBMI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/codes/byte_table_avx512_vbmi.inl.h"
#include "kernels/codes/softmax_codes_avx512_vnni.inl.h"

constexpr std::size_t kStep = 64;

inline __mmask64 mask_of(std::size_t count) noexcept {
  return count >= kStep ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

// Rows that are taken together, and what all of a call have in common.
template <std::size_t rows>
struct RowsTogether {
  const CodeSoftmaxRows& call;
  const Reciprocal of_scale;
  const std::uint8_t* input[rows];
  std::uint8_t* output[rows];
  __m512i maximum_u8x64[rows];

  // How far codes are below the largest. As bytes, in range even if another thread has written a larger one since.
  __m512i below(std::size_t row, std::size_t i, __mmask64 mask) const noexcept {
    const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(call.input_flip));
    return _mm512_sub_epi8(maximum_u8x64[row],
                           _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, input[row] + i), flip_u8x64));
  }
};

// Finds the maxima, and returns by how much the codes of a row differ at most.
template <std::size_t rows>
inline int find_maxima(RowsTogether<rows>& of) noexcept {
  int widest = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const CodeRange range = range_of(of.input[row], of.call.count, of.call.input_flip);
    const int width = range.maximum - range.minimum;
    widest = width > widest ? width : widest;
    of.maximum_u8x64[row] = _mm512_set1_epi8(static_cast<char>(range.maximum));
  }
  return widest;
}

// The sums of neighbouring lanes.
inline __m512i pair_sums(__m512i sums_u32x16) noexcept {
  const __m512i even_u64x8 = _mm512_and_si512(sums_u32x16, _mm512_set1_epi64(0xffffffff));
  return _mm512_add_epi64(even_u64x8, _mm512_srli_epi64(sums_u32x16, 32));
}

template <std::size_t parts, std::size_t rows>
inline void sum_powers(const RowsTogether<rows>& of, float* sums) noexcept {
  // A step adds 4 * 255 to a lane at most, so that two sums of which one is shifted by 8 stay below 2^32.
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 19;
  const std::uint8_t (&bytes)[4][256] = of.call.exponentials->bytes;
  const ByteTable<parts> byte[4] = {ByteTable<parts>(bytes[0]), ByteTable<parts>(bytes[1]), ByteTable<parts>(bytes[2]),
                                    ByteTable<parts>(bytes[3])};
  __m512i totals_u64x8[rows];
  for (std::size_t row = 0; row < rows; ++row) totals_u64x8[row] = _mm512_setzero_si512();
  for (std::size_t i = 0; i < of.call.count;) {
    const std::size_t end = of.call.count - i < kMostAtOnce ? of.call.count : i + kMostAtOnce;
    __m512i sums_u32x16[rows][4];
    for (auto& of_row : sums_u32x16) {
      for (__m512i& of_byte : of_row) of_byte = _mm512_setzero_si512();
    }
    for (; i < end; i += kStep) {
      const __mmask64 mask = mask_of(end - i);
      const __m512i ones_u8x64 = _mm512_maskz_set1_epi8(mask, 1);
      for (std::size_t row = 0; row < rows; ++row) {
        const __m512i below_u8x64 = of.below(row, i, mask);
        for (std::size_t k = 0; k < 4; ++k) {
          sums_u32x16[row][k] = _mm512_dpbusd_epi32(sums_u32x16[row][k], byte[k].of(below_u8x64), ones_u8x64);
        }
      }
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const __m512i(&bytes_u32x16)[4] = sums_u32x16[row];
      const __m512i low_u32x16 = _mm512_add_epi32(bytes_u32x16[0], _mm512_slli_epi32(bytes_u32x16[1], 8));
      const __m512i high_u32x16 = _mm512_add_epi32(bytes_u32x16[2], _mm512_slli_epi32(bytes_u32x16[3], 8));
      const __m512i high_u64x8 = _mm512_slli_epi64(pair_sums(high_u32x16), 16);
      totals_u64x8[row] = _mm512_add_epi64(totals_u64x8[row], _mm512_add_epi64(pair_sums(low_u32x16), high_u64x8));
    }
  }
  for (std::size_t row = 0; row < rows; ++row) {
    const auto total = static_cast<std::uint64_t>(_mm512_reduce_add_epi64(totals_u64x8[row]));
    sums[row] = static_cast<float>(total) * kExponentialUnit;
  }
}

// The codes of shares of a row's sum, for 64 * parts exponentials.
template <std::size_t parts, std::size_t rows>
inline ByteTable<parts> codes_of_shares(const RowsTogether<rows>& of, float sum) noexcept {
  const CodeSoftmaxRows& call = of.call;
  const Reciprocal of_sum = reciprocal_of(sum);
  const SumReciprocal by_sum = {_mm512_set1_ps(sum), of_sum.reciprocal_f32x16, of_sum.rest_f32x16};
  const auto zero_point = static_cast<int>(call.output_zero_point);
  const __m512i zero_point_i32x16 = _mm512_set1_epi32(zero_point);
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(call.output_flip));
  const float* powers = call.exponentials->values;
  const auto unsaturated = [&](std::size_t i) {
    const __m512 share_f32x16 = by_sum.quotient(_mm512_loadu_ps(powers + i));
    return to_unsaturated(bounded_quotient(share_f32x16, of.of_scale), zero_point_i32x16);
  };
  ByteTable<parts> codes;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t i = part * kStep;
    // Sums are 1 at least: no share is more than its exponential, and none after these is more than the first.
    const bool rounds_to_0 = powers[i] < 0.499F * call.output_scale;
    const __m512i codes_u8x64 =
        rounds_to_0 ? _mm512_set1_epi8(static_cast<char>(zero_point))
                    : saturate_in_order(unsaturated(i), unsaturated(i + 16), unsaturated(i + 32), unsaturated(i + 48));
    codes.values_u8x64[part] = _mm512_xor_si512(codes_u8x64, flip_u8x64);
  }
  return codes;
}

// Rows whose codes differ by less than 64 * parts.
template <std::size_t parts, std::size_t rows>
void write_rows_of(const RowsTogether<rows>& of) noexcept {
  float sums[rows];
  sum_powers<parts>(of, sums);
  ByteTable<parts> codes[rows];
  for (std::size_t row = 0; row < rows; ++row) codes[row] = codes_of_shares<parts>(of, sums[row]);
  for (std::size_t i = 0; i < of.call.count; i += kStep) {
    const __mmask64 mask = mask_of(of.call.count - i);
    for (std::size_t row = 0; row < rows; ++row) {
      _mm512_mask_storeu_epi8(of.output[row] + i, mask, codes[row].of(of.below(row, i, mask)));
    }
  }
}

template <std::size_t rows>
void write_rows(const CodeSoftmaxRows& call, const Reciprocal& of_scale, std::size_t first) noexcept {
  RowsTogether<rows> of = {.call = call, .of_scale = of_scale, .input = {}, .output = {}, .maximum_u8x64 = {}};
  for (std::size_t row = 0; row < rows; ++row) {
    of.input[row] = call.input + static_cast<std::int64_t>(first + row) * call.input_step;
    of.output[row] = call.output + static_cast<std::int64_t>(first + row) * call.output_step;
  }
  const int widest = find_maxima(of);
  widest < 64 ? write_rows_of<1>(of) : widest < 128 ? write_rows_of<2>(of) : write_rows_of<4>(of);
}

void write_codes(const CodeSoftmaxRows& operands) noexcept {
  const CodeSoftmaxRows call = operands;  // a copy: the output could alias the original
  const Reciprocal of_scale = reciprocal_of(call.output_scale);
  std::size_t row = 0;
  for (; row + 2 <= call.rows; row += 2) write_rows<2>(call, of_scale, row);
  if (row < call.rows) write_rows<1>(call, of_scale, row);
}

}  // namespace

constinit const SoftmaxRowsKernels avx512_vbmi::softmax_rows = {.codes = write_codes};

}  // namespace dmlcpu
