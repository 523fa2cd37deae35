// pool.h for AVX-512: four vectors of 16 channels at a time, the rest one by one under masks.
//
// Bound by arithmetic on two ports while the operands are in cache: a tap of 16 codes takes a shuffle, a difference, a
// product and a sum (INT8 one more), a tap of 16 values a sum, and a vector of results ten instructions.
#include <immintrin.h>

#include <cstring>

#include "kernels/pool/pool.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/codes/scalar.inl.h"
#include "kernels/lanes/avx512_vnni.inl.h"
#include "kernels/pool/integer_sums_avx512_vnni.inl.h"
#include "kernels/pool/ordered_planes.inl.h"

// From codes to values. The bits 0x4b0000cc are the float 2^23 + cc: a shuffle that puts a code into the low byte of
// each lane converts it. The difference to 2^23 + zero_point is exact, both being integers below 2^24.
template <bool flips>
struct Dequantizer {
  __m512 shifted_zero_point_f32x16, scale_f32x16;

  Dequantizer(const PoolParameters& parameters, std::size_t channel, __mmask16 mask) noexcept
      : shifted_zero_point_f32x16(
            _mm512_add_ps(_mm512_set1_ps(0x1p23f), _mm512_maskz_loadu_ps(mask, parameters.input_zero_point + channel))),
        scale_f32x16(_mm512_maskz_loadu_ps(mask, parameters.input_scale + channel)) {}

  __m512 values(__m128i codes_u8x16) const noexcept {
    constexpr __mmask64 kLowBytes = 0x1111111111111111;
    const __m512i exponent_i32x16 = _mm512_set1_epi32(0x4b000000);
    // Lane i of a 128-bit quarter q takes byte 4q + i.
    const __m512i place_u8x64 = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i shifted_f32x16 =
        _mm512_mask_shuffle_epi8(exponent_i32x16, kLowBytes, _mm512_broadcast_i32x4(codes_u8x16), place_u8x64);
    if constexpr (flips) shifted_f32x16 = _mm512_xor_si512(shifted_f32x16, _mm512_set1_epi32(0x80));
    return _mm512_mul_ps(_mm512_sub_ps(_mm512_castsi512_ps(shifted_f32x16), shifted_zero_point_f32x16), scale_f32x16);
  }
};

template <bool flips>
void dequantize_pixels(const PoolValues& run) noexcept {
  for (std::size_t channel = 0; channel < run.channels; channel += 16) {
    const __mmask16 mask = lane_mask(run.channels - channel);
    const Dequantizer<flips> dequantizer(run.parameters, channel, mask);
    const std::uint8_t* codes = run.codes + channel;
    float* values = run.values + channel;
    for (std::size_t p = 0; p < run.pixels; ++p, codes += run.pixel_step, values += run.value_pixel_step) {
      _mm512_mask_storeu_ps(values, mask, dequantizer.values(_mm_maskz_loadu_epi8(mask, codes)));
    }
  }
}

void dequantize(const PoolValues& run) noexcept {
  (run.flip != 0 ? dequantize_pixels<true> : dequantize_pixels<false>)(run);
}

// What a tap adds to the sums of 16 channels: the value of a code, or a value as it is.
template <class Element, bool flips>
class Taps;

template <bool flips>
class Taps<std::uint8_t, flips> {
 public:
  Taps(const PoolParameters& parameters, std::size_t channel, __mmask16 mask) noexcept
      : dequantizer_(parameters, channel, mask) {}

  template <bool whole>
  __m512 load(const std::uint8_t* codes, __mmask16 mask) const noexcept {
    return dequantizer_.values(whole ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes))
                                     : _mm_maskz_loadu_epi8(mask, codes));
  }

 private:
  Dequantizer<flips> dequantizer_;
};

template <bool flips>
class Taps<float, flips> {
 public:
  Taps(const PoolParameters&, std::size_t, __mmask16) noexcept {}

  template <bool whole>
  __m512 load(const float* values, __mmask16 mask) const noexcept {
    return whole ? _mm512_loadu_ps(values) : _mm512_maskz_loadu_ps(mask, values);
  }
};

// sum / count where count is an integer below 2^22, in place of the three times slower instruction:
//
//   r = 1 / n;  q0 = s * r;  rem = s - q0 * n;  q = q0 + rem * r      each rounded once (the last two are fused)
//
// r is within 2^-24 of 1 / n relatively, so q0 within 2 units in the last place of s / n. n is an integer, so rem is a
// multiple of the unit of q0, no more than 2 n of them: exact. Then q0 + rem * r, before it is rounded, is within 2^-23
// units of s / n. A quotient by n is no midpoint between two floats, nor closer to one than 1 / 2n units, which is
// more: so q is s / n, correctly rounded. Subnormal quotients alone may differ; divided by an output scale to which
// reciprocal_applies they are codes of 0 either way. An infinite sum is cut to the largest float, whose quotient still
// saturates; minus infinity becomes NaN, which is the lowest code as well.
struct CountReciprocal {
  __m512 count_f32x16, reciprocal_f32x16;

