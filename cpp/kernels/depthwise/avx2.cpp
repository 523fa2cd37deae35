// depthwise.h for AVX2, exact: codes are widened to 16 bits and multiplied by vpmaddwd, even and odd bytes apart, as in
// gemm/avx2.cpp. 8 channels of four pixels at a time, whose filters are widened once.
#include <immintrin.h>

#include <cstring>

#include "kernels/depthwise/depthwise.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"

constexpr std::size_t kPixels = 4, kLanes = 8;

struct Widened {
  __m256i even_i16x16, odd_i16x16;
};

inline __m256i load(const void* bytes) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(bytes)); }

inline Widened widen_signed(__m256i codes_x32) noexcept {
  return {_mm256_srai_epi16(_mm256_slli_epi16(codes_x32, 8), 8), _mm256_srai_epi16(codes_x32, 8)};
}
inline Widened widen_unsigned(__m256i codes_x32) noexcept {
  return {_mm256_and_si256(codes_x32, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(codes_x32, 8)};
}

inline __m256i multiply_add(__m256i acc_i32x8, const Widened& codes, const Widened& filter) noexcept {
  const __m256i even = _mm256_madd_epi16(codes.even_i16x16, filter.even_i16x16);
  const __m256i odd = _mm256_madd_epi16(codes.odd_i16x16, filter.odd_i16x16);
  return _mm256_add_epi32(acc_i32x8, _mm256_add_epi32(even, odd));
}

// The sums of up to four pixels, offsets and zero points included.
template <bool filter_has_zero_point>
inline void accumulate(const DepthwiseRun& run, std::size_t channel, std::size_t lanes, std::size_t pixel,
                       std::size_t pixels, __m256i (&sum_i32x8)[kPixels]) noexcept {
  __m256i window_i32x8[kPixels];
  for (std::size_t p = 0; p < kPixels; ++p) {
    sum_i32x8[p] = load(run.offset + channel);
    window_i32x8[p] = _mm256_setzero_si256();
  }
  for (std::size_t group = 0; group < run.groups; ++group) {
    const Widened filter = widen_signed(load(run.filter + (group * lanes + channel) * 4));
    int taps;
    __builtin_memcpy(&taps, run.taps + group * 4, sizeof(taps));
    const Widened ones = widen_signed(_mm256_set1_epi32(taps));
    for (std::size_t p = 0; p < kPixels; ++p) {
      // The last pixels of a row repeat the last one rather than read beyond it.
      const std::uint8_t* activations = run.activations + (pixel + (p < pixels ? p : pixels - 1)) * run.pixel_step;
      const Widened codes = widen_unsigned(load(activations + run.offsets[group] + channel * 4));
      sum_i32x8[p] = multiply_add(sum_i32x8[p], codes, filter);
      if constexpr (filter_has_zero_point) window_i32x8[p] = multiply_add(window_i32x8[p], codes, ones);
    }
  }
  for (std::size_t p = 0; filter_has_zero_point && p < kPixels; ++p) {
    const __m256i filter_i32x8 = load(run.filter_zero_point + channel);
    sum_i32x8[p] = _mm256_sub_epi32(sum_i32x8[p], _mm256_mullo_epi32(filter_i32x8, window_i32x8[p]));
  }
}

template <bool filter_has_zero_point>
void convolve_channels(const DepthwiseRun& run) noexcept {
  const std::size_t lanes = (run.channels + kDepthwiseLanes - 1) / kDepthwiseLanes * kDepthwiseLanes;
  const __m256i zero_point_i32x8 = _mm256_set1_epi32(static_cast<int>(run.output_zero_point));
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.flip));
  for (std::size_t channel = 0; channel < run.channels; channel += kLanes) {
    const __m256 multiplier_f32x8 =
        run.sums == nullptr ? _mm256_loadu_ps(run.multiplier + channel) : _mm256_setzero_ps();
    const std::size_t channels = run.channels - channel < kLanes ? run.channels - channel : kLanes;
    for (std::size_t pixel = 0; pixel < run.pixels; pixel += kPixels) {
      const std::size_t pixels = run.pixels - pixel < kPixels ? run.pixels - pixel : kPixels;
      __m256i sum_i32x8[kPixels];
      accumulate<filter_has_zero_point>(run, channel, lanes, pixel, pixels, sum_i32x8);
      if (run.sums != nullptr) {
        for (std::size_t p = 0; p < pixels; ++p) {
          _mm256_maskstore_epi32(run.sums + (pixel + p) * run.output_pixel_stride + channel, lane_mask(channels),
                                 sum_i32x8[p]);
        }
        continue;
      }
      for (__m256i& sum : sum_i32x8) {
        sum = to_unsaturated(bounded(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), multiplier_f32x8)), zero_point_i32x8);
      }
      alignas(32) std::uint8_t codes[kPixels][kLanes];
      _mm256_store_si256(
          reinterpret_cast<__m256i*>(codes),
          _mm256_xor_si256(saturate_in_order(sum_i32x8[0], sum_i32x8[1], sum_i32x8[2], sum_i32x8[3]), flip_u8x32));
      for (std::size_t p = 0; p < pixels; ++p) {
        std::uint8_t* output = run.output + (pixel + p) * run.output_pixel_stride + channel;
        if (channels == kLanes) {
          std::memcpy(output, codes[p], kLanes);
        } else {
          std::memcpy(output, codes[p], channels);
        }
      }
    }
  }
}

void convolve(const DepthwiseRun& run) noexcept {
  (run.filter_zero_point != nullptr ? convolve_channels<true> : convolve_channels<false>)(run);
}

}  // namespace

constinit const DepthwiseKernels avx2::depthwise = {.convolve = convolve};

}  // namespace dmlcpu
