// depthwise.h for AVX512-VNNI: one vpdpbusd for four taps of 16 channels, its activations straight from memory. Four
// vectors of sums at a time, which become one of codes: of 64, 32 or 16 channels and as many pixels. Filters stay in
// registers where they are few, so that a pixel costs a load and a product for each group and vector.
#include <immintrin.h>

#include "kernels/depthwise/depthwise.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"

inline __m512i load(const void* bytes) noexcept { return _mm512_loadu_si512(bytes); }

// All pixels of `vectors` x 16 channels from channel on; filters are held in registers if there are held_groups.
template <std::size_t held_groups, std::size_t vectors, bool filter_has_zero_point>
class Strip {
 public:
  Strip(const DepthwiseRun& run, std::size_t channel) noexcept
      : run_(run),
        channel_(channel),
        lanes_((run.channels + 15) / 16 * 16),
        groups_(held_groups == 0 ? run.groups : held_groups),
        zero_point_i16x32_(_mm512_set1_epi16(static_cast<short>(run.output_zero_point))),
        flip_u8x64_(_mm512_set1_epi8(static_cast<char>(run.flip))) {
    for (std::size_t v = 0; v < vectors; ++v) {
      offset_i32x16_[v] = load(run.offset + channel + 16 * v);
      multiplier_f32x16_[v] =
          run.sums == nullptr ? _mm512_loadu_ps(run.multiplier + channel + 16 * v) : _mm512_setzero_ps();
      for (std::size_t group = 0; group < held_groups; ++group) held_x64_[group][v] = load(filter_at(group, v));
    }
  }

  void convolve() const noexcept { converts_within_range() ? convolve_pixels<true>() : convolve_pixels<false>(); }

 private:
  static constexpr std::size_t kPixels = 4 / vectors;
  // Sums of windows of up to 128 taps are below 2^15.
  static constexpr std::size_t kMostGroupsOfPairs = 128 / 4;

  // Whether no conversion of sums to codes overflows.
  bool converts_within_range() const noexcept {
    __mmask16 within_range = kAllLanes;
    for (std::size_t v = 0; v < vectors; ++v) within_range &= below_1(multiplier_f32x16_[v]);
    return within_range == kAllLanes;
  }

  template <bool within_range>
  void convolve_pixels() const noexcept {
    const std::size_t left = run_.channels - channel_;
    const __mmask64 mask = left >= 16 * vectors ? ~__mmask64{0} >> (64 - 16 * vectors) : (__mmask64{1} << left) - 1;
    for (std::size_t pixel = 0; pixel < run_.pixels; pixel += kPixels) {
      const std::size_t pixels = run_.pixels - pixel < kPixels ? run_.pixels - pixel : kPixels;
      __m512i sum_i32x16[kPixels][vectors];
      accumulate(pixel, pixels, sum_i32x16);
      if (run_.sums != nullptr) {
        store_sums(pixel, pixels, mask, sum_i32x16);
      } else {
        store(pixel, pixels, mask, codes<within_range>(sum_i32x16));
      }
    }
  }

  const std::int8_t* filter_at(std::size_t group, std::size_t v) const noexcept {
    return run_.filter + (group * lanes_ + channel_ + 16 * v) * 4;
  }

  // The sums of up to kPixels pixels, offsets and zero points included.
  void accumulate(std::size_t pixel, std::size_t pixels, __m512i (&sum_i32x16)[kPixels][vectors]) const noexcept {
    const std::uint8_t* activations[kPixels];
    for (std::size_t p = 0; p < kPixels; ++p) {
      // The last pixels of a row repeat the last one rather than read beyond it.
      activations[p] = run_.activations + (pixel + (p < pixels ? p : pixels - 1)) * run_.pixel_step + channel_ * 4;
    }
    __m512i window_i32x16[kPixels][vectors];
    for (std::size_t p = 0; p < kPixels; ++p) {
      for (std::size_t v = 0; v < vectors; ++v) {
        sum_i32x16[p][v] = offset_i32x16_[v];
        window_i32x16[p][v] = _mm512_setzero_si512();
      }
    }
    for (std::size_t group = 0; group < groups_; ++group) {
      int taps;
      __builtin_memcpy(&taps, run_.taps + group * 4, sizeof(taps));
      for (std::size_t v = 0; v < vectors; ++v) {
        const __m512i filter_x64 = held_groups == 0 ? load(filter_at(group, v)) : held_x64_[group][v];
        for (std::size_t p = 0; p < kPixels; ++p) {
          const __m512i codes_x64 = load(activations[p] + run_.offsets[group] + v * 64);
          sum_i32x16[p][v] = _mm512_dpbusd_epi32(sum_i32x16[p][v], codes_x64, filter_x64);
          if constexpr (filter_has_zero_point) {
            window_i32x16[p][v] = _mm512_dpbusd_epi32(window_i32x16[p][v], codes_x64, _mm512_set1_epi32(taps));
          }
        }
      }
    }
    for (std::size_t p = 0; p < kPixels; ++p) {
      for (std::size_t v = 0; v < vectors; ++v) {
        if constexpr (filter_has_zero_point) {
          const __m512i filter_i32x16 = load(run_.filter_zero_point + channel_ + 16 * v);
          if (groups_ <= kMostGroupsOfPairs) {
            // As pairs of 16 bits, of which the higher one is 0 in the sum of the window.
            const __m512i minus_i32x16 = _mm512_sub_epi32(_mm512_setzero_si512(), filter_i32x16);
            sum_i32x16[p][v] = _mm512_dpwssd_epi32(sum_i32x16[p][v], minus_i32x16, window_i32x16[p][v]);
          } else {
            sum_i32x16[p][v] =
                _mm512_sub_epi32(sum_i32x16[p][v], _mm512_mullo_epi32(filter_i32x16, window_i32x16[p][v]));
          }
        }
      }
    }
  }