  __m512 quotient(__m512 sum_f32x16) const noexcept {
    const __m512 s_f32x16 = _mm512_min_ps(_mm512_set1_ps(0x1.fffffep127f), sum_f32x16);  // NaN passes
    const __m512 q0_f32x16 = _mm512_mul_ps(s_f32x16, reciprocal_f32x16);
    const __m512 rem_f32x16 = _mm512_fnmadd_ps(q0_f32x16, count_f32x16, s_f32x16);
    return _mm512_fmadd_ps(rem_f32x16, reciprocal_f32x16, q0_f32x16);
  }
};

inline bool reciprocals_apply(float count, __m512 scale_f32x16, __mmask16 mask) noexcept {
  return count >= 1.0f && count < 0x1p22f && reciprocal_applies(scale_f32x16, mask);
}

// Channels [channel, channel + 16 * vectors) of all pixels; whole says that there are as many.
template <class Element, bool flips, std::size_t vectors, bool whole>
class Strip {
 public:
  Strip(const PoolRun<Element>& run, std::size_t channel) noexcept
      : run_(run), channel_(channel), mask_(lane_mask(run.channels - channel)) {
    by_reciprocal_ = true;
    for (std::size_t v = 0; v < vectors; ++v) {
      scale_f32x16_[v] = _mm512_maskz_loadu_ps(mask_, run.parameters.output_scale + channel + 16 * v);
      zero_point_i32x16_[v] =
          _mm512_cvtps_epi32(_mm512_maskz_loadu_ps(mask_, run.parameters.output_zero_point + channel + 16 * v));
      by_reciprocal_ = by_reciprocal_ && reciprocals_apply(run.count, scale_f32x16_[v], mask_);
    }
  }

  // Pixels [begin, end).
  void average(std::size_t begin, std::size_t end) const noexcept {
    if (by_reciprocal_ && end - begin >= kLeastPixels) {
      average_pixels<true>(begin, end);
    } else {
      average_pixels<false>(begin, end);
    }
  }

  // The codes of averages that are rounded already.
  void store_rounded(std::size_t pixel, const __m512i (&rounded_i32x16)[vectors]) const noexcept {
    __m512i unsaturated_i32x16[vectors];
    for (std::size_t v = 0; v < vectors; ++v) {
      unsaturated_i32x16[v] = _mm512_add_epi32(rounded_i32x16[v], zero_point_i32x16_[v]);
    }
    store(pixel, unsaturated_i32x16);
  }

 private:
  // Reciprocals take a division of their own.
  static constexpr std::size_t kLeastPixels = 2;

  struct Sums {
    __m512 f32x16[vectors];
  };

  template <bool by_reciprocal>
  void average_pixels(std::size_t begin, std::size_t end) const noexcept {
    const __m512 count_f32x16 = _mm512_set1_ps(run_.count);
    const CountReciprocal by_count = {count_f32x16, _mm512_set1_ps(1.0f / run_.count)};
    Reciprocal by_scale[vectors];
    if constexpr (by_reciprocal) {
      for (std::size_t v = 0; v < vectors; ++v) {
        by_scale[v] = reciprocal_of(scale_f32x16_[v]);
      }
    }
    const Taps<Element, flips> taps[4] = {taps_at(0), taps_at(1), taps_at(2), taps_at(3)};
    for (std::size_t pixel = begin; pixel < end; ++pixel) {
      const Sums sums = sum(run_.input + pixel * run_.pixel_step + channel_, taps);
      __m512i unsaturated_i32x16[vectors];
      for (std::size_t v = 0; v < vectors; ++v) {
        const __m512 quotient_f32x16 =
            by_reciprocal ? bounded_quotient(by_count.quotient(sums.f32x16[v]), by_scale[v])
                          : bounded(_mm512_div_ps(_mm512_div_ps(sums.f32x16[v], count_f32x16), scale_f32x16_[v]));
        unsaturated_i32x16[v] = to_unsaturated(quotient_f32x16, zero_point_i32x16_[v]);
      }
      store(pixel, unsaturated_i32x16);
    }
  }

  Taps<Element, flips> taps_at(std::size_t v) const noexcept {
    return {run_.parameters, channel_ + (v < vectors ? 16 * v : 0), mask_};
  }

  Sums sum(const Element* input, const Taps<Element, flips> (&taps)[4]) const noexcept {
    Sums sums;
    for (std::size_t v = 0; v < vectors; ++v) sums.f32x16[v] = _mm512_setzero_ps();
    for (std::size_t i = 0; i < run_.taps[0]; ++i) {
      for (std::size_t j = 0; j < run_.taps[1]; ++j) {
        const Element* tap = input + i * run_.tap_steps[0] + j * run_.tap_steps[1];
        for (std::size_t k = 0; k < run_.taps[2]; ++k, tap += run_.tap_steps[2]) {
          for (std::size_t v = 0; v < vectors; ++v) {
            sums.f32x16[v] = _mm512_add_ps(sums.f32x16[v], taps[v].template load<whole>(tap + 16 * v, mask_));
          }
        }
      }
    }
    return sums;
  }

