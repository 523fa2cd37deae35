// add.h for AVX-512: 64 codes a step, the rest by one mask. Shuffles and packs both work within 128-bit quarters, so
// that what one spreads the other gathers, without a permutation.
//
// Bound by arithmetic on two ports while the operands are in cache (about 10 instructions for 16 elements, by integers
// 4 to 5), by memory otherwise. The division goes by the reciprocal (codes/avx512_vnni.inl.h, with the proof), unless a
// scale is extreme or the output's is negative.
#include <immintrin.h>

#include "kernels/add/add.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/codes/differences_avx512_vnni.inl.h"
#include "kernels/codes/float_bits.inl.h"
#include "kernels/codes/integer_codes_avx512_vnni.inl.h"

// How far ahead operands are asked for, in bytes: the arithmetic fills the time that the caches beyond level 1 take,
// but is too long a chain for the loads to run ahead by themselves.
constexpr std::size_t kPrefetch = 2048;

// Whether every quotient can go by the reciprocal without a bound: differences are at most 255, so that no quotient
// exceeds 2^29 but for roundings, which 32-bit integers hold with room for those; what exceeds 512 saturates whatever
// its roundings are. False for NaN.
inline bool reciprocal_applies(const AddRun& run) noexcept {
  const float largest = 255.0f * (__builtin_fabsf(run.a_parameters.scale) + __builtin_fabsf(run.b_parameters.scale));
  return reciprocal_applies(run.output_parameters.scale) && largest <= 0x1p29f * run.output_parameters.scale;
}

// The correctly rounded quotient, or 0 where it is below 2^-10: the code is the same, and a subnormal quotient, as of
// sums beside a mask whose scale is 2^120, takes a hundred times as long. What is compared with may be rounded, if the
// scale is subnormal, by half of the smallest number: it still is no more than half of the scale.
inline __m512 quotient(__m512 sum_f32x16, __m512 scale_f32x16) noexcept {
  const __m512 least_f32x16 = _mm512_mul_ps(_mm512_abs_ps(scale_f32x16), _mm512_set1_ps(0x1p-10f));
  const __mmask16 is_small = _mm512_cmp_ps_mask(_mm512_abs_ps(sum_f32x16), least_f32x16, _CMP_LT_OQ);
  return _mm512_div_ps(_mm512_mask_mov_ps(sum_f32x16, is_small, _mm512_setzero_ps()), scale_f32x16);
}

// Calls add_64(i, mask) for the codes of the run from i on, 64 or what is left.
template <class Add>
inline __attribute__((always_inline)) void for_each_64(const AddRun& operands, const Add& add_64) noexcept {
  const std::uint8_t *a = operands.a, *b = operands.b;
  const std::size_t count = operands.count;
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(a + i) + kPrefetch, _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(b + i) + kPrefetch, _MM_HINT_T0);
    add_64(i, ~__mmask64{0});
  }
  if (i < count) add_64(i, (__mmask64{1} << (count - i)) - 1);
}

template <bool by_reciprocal, bool flips>
void add_elements(const AddRun& run) noexcept {
  const std::uint8_t *a = run.a, *b = run.b;
  std::uint8_t* output = run.output;
  const Operand a_operand = spread(run.a_parameters), b_operand = spread(run.b_parameters);
  const __m512 output_scale_f32x16 = _mm512_set1_ps(run.output_parameters.scale);
  const Reciprocal output_reciprocal = reciprocal_of(run.output_parameters.scale);
  const __m512i output_zero_point_i16x32 = _mm512_set1_epi16(static_cast<short>(run.output_parameters.zero_point));
  const __m512i output_flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run.output_parameters.flip));

  const auto add_64 = [&](std::size_t i, __mmask64 mask) {
    const Differences a_values = differences<flips>(a + i, mask, a_operand);
    const Differences b_values = differences<flips>(b + i, mask, b_operand);
    __m512i rounded_i32x16[4];
    for (int j = 0; j < 4; ++j) {
      const __m512 b_product_f32x16 = _mm512_mul_ps(b_values.f32x16[j], b_operand.scale_f32x16);
      const __m512 sum_f32x16 = _mm512_fmadd_ps(a_values.f32x16[j], a_operand.scale_f32x16, b_product_f32x16);
      const __m512 quotient_f32x16 =
          by_reciprocal ? quotient(sum_f32x16, output_reciprocal) : bounded(quotient(sum_f32x16, output_scale_f32x16));
      rounded_i32x16[j] = _mm512_cvtps_epi32(quotient_f32x16);
    }
    __m512i codes_u8x64 =
        saturate(rounded_i32x16[0], rounded_i32x16[1], rounded_i32x16[2], rounded_i32x16[3], output_zero_point_i16x32);
    if constexpr (flips) codes_u8x64 = _mm512_xor_si512(codes_u8x64, output_flip_u8x64);
    _mm512_mask_storeu_epi8(output + i, mask, codes_u8x64);
  };

  for_each_64(run, add_64);
}

