// grouped.h for AVX2, exact: codes are widened to 16 bits and multiplied by vpmaddwd, even and odd bytes apart, as in
// gemm/avx2.cpp; the filter is packed so. Where its pairs fit, vpmaddubsw multiplies codes as they are. Blocks of 32
// channels, in groups of 4 or 8, at two pixels: 8 accumulators.
#include <immintrin.h>

#include <cstring>

#include "kernels/grouped/grouped.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"

constexpr std::size_t kLanes = 8, kPixels = 2, kVectors = kGroupedLaneChannels;
constexpr std::size_t kBlock = kLanes * kGroupedLaneChannels;

struct Widened {
  __m256i even_i16x16, odd_i16x16;
};

inline __m256i load(const void* bytes) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(bytes)); }

inline Widened widen_unsigned(__m256i codes_x32) noexcept {
  return {_mm256_and_si256(codes_x32, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(codes_x32, 8)};
}

// Lane l becomes that of l ^ exchange.
template <std::size_t exchange>
inline __m256i exchanged(__m256i lanes_x32) noexcept {
  if constexpr (exchange == 0) return lanes_x32;
  return _mm256_shuffle_epi32(lanes_x32,
                              (0 ^ exchange) | (1 ^ exchange) << 2 | (2 ^ exchange) << 4 | (3 ^ exchange) << 6);
}

// Keeps the compiler from adding up the products of several exchanges before they meet their sum, which takes more
// registers than there are.
inline void settle(__m256i& sum_i32x8) noexcept { __asm__("" : "+x"(sum_i32x8)); }

// One block of channels of a row of pixels.
template <std::size_t group_lanes, bool filter_has_zero_point, bool is_widened, bool ends_in_sums>
class Block {
 public:
  Block(const GroupedRun& run, std::size_t channel) noexcept
      : run_(run),
        channel_(channel),
        channels_(run.channels - channel < kBlock ? run.channels - channel : kBlock),
        filter_(run.filter + channel * run.taps * group_lanes * kVectors * kCodeBytes) {}

  template <std::size_t pixels>
  void convolve(std::size_t pixel) const noexcept {
    const std::uint8_t* activations = run_.activations + pixel * run_.pixel_step + channel_;
    __m256i sum_i32x8[pixels][kVectors], window_i32x8[pixels];
    for (std::size_t p = 0; p < pixels; ++p) {
      for (std::size_t t = 0; t < kVectors; ++t) sum_i32x8[p][t] = load(run_.offset + channel_ + t * kLanes);
      window_i32x8[p] = _mm256_setzero_si256();
    }
    const std::uint8_t* filter = filter_;
    for (std::size_t tap = 0; tap < run_.taps; ++tap) {
      const std::uint8_t* codes = activations + run_.offsets[tap];
      multiply_add<0>(codes, filter, sum_i32x8);
      if constexpr (group_lanes > 1) multiply_add<1>(codes, filter, sum_i32x8);
      filter += group_lanes * kVectors * kBlock * kCodeBytes;
      for (std::size_t p = 0; filter_has_zero_point && p < pixels; ++p) {
        const Widened widened = widen_unsigned(load(codes + p * run_.pixel_step));
        const __m256i pairs_i16x16 = _mm256_add_epi16(widened.even_i16x16, widened.odd_i16x16);
        window_i32x8[p] = _mm256_add_epi32(window_i32x8[p], _mm256_madd_epi16(pairs_i16x16, _mm256_set1_epi16(1)));
      }
    }
    for (std::size_t p = 0; p < pixels; ++p) {
      if constexpr (filter_has_zero_point) subtract_window(window_i32x8[p], sum_i32x8[p]);
      const std::size_t element = (pixel + p) * run_.output_pixel_stride + channel_;
      if constexpr (ends_in_sums) {
        store_sums(run_.sums + element, sum_i32x8[p]);
      } else {
        store(run_.output + element, codes_of(sum_i32x8[p]));
      }
    }
  }

 private:
  static constexpr std::size_t kCodeBytes = is_widened ? 2 : 1;  // of the filter

  // The products of one exchange.
  template <std::size_t exchange, std::size_t pixels>
  void multiply_add(const std::uint8_t* codes, const std::uint8_t* filter,
                    __m256i (&sum_i32x8)[pixels][kVectors]) const noexcept {
    __m256i codes_x32[pixels];
    for (std::size_t p = 0; p < pixels; ++p) codes_x32[p] = exchanged<exchange>(load(codes + p * run_.pixel_step));
    filter += exchange * kVectors * kBlock * kCodeBytes;
    if constexpr (is_widened) {
      add_widened(codes_x32, filter, sum_i32x8);
    } else {
      add_pairs(codes_x32, filter, sum_i32x8);
    }
  }

  template <std::size_t pixels>
  static void add_widened(const __m256i (&codes_x32)[pixels], const std::uint8_t* filter,
                          __m256i (&sum_i32x8)[pixels][kVectors]) noexcept {
    Widened codes_i16x32[pixels];
    for (std::size_t p = 0; p < pixels; ++p) codes_i16x32[p] = widen_unsigned(codes_x32[p]);
    for (std::size_t t = 0; t < kVectors; ++t, filter += kBlock * 2) {
      const __m256i even_i16x16 = load(filter), odd_i16x16 = load(filter + kBlock);
      for (std::size_t p = 0; p < pixels; ++p) {
        const __m256i even_i32x8 = _mm256_madd_epi16(codes_i16x32[p].even_i16x16, even_i16x16);
        const __m256i odd_i32x8 = _mm256_madd_epi16(codes_i16x32[p].odd_i16x16, odd_i16x16);
        sum_i32x8[p][t] = _mm256_add_epi32(sum_i32x8[p][t], _mm256_add_epi32(even_i32x8, odd_i32x8));
        settle(sum_i32x8[p][t]);
      }
    }
  }

  template <std::size_t pixels>
  static void add_pairs(const __m256i (&codes_x32)[pixels], const std::uint8_t* filter,
                        __m256i (&sum_i32x8)[pixels][kVectors]) noexcept {
    for (std::size_t t = 0; t < kVectors; ++t, filter += kBlock) {
      const __m256i filter_x32 = load(filter);
      for (std::size_t p = 0; p < pixels; ++p) {
        const __m256i pairs_i16x16 = _mm256_maddubs_epi16(codes_x32[p], filter_x32);
        sum_i32x8[p][t] = _mm256_add_epi32(sum_i32x8[p][t], _mm256_madd_epi16(pairs_i16x16, _mm256_set1_epi16(1)));
        settle(sum_i32x8[p][t]);
      }
    }
  }

  // Each lane has the sum of its own four channels, and needs that of its group.
  void subtract_window(__m256i window_i32x8, __m256i (&sum_i32x8)[kVectors]) const noexcept {
    if constexpr (group_lanes > 1) window_i32x8 = _mm256_add_epi32(window_i32x8, exchanged<1>(window_i32x8));
    for (std::size_t t = 0; t < kVectors; ++t) {
      const __m256i zero_point_i32x8 = load(run_.filter_zero_point + channel_ + t * kLanes);
      sum_i32x8[t] = _mm256_sub_epi32(sum_i32x8[t], _mm256_mullo_epi32(zero_point_i32x8, window_i32x8));
    }
  }

  // The zero point is added after the first pack: what saturates there does so in the end as well.
  __m256i codes_of(const __m256i (&sum_i32x8)[kVectors]) const noexcept {
    __m256i rounded_i32x8[kVectors];
    for (std::size_t t = 0; t < kVectors; ++t) {
      const __m256 multiplier_f32x8 = _mm256_loadu_ps(run_.multiplier + channel_ + t * kLanes);
      rounded_i32x8[t] = _mm256_cvtps_epi32(bounded(_mm256_mul_ps(_mm256_cvtepi32_ps(sum_i32x8[t]), multiplier_f32x8)));
    }
    const __m256i zero_point_i16x16 = _mm256_set1_epi16(static_cast<short>(run_.output_zero_point));
    const __m256i low_i16x16 =
        _mm256_adds_epi16(_mm256_packs_epi32(rounded_i32x8[0], rounded_i32x8[1]), zero_point_i16x16);
    const __m256i high_i16x16 =
        _mm256_adds_epi16(_mm256_packs_epi32(rounded_i32x8[2], rounded_i32x8[3]), zero_point_i16x16);
    // Within 128 bits, byte 4 * t + lane goes to 4 * lane + t.
    const __m256i order_u8x32 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return _mm256_xor_si256(_mm256_shuffle_epi8(_mm256_packus_epi16(low_i16x16, high_i16x16), order_u8x32),
                            _mm256_set1_epi8(static_cast<char>(run_.flip)));
  }

  void store(std::uint8_t* output, __m256i codes_u8x32) const noexcept {
    if (channels_ == kBlock) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), codes_u8x32);
    } else {
      std::uint8_t codes[kBlock];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), codes_u8x32);
      std::memcpy(output, codes, channels_);
    }
  }

  // The four sums of a lane become neighbours within 128 bits, which are lane i and lane i + 4.
  void store_sums(std::int32_t* sums, const __m256i (&sum_i32x8)[kVectors]) const noexcept {
    const __m256i low_01 = _mm256_unpacklo_epi32(sum_i32x8[0], sum_i32x8[1]);
    const __m256i low_23 = _mm256_unpacklo_epi32(sum_i32x8[2], sum_i32x8[3]);
    const __m256i high_01 = _mm256_unpackhi_epi32(sum_i32x8[0], sum_i32x8[1]);
    const __m256i high_23 = _mm256_unpackhi_epi32(sum_i32x8[2], sum_i32x8[3]);
    const __m256i lanes_i32x8[4] = {_mm256_unpacklo_epi64(low_01, low_23), _mm256_unpackhi_epi64(low_01, low_23),
                                    _mm256_unpacklo_epi64(high_01, high_23), _mm256_unpackhi_epi64(high_01, high_23)};
    const std::size_t lanes = channels_ / kGroupedLaneChannels;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const __m256i pair = lanes_i32x8[lane % 4];
      _mm_storeu_si128(reinterpret_cast<__m128i*>(sums + lane * kGroupedLaneChannels),
                       lane < 4 ? _mm256_castsi256_si128(pair) : _mm256_extracti128_si256(pair, 1));
    }
  }

  const GroupedRun& run_;
  std::size_t channel_, channels_;
  const std::uint8_t* filter_;
};

