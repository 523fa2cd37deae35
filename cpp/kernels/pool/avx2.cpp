// pool.h for AVX2: four vectors of 8 channels at a time, the rest one by one.
//
// Bound by arithmetic while the operands are in cache: a tap of 8 codes takes six instructions, a tap of 8 values one,
// and a vector of results two divisions.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/pool/pool.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/codes/scalar.inl.h"
#include "kernels/lanes/avx2.inl.h"
#include "kernels/pool/ordered_planes.inl.h"

// The first count of eight values; all eight, without a mask, if whole.
template <bool whole>
inline __m256 load_first(const float* values, std::size_t count) noexcept {
  return whole ? _mm256_loadu_ps(values) : _mm256_maskload_ps(values, lane_mask(count));
}

template <bool whole>
inline __m128i load_first(const std::uint8_t* codes, std::size_t count) noexcept {
  if (whole) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  std::uint8_t first[8] = {};
  std::memcpy(first, codes, count);
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first));
}

// What a tap adds to the sums of 8 channels: the value of a code, or a value as it is.
template <class Element, bool whole>
class Taps;

template <bool whole>
class Taps<std::uint8_t, whole> {
 public:
  Taps(const PoolParameters& parameters, std::uint8_t flip, std::size_t channel, std::size_t count) noexcept
      : zero_point_f32x8_(load_first<whole>(parameters.input_zero_point + channel, count)),
        scale_f32x8_(load_first<whole>(parameters.input_scale + channel, count)),
        flip_u8x16_(_mm_set1_epi8(static_cast<char>(flip))) {}

  __m256 load(const std::uint8_t* codes, std::size_t count) const noexcept {
    const __m128i codes_u8x16 = _mm_xor_si128(load_first<whole>(codes, count), flip_u8x16_);
    const __m256 codes_f32x8 = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(codes_u8x16));
    return _mm256_mul_ps(_mm256_sub_ps(codes_f32x8, zero_point_f32x8_), scale_f32x8_);
  }

 private:
  __m256 zero_point_f32x8_, scale_f32x8_;
  __m128i flip_u8x16_;
};

template <bool whole>
class Taps<float, whole> {
 public:
  Taps(const PoolParameters&, std::uint8_t, std::size_t, std::size_t) noexcept {}

  __m256 load(const float* values, std::size_t count) const noexcept { return load_first<whole>(values, count); }
};

template <bool whole>
void dequantize_lanes(const PoolValues& run, std::size_t channel, std::size_t count) noexcept {
  const Taps<std::uint8_t, whole> taps(run.parameters, run.flip, channel, count);
  const std::uint8_t* codes = run.codes + channel;
  float* values = run.values + channel;
  for (std::size_t p = 0; p < run.pixels; ++p, codes += run.pixel_step, values += run.value_pixel_step) {
    if constexpr (whole) {
      _mm256_storeu_ps(values, taps.load(codes, count));
    } else {
      _mm256_maskstore_ps(values, lane_mask(count), taps.load(codes, count));
    }
  }
}

void dequantize(const PoolValues& run) noexcept {
  std::size_t channel = 0;
  for (; channel + 8 <= run.channels; channel += 8) dequantize_lanes<true>(run, channel, 8);
  if (channel < run.channels) dequantize_lanes<false>(run, channel, run.channels - channel);
}

// Channels [channel, channel + 8 * vectors) of all pixels; whole says that there are as many.
template <class Element, std::size_t vectors, bool whole>
class Strip {
 public:
  Strip(const PoolRun<Element>& run, std::size_t channel) noexcept
      : run_(run), channel_(channel), count_(run.channels - channel) {
    for (std::size_t v = 0; v < vectors; ++v) {
      scale_f32x8_[v] = load_first<whole>(run.parameters.output_scale + channel + 8 * v, count_);
      zero_point_i32x8_[v] =
          _mm256_cvtps_epi32(load_first<whole>(run.parameters.output_zero_point + channel + 8 * v, count_));
    }
  }

  void average() const noexcept {
    const __m256 count_f32x8 = _mm256_set1_ps(run_.count);
    const Taps<Element, whole> taps[4] = {taps_at(0), taps_at(1), taps_at(2), taps_at(3)};
    for (std::size_t pixel = 0; pixel < run_.pixels; ++pixel) {
      const Sums sums = sum(run_.input + pixel * run_.pixel_step + channel_, taps);
      __m256i unsaturated_i32x8[vectors];
      for (std::size_t v = 0; v < vectors; ++v) {
        const __m256 average_f32x8 = _mm256_div_ps(sums.f32x8[v], count_f32x8);
        unsaturated_i32x8[v] =
            to_unsaturated(bounded(_mm256_div_ps(average_f32x8, scale_f32x8_[v])), zero_point_i32x8_[v]);
      }
      store(pixel, unsaturated_i32x8);
    }
  }

