// depthwise.h for AVX2, exact: 16 channels of four pixels at a time, whose sums are the 8 accumulators.
//
// vpmaddubsw adds two products in 16 bits. Where the codes of no two neighbouring taps of a group are too large for
// that, four taps of 8 lanes are three operations; otherwise codes are widened to 16 bits, even and odd bytes apart, as
// in gemm/avx2.cpp, which takes six. Which groups are which is found once for all pixels.
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/depthwise/depthwise.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/codes/pair_sums_avx2.inl.h"

constexpr std::size_t kLanes = 8, kMostPixels = 4;
// The windows that filters with zero points take the sums of have accumulators, too.
template <bool has_zero_point>
constexpr std::size_t kPixels = has_zero_point ? kMostPixels / 2 : kMostPixels;

inline __m256i load(const void* bytes) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(bytes)); }

// Channels that are multiplied together, one vector or two.
struct Block {
  std::size_t channel, count;
  const std::int8_t* filter;  // of the first group
  std::size_t group_bytes;    // from a group's filter to the next one's
};

// Groups whose products vpmaddubsw adds up without saturation; groups behind these are widened.
class SmallGroups {
 public:
  template <std::size_t halves>
  void find(const Block& block, std::size_t groups) noexcept {
    count_ = groups < kMostGroups ? groups : kMostGroups;
    for (std::size_t group = 0; group < count_; ++group) {
      const std::int8_t* filter = block.filter + group * block.group_bytes;
      __m256i larger_i16x16 = _mm256_setzero_si256();
      for (std::size_t half = 0; half < halves; ++half) {
        larger_i16x16 = _mm256_max_epi16(larger_i16x16, PairSums(load(filter + 32 * half)).larger());
      }
      are_small_[group] = all_at_most(larger_i16x16, PairSums::kMost);
    }
  }
  bool operator[](std::size_t group) const noexcept { return group < count_ && are_small_[group]; }

 private:
  static constexpr std::size_t kMostGroups = 512;

  bool are_small_[kMostGroups];
  std::size_t count_;
};

// Keeps the compiler from loading codes before it is known which products they are for, as registers are few.
inline const std::uint8_t* hide(const std::uint8_t* codes) noexcept {
  __asm__("" : "+r"(codes));
  return codes;
}

inline __m256i widen_pairs(__m256i sums_i16x16) noexcept {
  return _mm256_madd_epi16(sums_i16x16, _mm256_set1_epi16(1));
}

template <std::size_t pixels, std::size_t halves>
using Sums = __m256i[pixels][halves];

// Adds a group of small codes; of windows the taps that are there, whatever the filter's codes are.
template <std::size_t pixels, std::size_t halves>
inline __attribute__((always_inline)) void add_small(const std::uint8_t* activations, std::size_t pixel_step,
                                                     const __m256i (&filter_i8x32)[halves],
                                                     Sums<pixels, halves>& sum_i32x8) noexcept {
  activations = hide(activations);
#pragma GCC unroll 4
  for (std::size_t p = 0; p < pixels; ++p) {
#pragma GCC unroll 2
    for (std::size_t half = 0; half < halves; ++half) {
      const __m256i codes_u8x32 = load(activations + p * pixel_step + 32 * half);
      const __m256i sums_i16x16 = _mm256_maddubs_epi16(codes_u8x32, filter_i8x32[half]);
      sum_i32x8[p][half] = _mm256_add_epi32(sum_i32x8[p][half], widen_pairs(sums_i16x16));
    }
  }
}

// The same of any codes.
template <std::size_t pixels, std::size_t halves>
inline __attribute__((always_inline)) void add_widened(const std::uint8_t* activations, std::size_t pixel_step,
                                                       const __m256i (&filter_i8x32)[halves],
                                                       Sums<pixels, halves>& sum_i32x8) noexcept {
  activations = hide(activations);
#pragma GCC unroll 2
  for (std::size_t half = 0; half < halves; ++half) {
    const __m256i even_i16x16 = _mm256_srai_epi16(_mm256_slli_epi16(filter_i8x32[half], 8), 8);
    const __m256i odd_i16x16 = _mm256_srai_epi16(filter_i8x32[half], 8);
#pragma GCC unroll 4
    for (std::size_t p = 0; p < pixels; ++p) {
      const __m256i codes_u8x32 = load(activations + p * pixel_step + 32 * half);
      const __m256i even_i32x8 = _mm256_madd_epi16(_mm256_and_si256(codes_u8x32, _mm256_set1_epi16(0xff)), even_i16x16);
      const __m256i odd_i32x8 = _mm256_madd_epi16(_mm256_srli_epi16(codes_u8x32, 8), odd_i16x16);
      sum_i32x8[p][half] = _mm256_add_epi32(sum_i32x8[p][half], _mm256_add_epi32(even_i32x8, odd_i32x8));
    }
  }
}