// Words are unpacked, not bytes: a dword is a0 a1 b0 b1, and its even or its odd bytes are words of a and b, which
// vpdpwssd multiplies and adds. Of even and odd elements the same packs make bytes in order, every other of which is an
// element: the one, moved by a byte, is put between the other. 17 instructions for 64 elements.
template <Flips flips>
void add_integers(const AddRun& run) noexcept {
  const std::uint8_t *a = run.a, *b = run.b;
  std::uint8_t* output = run.output;
  const auto flip_of = [](const AddOperand& operand) { return _mm512_set1_epi8(static_cast<char>(operand.flip)); };
  const __m512i a_flip_u8x64 = flip_of(run.a_parameters), b_flip_u8x64 = flip_of(run.b_parameters);
  const __m512i output_flip_u8x64 = flip_of(run.output_parameters);
  const __m512i factors_i16x32 = _mm512_set1_epi32(factors_of_words(run.integers));
  const std::int32_t first = kBitsOf2To23 + run.integers.offset;
  const std::int32_t odd_less = flips == Flips::all ? 128 * (run.integers.a_factor + run.integers.b_factor) : 0;
  const __m512i even_first_i32x16 = _mm512_set1_epi32(first), odd_first_i32x16 = _mm512_set1_epi32(first + odd_less);
  const __m512 multiplier_f32x16 = _mm512_set1_ps(run.integers.multiplier);
  const __m512 addend_f32x16 = _mm512_set1_ps(addend_of(run.integers.addend, flips));

  const auto sums_of_16 = [&](__m512i pairs_i16x32, __m512i first_i32x16) {
    const __m512 sum_f32x16 = _mm512_castsi512_ps(_mm512_dpwssd_epi32(first_i32x16, pairs_i16x32, factors_i16x32));
    return _mm512_castps_si512(_mm512_fmadd_ps(sum_f32x16, multiplier_f32x16, addend_f32x16));
  };
  for_each_64(run, [&](std::size_t i, __mmask64 mask) {
    const __m512i a_u8x64 = flipped<flips>(_mm512_maskz_loadu_epi8(mask, a + i), a_flip_u8x64);
    const __m512i b_u8x64 = flipped<flips>(_mm512_maskz_loadu_epi8(mask, b + i), b_flip_u8x64);
    const __m512i low_u8x64 = _mm512_unpacklo_epi16(a_u8x64, b_u8x64);
    const __m512i high_u8x64 = _mm512_unpackhi_epi16(a_u8x64, b_u8x64);
    const __m512i even_u8x64 = saturate_low_words<flips>(sums_of_16(even_bytes<flips>(low_u8x64), even_first_i32x16),
                                                         sums_of_16(even_bytes<flips>(high_u8x64), even_first_i32x16));
    const __m512i odd_u8x64 = saturate_low_words<flips>(sums_of_16(odd_bytes<flips>(low_u8x64), odd_first_i32x16),
                                                        sums_of_16(odd_bytes<flips>(high_u8x64), odd_first_i32x16));
    const __m512i codes_u8x64 = even_bytes_in_turn(even_u8x64, odd_u8x64);
    _mm512_mask_storeu_epi8(output + i, mask, flipped<flips>(codes_u8x64, output_flip_u8x64));
  });
}

void add_run(const AddRun& run) noexcept {
  if (!reciprocal_applies(run)) return add_elements<false, true>(run);
  flips_of(run) != Flips::none ? add_elements<true, true>(run) : add_elements<true, false>(run);
}

void add_integers_run(const AddRun& run) noexcept {
  switch (flips_of(run)) {
    case Flips::none:
      return add_integers<Flips::none>(run);
    case Flips::some:
      return add_integers<Flips::some>(run);
    case Flips::all:
      return add_integers<Flips::all>(run);
  }
}

}  // namespace

constinit const AddKernels avx512_vnni::add = {.run = add_run, .run_integers = add_integers_run};

}  // namespace dmlcpu