  template <bool within_range>
  __m512i codes(const __m512i (&sum_i32x16)[kPixels][vectors]) const noexcept {
    __m512i rounded_i32x16[4];
    for (std::size_t p = 0; p < kPixels; ++p) {
      for (std::size_t v = 0; v < vectors; ++v) {
        const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_i32x16[p][v]), multiplier_f32x16_[v]);
        rounded_i32x16[p * vectors + v] = _mm512_cvtps_epi32(within_range ? scaled_f32x16 : bounded(scaled_f32x16));
      }
    }
    return _mm512_xor_si512(saturate_in_order(rounded_i32x16[0], rounded_i32x16[1], rounded_i32x16[2],
                                              rounded_i32x16[3], zero_point_i16x32_),
                            flip_u8x64_);
  }

  void store_sums(std::size_t pixel, std::size_t pixels, __mmask64 mask,
                  const __m512i (&sum_i32x16)[kPixels][vectors]) const noexcept {
    for (std::size_t p = 0; p < pixels; ++p) {
      std::int32_t* sums = run_.sums + (pixel + p) * run_.output_pixel_stride + channel_;
      for (std::size_t v = 0; v < vectors; ++v) {
        _mm512_mask_storeu_epi32(sums + 16 * v, static_cast<__mmask16>(mask >> (16 * v)), sum_i32x16[p][v]);
      }
    }
  }

  // 16 * vectors codes for each pixel.
  void store(std::size_t pixel, std::size_t pixels, __mmask64 mask, __m512i codes_u8x64) const noexcept {
    std::uint8_t* output = run_.output + pixel * run_.output_pixel_stride + channel_;
    if constexpr (vectors == 4) {
      _mm512_mask_storeu_epi8(output, mask, codes_u8x64);
    } else if constexpr (vectors == 2) {
      const auto half_mask = static_cast<__mmask32>(mask);
      _mm256_mask_storeu_epi8(output, half_mask, _mm512_castsi512_si256(codes_u8x64));
      if (pixels > 1) {
        _mm256_mask_storeu_epi8(output + run_.output_pixel_stride, half_mask,
                                _mm512_extracti64x4_epi64(codes_u8x64, 1));
      }
    } else {
      const auto quarter_mask = static_cast<__mmask16>(mask);
      const __m128i quarter_u8x16[4] = {_mm512_castsi512_si128(codes_u8x64), _mm512_extracti32x4_epi32(codes_u8x64, 1),
                                        _mm512_extracti32x4_epi32(codes_u8x64, 2),
                                        _mm512_extracti32x4_epi32(codes_u8x64, 3)};
      for (std::size_t p = 0; p < pixels; ++p, output += run_.output_pixel_stride) {
        _mm_mask_storeu_epi8(output, quarter_mask, quarter_u8x16[p]);
      }
    }
  }

  const DepthwiseRun& run_;
  std::size_t channel_, lanes_, groups_;
  __m512i zero_point_i16x32_, flip_u8x64_;
  __m512i offset_i32x16_[vectors], held_x64_[held_groups == 0 ? 1 : held_groups][vectors];
  __m512 multiplier_f32x16_[vectors];
};

template <std::size_t held_groups, bool filter_has_zero_point>
void convolve_strips(const DepthwiseRun& run) noexcept {
  std::size_t channel = 0;
  // Where there are no registers to hold the filters of more channels, four pixels share the loads of one's.
  if constexpr (held_groups != 0 && held_groups <= 3) {
    for (; channel + 64 <= run.channels; channel += 64) {
      Strip<held_groups, 4, filter_has_zero_point>(run, channel).convolve();
    }
    for (; channel + 32 <= run.channels; channel += 32) {
      Strip<held_groups, 2, filter_has_zero_point>(run, channel).convolve();
    }
  }
  for (; channel < run.channels; channel += 16) {
    Strip<held_groups, 1, filter_has_zero_point>(run, channel).convolve();
  }
}

template <bool filter_has_zero_point>
void convolve_groups(const DepthwiseRun& run) noexcept {
  switch (run.groups) {
    case 1:
      return convolve_strips<1, filter_has_zero_point>(run);
    case 2:
      return convolve_strips<2, filter_has_zero_point>(run);
    case 3:
      return convolve_strips<3, filter_has_zero_point>(run);
    case 9:  // a 6x6 filter with stride 2
      return convolve_strips<9, filter_has_zero_point>(run);
    default:
      return convolve_strips<0, filter_has_zero_point>(run);
  }
}

void convolve(const DepthwiseRun& run) noexcept {
  (run.filter_zero_point != nullptr ? convolve_groups<true> : convolve_groups<false>)(run);
}

}  // namespace

constinit const DepthwiseKernels avx512_vnni::depthwise = {.convolve = convolve};

}  // namespace dmlcpu
