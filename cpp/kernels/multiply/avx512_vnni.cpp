// multiply.h for AVX-512: 64 codes a step, the rest by one mask. Shuffles and packs both work within 128-bit
// quarters, so that what one spreads the other gathers, without a permutation.
//
// Bound by arithmetic on two ports (about 11 instructions for 16 elements, by integers 5 to 6) while the operands are
// in cache, by memory otherwise. The division goes by the reciprocal (codes/avx512_vnni.inl.h, with the proof), unless
// the output's scale is negative or extreme.
#include <immintrin.h>

#include "kernels/multiply/multiply.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/codes/differences_avx512_vnni.inl.h"
#include "kernels/codes/float_bits.inl.h"
#include "kernels/codes/integer_codes_avx512_vnni.inl.h"

// Calls multiply_64(i, mask) for the codes from i on, 64 or what is left of so many.
template <class Multiply>
inline __attribute__((always_inline)) void for_each_64(std::size_t count, const Multiply& multiply_64) noexcept {
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) multiply_64(i, ~__mmask64{0});
  if (i < count) multiply_64(i, (__mmask64{1} << (count - i)) - 1);
}

template <bool by_reciprocal>
void multiply_elements(const MultiplyRun& run) noexcept {
  const std::uint8_t *a = run.a, *b = run.b;
  std::uint8_t* output = run.output;
  const Operand a_operand = spread(run.a_parameters), b_operand = spread(run.b_parameters);
  const __m512 output_scale_f32x16 = _mm512_set1_ps(run.output_parameters.scale);
  const Reciprocal output_reciprocal = reciprocal_of(run.output_parameters.scale);
  const __m512i output_zero_point_i16x32 = _mm512_set1_epi16(static_cast<short>(run.output_parameters.zero_point));
  const __m512i output_flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.output_parameters.flip));

  const auto multiply_64 = [&](std::size_t i, __mmask64 mask) {
    const Differences a_values = differences(a + i, mask, a_operand);
    const Differences b_values = differences(b + i, mask, b_operand);
    __m512i rounded_i32x16[4];
    for (int j = 0; j < 4; ++j) {
      const __m512 a_value_f32x16 = _mm512_mul_ps(a_values.f32x16[j], a_operand.scale_f32x16);
      const __m512 b_value_f32x16 = _mm512_mul_ps(b_values.f32x16[j], b_operand.scale_f32x16);
      const __m512 product_f32x16 = _mm512_mul_ps(a_value_f32x16, b_value_f32x16);
      const __m512 quotient_f32x16 = by_reciprocal ? bounded_quotient(product_f32x16, output_reciprocal)
                                                   : bounded(_mm512_div_ps(product_f32x16, output_scale_f32x16));
      rounded_i32x16[j] = _mm512_cvtps_epi32(quotient_f32x16);
    }
    const __m512i codes_u8x64 =
        saturate(rounded_i32x16[0], rounded_i32x16[1], rounded_i32x16[2], rounded_i32x16[3], output_zero_point_i16x32);
    _mm512_mask_storeu_epi8(output + i, mask, _mm512_xor_si512(codes_u8x64, output_flip_u8x64));
  };

  for_each_64(run.count, multiply_64);
}

// Even and odd bytes are words, which vpdpwssd multiplies in pairs: of a's words one of each pair is left at a time, so
// that there is one product. The packs leave of four codes first and third apart, second and fourth as well: the ones,
// moved by a byte, are put between the others, then words in order. 22 instructions for 64 elements.
template <Flips flips>
void multiply_integers(const MultiplyRun& run) noexcept {
  const std::uint8_t *a = run.a, *b = run.b;
  std::uint8_t* output = run.output;
  const auto flip_of = [](const MultiplyOperand& operand) { return _mm512_set1_epi8(static_cast<char>(operand.flip)); };
  const __m512i a_flip_u8x64 = flip_of(run.a_parameters), b_flip_u8x64 = flip_of(run.b_parameters);
  const __m512i output_flip_u8x64 = flip_of(run.output_parameters);
  struct ZeroPoints {
    __m512i a_i16x32, b_i16x32;
  };
  const auto zero_points = [&](int less) {
    return ZeroPoints{_mm512_set1_epi16(static_cast<short>(static_cast<int>(run.a_parameters.zero_point) - less)),
                      _mm512_set1_epi16(static_cast<short>(static_cast<int>(run.b_parameters.zero_point) - less))};
  };
  const ZeroPoints of_even = zero_points(0), of_odd = zero_points(flips == Flips::all ? 128 : 0);
  const __m512i first_i32x16 = _mm512_set1_epi32(kBitsOf2To23 + run.integers.offset);
  const __m512 multiplier_f32x16 = _mm512_set1_ps(run.integers.multiplier);
  const __m512 addend_f32x16 = _mm512_set1_ps(addend_of(run.integers.addend, flips));
  const __m512i order_u8x64 =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
  constexpr __mmask32 kEvenWords = 0x55555555, kOddWords = 0xaaaaaaaa;

  const auto products_of_16 = [&](__m512i a_i16x32, __m512i b_i16x32) {
    const __m512 product_f32x16 = _mm512_castsi512_ps(_mm512_dpwssd_epi32(first_i32x16, a_i16x32, b_i16x32));
    return _mm512_castps_si512(_mm512_fmadd_ps(product_f32x16, multiplier_f32x16, addend_f32x16));
  };
  const auto products_of_32 = [&](__m512i a_i16x32, __m512i b_i16x32, const ZeroPoints& of) {
    const __m512i difference_i16x32 = _mm512_sub_epi16(b_i16x32, of.b_i16x32);
    return saturate_low_words<flips>(
        products_of_16(_mm512_maskz_sub_epi16(kEvenWords, a_i16x32, of.a_i16x32), difference_i16x32),
        products_of_16(_mm512_maskz_sub_epi16(kOddWords, a_i16x32, of.a_i16x32), difference_i16x32));
  };
  for_each_64(run.count, [&](std::size_t i, __mmask64 mask) {
    const __m512i a_u8x64 = flipped<flips>(_mm512_maskz_loadu_epi8(mask, a + i), a_flip_u8x64);
    const __m512i b_u8x64 = flipped<flips>(_mm512_maskz_loadu_epi8(mask, b + i), b_flip_u8x64);
    const __m512i pairs_u8x64 =
        even_bytes_in_turn(products_of_32(even_bytes<flips>(a_u8x64), even_bytes<flips>(b_u8x64), of_even),
                           products_of_32(odd_bytes<flips>(a_u8x64), odd_bytes<flips>(b_u8x64), of_odd));
    const __m512i codes_u8x64 = _mm512_shuffle_epi8(pairs_u8x64, order_u8x64);
    _mm512_mask_storeu_epi8(output + i, mask, flipped<flips>(codes_u8x64, output_flip_u8x64));
  });
}

void multiply_run(const MultiplyRun& run) noexcept {
  if (reciprocal_applies(run.output_parameters.scale)) return multiply_elements<true>(run);
  multiply_elements<false>(run);
}

void multiply_integers_run(const MultiplyRun& run) noexcept {
  switch (flips_of(run)) {
    case Flips::none:
      return multiply_integers<Flips::none>(run);
    case Flips::some:
      return multiply_integers<Flips::some>(run);
    case Flips::all:
      return multiply_integers<Flips::all>(run);
  }
}

}  // namespace

constinit const MultiplyKernels avx512_vnni::multiply = {.run = multiply_run, .run_integers = multiply_integers_run};

}  // namespace dmlcpu