 private:
  struct Sums {
    __m256 f32x8[vectors];
  };

  Taps<Element, whole> taps_at(std::size_t v) const noexcept {
    return {run_.parameters, run_.flip, channel_ + (v < vectors ? 8 * v : 0), count_};
  }

  Sums sum(const Element* input, const Taps<Element, whole> (&taps)[4]) const noexcept {
    Sums sums;
    for (std::size_t v = 0; v < vectors; ++v) sums.f32x8[v] = _mm256_setzero_ps();
    for (std::size_t i = 0; i < run_.taps[0]; ++i) {
      for (std::size_t j = 0; j < run_.taps[1]; ++j) {
        const Element* tap = input + i * run_.tap_steps[0] + j * run_.tap_steps[1];
        for (std::size_t k = 0; k < run_.taps[2]; ++k, tap += run_.tap_steps[2]) {
          for (std::size_t v = 0; v < vectors; ++v) {
            sums.f32x8[v] = _mm256_add_ps(sums.f32x8[v], taps[v].load(tap + 8 * v, count_));
          }
        }
      }
    }
    return sums;
  }

  void store(std::size_t pixel, const __m256i (&unsaturated_i32x8)[vectors]) const noexcept {
    std::uint8_t* output = run_.output + pixel * run_.output_pixel_step + channel_;
    const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run_.flip));
    if constexpr (vectors == 4) {
      const __m256i codes_u8x32 =
          saturate_in_order(unsaturated_i32x8[0], unsaturated_i32x8[1], unsaturated_i32x8[2], unsaturated_i32x8[3]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), _mm256_xor_si256(codes_u8x32, flip_u8x32));
    } else {
      store_tail(output, whole ? 8 : count_, unsaturated_i32x8[0], flip_u8x32);
    }
  }

  const PoolRun<Element>& run_;
  std::size_t channel_, count_;
  __m256 scale_f32x8_[vectors];
  __m256i zero_point_i32x8_[vectors];
};

template <class Element>
void average(const PoolRun<Element>& run) noexcept {
  std::size_t channel = 0;
  for (; channel + 32 <= run.channels; channel += 32) Strip<Element, 4, true>(run, channel).average();
  for (; channel + 8 <= run.channels; channel += 8) Strip<Element, 1, true>(run, channel).average();
  if (channel < run.channels) Strip<Element, 1, false>(run, channel).average();
}

constexpr std::size_t kCodesAtOnce = 32;

std::uint64_t code_sums(const std::uint8_t* codes, std::size_t count, std::uint8_t zero_point,
                        std::uint8_t flip) noexcept {
  const __m256i zero_point_u8x32 = _mm256_set1_epi8(static_cast<char>(zero_point));
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip));
  __m256i sums_u64x4 = _mm256_setzero_si256(), magnitudes_u64x4 = sums_u64x4;
  const auto load = [&](const std::uint8_t* from) noexcept {
    return _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), flip_u8x32);
  };
  const auto add = [&](__m256i codes_u8x32) noexcept {
    sums_u64x4 = _mm256_add_epi64(sums_u64x4, _mm256_sad_epu8(codes_u8x32, _mm256_setzero_si256()));
    magnitudes_u64x4 = _mm256_add_epi64(magnitudes_u64x4, _mm256_sad_epu8(codes_u8x32, zero_point_u8x32));
  };
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) add(load(codes + i));
  if (i < count) {
    const __m256i place_i8x32 =
        _mm256_setr_epi64x(0x0706050403020100, 0x0f0e0d0c0b0a0908, 0x1716151413121110, 0x1f1e1d1c1b1a1918);
    const __m256i is_left_u8x32 = _mm256_cmpgt_epi8(place_i8x32, _mm256_set1_epi8(static_cast<char>(31 - (count - i))));
    add(_mm256_blendv_epi8(zero_point_u8x32, load(codes + count - 32), is_left_u8x32));
  }
  const __m256i both_u64x4 = _mm256_add_epi64(sums_u64x4, _mm256_slli_epi64(magnitudes_u64x4, 32));
  const __m128i halves_u64x2 =
      _mm_add_epi64(_mm256_castsi256_si128(both_u64x4), _mm256_extracti128_si256(both_u64x4, 1));
  return static_cast<std::uint64_t>(
      _mm_cvtsi128_si64(_mm_add_epi64(halves_u64x2, _mm_unpackhi_epi64(halves_u64x2, halves_u64x2))));
}

#include "kernels/pool/planes.inl.h"

}  // namespace

constinit const PoolKernels avx2::pool = {.dequantize = dequantize,
                                          .average_codes = average<std::uint8_t>,
                                          .average_values = average<float>,
                                          .average_planes = average_planes,
                                          .least_plane = 32};

}  // namespace dmlcpu