// The sums of neighbouring pixels, offsets and zero points included.
template <bool has_zero_point, std::size_t pixels, std::size_t halves>
inline __attribute__((always_inline)) void accumulate(const DepthwiseRun& run, const Block& block,
                                                      const SmallGroups& small, std::size_t pixel,
                                                      Sums<pixels, halves>& sum_i32x8) noexcept {
  Sums<pixels, halves> window_i32x8;
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t half = 0; half < halves; ++half) {
      sum_i32x8[p][half] = load(run.offset + block.channel + kLanes * half);
      window_i32x8[p][half] = _mm256_setzero_si256();
    }
  }
  const std::uint8_t* first = run.activations + pixel * run.pixel_step + 4 * block.channel;
  const std::int8_t* filter = block.filter;
  for (std::size_t group = 0; group < run.groups; ++group, filter += block.group_bytes) {
    const std::uint8_t* activations = first + run.offsets[group];
    __m256i filter_i8x32[halves];
    for (std::size_t half = 0; half < halves; ++half) filter_i8x32[half] = load(filter + 32 * half);
    small[group] ? add_small<pixels, halves>(activations, run.pixel_step, filter_i8x32, sum_i32x8)
                 : add_widened<pixels, halves>(activations, run.pixel_step, filter_i8x32, sum_i32x8);
    if constexpr (has_zero_point) {
      int taps;
      __builtin_memcpy(&taps, run.taps + group * 4, sizeof(taps));
      __m256i taps_i8x32[halves];
      for (__m256i& of_half : taps_i8x32) of_half = _mm256_set1_epi32(taps);
      add_small<pixels, halves>(activations, run.pixel_step, taps_i8x32, window_i32x8);
    }
  }
  for (std::size_t p = 0; has_zero_point && p < pixels; ++p) {
    for (std::size_t half = 0; half < halves; ++half) {
      const __m256i filter_i32x8 = load(run.filter_zero_point + block.channel + kLanes * half);
      sum_i32x8[p][half] =
          _mm256_sub_epi32(sum_i32x8[p][half], _mm256_mullo_epi32(filter_i32x8, window_i32x8[p][half]));
    }
  }
}

template <std::size_t pixels, std::size_t halves>
inline __attribute__((always_inline)) void store_sums(const DepthwiseRun& run, const Block& block, std::size_t pixel,
                                                      const Sums<pixels, halves>& sum_i32x8) noexcept {
  for (std::size_t p = 0; p < pixels; ++p) {
    std::int32_t* sums = run.sums + (pixel + p) * run.output_pixel_stride + block.channel;
    for (std::size_t half = 0; half < halves; ++half) {
      _mm256_maskstore_epi32(sums + kLanes * half, lane_mask(block.count - kLanes * half), sum_i32x8[p][half]);
    }
  }
}

template <bool bounds, std::size_t pixels, std::size_t halves>
inline __attribute__((always_inline)) void store_codes(const DepthwiseRun& run, const Block& block,
                                                       const __m256 (&multiplier_f32x8)[halves], std::size_t pixel,
                                                       const Sums<pixels, halves>& sum_i32x8) noexcept {
  const __m256i zero_point_i16x16 = _mm256_set1_epi16(static_cast<short>(run.output_zero_point));
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(run.flip));
  constexpr std::size_t kVectors = pixels * halves;
  // The last one stands for those behind it.
  const auto rounded = [&](std::size_t vector) {
    const std::size_t i = vector < kVectors ? vector : kVectors - 1;
    const __m256 sum_f32x8 = _mm256_cvtepi32_ps(sum_i32x8[i / halves][i % halves]);
    const __m256 scaled_f32x8 = _mm256_mul_ps(sum_f32x8, multiplier_f32x8[i % halves]);
    return _mm256_cvtps_epi32(bounds ? bounded(scaled_f32x8) : scaled_f32x8);
  };
  const auto store = [&](std::size_t p, __m128i codes_u8x16) {
    if (p >= pixels) return;
    std::uint8_t* output = run.output + (pixel + p) * run.output_pixel_stride + block.channel;
    if (block.count != halves * kLanes) {
      store_first(output, block.count, codes_u8x16);
    } else if constexpr (halves == 2) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(output), codes_u8x16);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(output), codes_u8x16);
    }
  };