  void store(std::size_t pixel, const __m512i (&unsaturated_i32x16)[vectors]) const noexcept {
    std::uint8_t* output = run_.output + pixel * run_.output_pixel_step + channel_;
    const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(run_.flip));
    if constexpr (vectors == 4) {
      const __m512i codes_u8x64 =
          saturate_in_order(unsaturated_i32x16[0], unsaturated_i32x16[1], unsaturated_i32x16[2], unsaturated_i32x16[3]);
      _mm512_storeu_si512(output, _mm512_xor_si512(codes_u8x64, flip_u8x64));
    } else {
      store_tail(output, mask_, unsaturated_i32x16[0], flip_u8x64);
    }
  }

  const PoolRun<Element>& run_;
  std::size_t channel_;
  __mmask16 mask_;
  bool by_reciprocal_;
  __m512 scale_f32x16_[vectors];
  __m512i zero_point_i32x16_[vectors];
};

// 64 channels of all pixels: by integers, and by sums of floats the vectors that these leave open.
template <class Element, bool flips>
void average_64(const PoolRun<Element>& run, std::size_t channel, IntegerTrials& trials) noexcept {
  const Strip<Element, flips, 4, true> strip(run, channel);
  if constexpr (sizeof(Element) == 1) {
    const IntegerSums<flips> sums(run, channel);
    if (sums.applies() && trials.worth()) {
      for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
        __m512i rounded_i32x16[4];
        const unsigned open = sums.rounded(run.input + pixel * run.pixel_step + channel, rounded_i32x16);
        strip.store_rounded(pixel, rounded_i32x16);
        for (std::size_t v = 0; v < 4; ++v) {
          if ((open >> v & 1) == 0) continue;
          Strip<Element, flips, 1, true>(run, channel + 16 * v).average(pixel, pixel + 1);
          trials.note_open_vector();
        }
        trials.note_trial();
      }
      return;
    }
  }
  strip.average(0, run.pixels);
}

template <class Element, bool flips>
void average_strips(const PoolRun<Element>& run) noexcept {
  std::size_t channel = 0;
  IntegerTrials trials;
  for (; channel + 64 <= run.channels; channel += 64) average_64<Element, flips>(run, channel, trials);
  for (; channel + 16 <= run.channels; channel += 16)
    Strip<Element, flips, 1, true>(run, channel).average(0, run.pixels);
  if (channel < run.channels) Strip<Element, flips, 1, false>(run, channel).average(0, run.pixels);
}

void average_codes(const PoolRun<std::uint8_t>& run) noexcept {
  (run.flip != 0 ? average_strips<std::uint8_t, true> : average_strips<std::uint8_t, false>)(run);
}

constexpr std::size_t kCodesAtOnce = 64;

std::uint64_t code_sums(const std::uint8_t* codes, std::size_t count, std::uint8_t zero_point,
                        std::uint8_t flip) noexcept {
  const __m512i zero_point_u8x64 = _mm512_set1_epi8(static_cast<char>(zero_point));
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  __m512i sums_u64x8 = _mm512_setzero_si512(), magnitudes_u64x8 = sums_u64x8;
  const auto add = [&](__m512i codes_u8x64) noexcept {
    sums_u64x8 = _mm512_add_epi64(sums_u64x8, _mm512_sad_epu8(codes_u8x64, _mm512_setzero_si512()));
    magnitudes_u64x8 = _mm512_add_epi64(magnitudes_u64x8, _mm512_sad_epu8(codes_u8x64, zero_point_u8x64));
  };
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) add(_mm512_xor_si512(_mm512_loadu_si512(codes + i), flip_u8x64));
  if (i < count) {
    const __mmask64 mask = (std::uint64_t{1} << (count - i)) - 1;
    const __m512i codes_u8x64 = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, codes + i), flip_u8x64);
    add(_mm512_mask_mov_epi8(zero_point_u8x64, mask, codes_u8x64));
  }
  const __m512i both_u64x8 = _mm512_add_epi64(sums_u64x8, _mm512_slli_epi64(magnitudes_u64x8, 32));
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(both_u64x8));
}

#include "kernels/pool/planes.inl.h"

}  // namespace

constinit const PoolKernels avx512_vnni::pool = {.dequantize = dequantize,
                                                 .average_codes = average_codes,
                                                 .average_values = average_strips<float, false>,
                                                 .average_planes = average_planes,
                                                 .least_plane = 96};

}  // namespace dmlcpu