template <std::size_t group_lanes, bool filter_has_zero_point, bool is_widened, bool ends_in_sums>
void convolve_blocks(const GroupedRun& run) noexcept {
  for (std::size_t channel = 0; channel < run.channels; channel += kBlock) {
    const Block<group_lanes, filter_has_zero_point, is_widened, ends_in_sums> block(run, channel);
    std::size_t pixel = 0;
    for (; pixel + kPixels <= run.pixels; pixel += kPixels) block.template convolve<kPixels>(pixel);
    if (pixel < run.pixels) block.template convolve<1>(pixel);
  }
}

template <bool filter_has_zero_point, bool is_widened>
void convolve_groups(const GroupedRun& run) noexcept {
  if (run.sums == nullptr) {
    (run.group_lanes == 1 ? convolve_blocks<1, filter_has_zero_point, is_widened, false>
                          : convolve_blocks<2, filter_has_zero_point, is_widened, false>)(run);
  } else {
    (run.group_lanes == 1 ? convolve_blocks<1, filter_has_zero_point, is_widened, true>
                          : convolve_blocks<2, filter_has_zero_point, is_widened, true>)(run);
  }
}

void convolve(const GroupedRun& run) noexcept {
  if (run.filter_zero_point != nullptr) {
    (run.pairs_fit ? convolve_groups<true, false> : convolve_groups<true, true>)(run);
  } else {
    (run.pairs_fit ? convolve_groups<false, false> : convolve_groups<false, true>)(run);
  }
}

}  // namespace

constinit const GroupedKernels avx2::grouped = {.lanes = kLanes,
                                                .most_group_lanes = 2,
                                                .pixels_of_filter = kPixels,
                                                .widened = true,
                                                .groups_of_block = 1.0,
                                                .groups_of_block_by_four = 0.0,
                                                .convolve = convolve};

}  // namespace dmlcpu