#pragma GCC unroll 2
  for (std::size_t i = 0; i < kVectors; i += 4) {
    const __m256i first_i16x16 = _mm256_packs_epi32(rounded(i), rounded(i + 1));
    const __m256i second_i16x16 = _mm256_packs_epi32(rounded(i + 2), rounded(i + 3));
    const __m256i codes_u8x32 =
        _mm256_xor_si256(codes_in_order(first_i16x16, second_i16x16, zero_point_i16x16), flip_u8x32);
    const __m128i low_u8x16 = _mm256_castsi256_si128(codes_u8x32),
                  high_u8x16 = _mm256_extracti128_si256(codes_u8x32, 1);
    store(i / halves, low_u8x16);
    if constexpr (halves == 2) {
      store(i / 2 + 1, high_u8x16);
    } else {
      store(i + 1, _mm_unpackhi_epi64(low_u8x16, low_u8x16));
      store(i + 2, high_u8x16);
      store(i + 3, _mm_unpackhi_epi64(high_u8x16, high_u8x16));
    }
  }
}

// So many times `pixels` neighbours.
template <bool has_zero_point, std::size_t pixels, std::size_t halves>
void convolve_pixels(const DepthwiseRun& run, const Block& block, const SmallGroups& small, std::size_t first,
                     std::size_t times) noexcept {
  __m256 multiplier_f32x8[halves] = {};
  bool needs_bounds = false;  // whether scaled sums may exceed the range of integers
  for (std::size_t half = 0; run.sums == nullptr && half < halves; ++half) {
    multiplier_f32x8[half] = _mm256_loadu_ps(run.multiplier + block.channel + kLanes * half);
    needs_bounds |= !all_below_1(multiplier_f32x8[half]);
  }
  for (std::size_t pixel = first; times != 0; --times, pixel += pixels) {
    Sums<pixels, halves> sum_i32x8;
    accumulate<has_zero_point, pixels, halves>(run, block, small, pixel, sum_i32x8);
    if (run.sums != nullptr) {
      store_sums<pixels, halves>(run, block, pixel, sum_i32x8);
    } else if (needs_bounds) {
      store_codes<true, pixels, halves>(run, block, multiplier_f32x8, pixel, sum_i32x8);
    } else {
      store_codes<false, pixels, halves>(run, block, multiplier_f32x8, pixel, sum_i32x8);
    }
  }
}

struct PixelsFunctions {
  void (*of_pixels[kMostPixels])(const DepthwiseRun& run, const Block& block, const SmallGroups& small,
                                 std::size_t first, std::size_t times) noexcept;
};
template <bool has_zero_point, std::size_t halves, std::size_t... index>
constexpr PixelsFunctions pixels_functions(std::index_sequence<index...>) noexcept {
  return {{convolve_pixels<has_zero_point, index + 1, halves>...}};
}

template <bool has_zero_point, std::size_t halves>
void convolve_block(const DepthwiseRun& run, const Block& block, SmallGroups& small) noexcept {
  constexpr std::size_t kMost = kPixels<has_zero_point>;
  constexpr PixelsFunctions kFunctions = pixels_functions<has_zero_point, halves>(std::make_index_sequence<kMost>());
  small.find<halves>(block, run.groups);
  const std::size_t left = run.pixels % kMost;
  kFunctions.of_pixels[kMost - 1](run, block, small, 0, run.pixels / kMost);
  if (left != 0) kFunctions.of_pixels[left - 1](run, block, small, run.pixels - left, 1);
}

template <bool has_zero_point>
void convolve_channels(const DepthwiseRun run) noexcept {  // a copy: bytes of output could alias the original
  const std::size_t lanes = (run.channels + kDepthwiseLanes - 1) / kDepthwiseLanes * kDepthwiseLanes;
  SmallGroups small;
  for (std::size_t channel = 0; channel < run.channels; channel += 2 * kLanes) {
    const std::size_t left = run.channels - channel;
    const Block block = {.channel = channel,
                         .count = left < 2 * kLanes ? left : 2 * kLanes,
                         .filter = run.filter + 4 * channel,
                         .group_bytes = 4 * lanes};
    block.count > kLanes ? convolve_block<has_zero_point, 2>(run, block, small)
                         : convolve_block<has_zero_point, 1>(run, block, small);
  }
}

void convolve(const DepthwiseRun& run) noexcept {
  (run.filter_zero_point != nullptr ? convolve_channels<true> : convolve_channels<false>)(run);
}

}  // namespace

constinit const DepthwiseKernels avx2::depthwise = {.convolve = convolve};

}  // namespace dmlcpu
