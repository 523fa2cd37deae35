// grouped.h for AVX512-VNNI: blocks of 64 channels, one vpdpbusd for four input channels of a tap in 16 lanes. Up to
// four pixels share each vector of the filter: 8 loads for 16 products, whose 16 accumulators hide their latency. The
// four sums of a lane become neighbouring codes by packs within 128 bits and one vpshufb: a pixel's block is one vector
// of codes. Bound by the two ports that products, exchanges and requantization share.
#include <immintrin.h>

#include "kernels/grouped/grouped.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"

constexpr std::size_t kLanes = 16, kPixels = 4, kVectors = kGroupedLaneChannels;
constexpr std::size_t kBlock = kLanes * kGroupedLaneChannels;

// Sums of 16 lanes. As __m512i, whose elements have 64 bits, GCC would copy each of them at every step of a loop.
using Sums = int __attribute__((vector_size(64)));

inline __m512i load(const void* bytes) noexcept { return _mm512_loadu_si512(bytes); }

// Lane l becomes that of l ^ exchange.
template <std::size_t exchange>
inline __m512i exchanged(__m512i lanes_x64) noexcept {
  if constexpr (exchange == 0) return lanes_x64;
  constexpr int order = (0 ^ exchange) | (1 ^ exchange) << 2 | (2 ^ exchange) << 4 | (3 ^ exchange) << 6;
  return _mm512_shuffle_epi32(lanes_x64, static_cast<_MM_PERM_ENUM>(order));
}

inline Sums add_products(Sums sum_i32x16, __m512i codes_x64, __m512i filter_x64) noexcept {
  return reinterpret_cast<Sums>(_mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sum_i32x16), codes_x64, filter_x64));
}

// What sums become: codes, by conversions of which some may overflow or none, or they stay.
enum class End : std::uint8_t { codes, codes_within_range, sums };

// Whether no conversion of sums to codes overflows.
inline bool converts_within_range(const GroupedRun& run) noexcept {
  __mmask16 within_range = kAllLanes;
  for (std::size_t i = 0; i < run.channels; i += kBlock) {
    for (std::size_t t = 0; t < kVectors; ++t)
      within_range &= below_1(_mm512_loadu_ps(run.multiplier + i + t * kLanes));
  }
  return within_range == kAllLanes;
}

// Writes the sums of a block's channels: the four of a lane become neighbours within 128 bits, of which lane i has the
// lanes i, i + 4, i + 8 and i + 12. A call, so that it takes no registers where codes are made; sums are passed in
// memory, since a function that is passed vectors leaves their upper halves as they are, and its caller may then, too.
__attribute__((noinline)) void store_sums(std::int32_t* sums, std::size_t channels,
                                          const Sums (&sum_i32x16)[kVectors]) noexcept {
  const auto a_i32x16 = reinterpret_cast<__m512i>(sum_i32x16[0]), b_i32x16 = reinterpret_cast<__m512i>(sum_i32x16[1]);
  const auto c_i32x16 = reinterpret_cast<__m512i>(sum_i32x16[2]), d_i32x16 = reinterpret_cast<__m512i>(sum_i32x16[3]);
  const __m512i low_01 = _mm512_unpacklo_epi32(a_i32x16, b_i32x16), low_23 = _mm512_unpacklo_epi32(c_i32x16, d_i32x16);
  const __m512i high_01 = _mm512_unpackhi_epi32(a_i32x16, b_i32x16),
                high_23 = _mm512_unpackhi_epi32(c_i32x16, d_i32x16);
  const __m512i lane_0 = _mm512_unpacklo_epi64(low_01, low_23), lane_1 = _mm512_unpackhi_epi64(low_01, low_23);
  const __m512i lane_2 = _mm512_unpacklo_epi64(high_01, high_23), lane_3 = _mm512_unpackhi_epi64(high_01, high_23);
  const __m512i even_01 = _mm512_shuffle_i32x4(lane_0, lane_1, 0x88),
                odd_01 = _mm512_shuffle_i32x4(lane_0, lane_1, 0xdd);
  const __m512i even_23 = _mm512_shuffle_i32x4(lane_2, lane_3, 0x88),
                odd_23 = _mm512_shuffle_i32x4(lane_2, lane_3, 0xdd);
  const __m512i quarter_i32x16[4] = {
      _mm512_shuffle_i32x4(even_01, even_23, 0x88), _mm512_shuffle_i32x4(odd_01, odd_23, 0x88),
      _mm512_shuffle_i32x4(even_01, even_23, 0xdd), _mm512_shuffle_i32x4(odd_01, odd_23, 0xdd)};
  for (std::size_t i = 0; i * kLanes < channels; ++i) {
    const std::size_t left = channels - i * kLanes;
    const auto mask = static_cast<__mmask16>(left >= kLanes ? 0xffff : (1U << left) - 1);
    _mm512_mask_storeu_epi32(sums + i * kLanes, mask, quarter_i32x16[i]);
  }
}

template <std::size_t group_lanes, bool filter_has_zero_point, End end>
class Block {
 public:
  Block(const GroupedRun& run, std::size_t channel) noexcept
      : run_(run),
        channel_(channel),
        filter_(run.filter + channel * run.taps * group_lanes * kVectors),
        zero_point_i16x32_(_mm512_set1_epi16(static_cast<short>(run.output_zero_point))),
        flip_u8x64_(_mm512_set1_epi8(static_cast<char>(run.flip))),
        mask_(run.channels - channel >= kBlock ? ~__mmask64{0} : (__mmask64{1} << (run.channels - channel)) - 1) {
    for (std::size_t t = 0; t < kVectors; ++t) {
      offset_i32x16_[t] = load(run.offset + channel + t * kLanes);
      multiplier_f32x16_[t] =
          end != End::sums ? _mm512_loadu_ps(run.multiplier + channel + t * kLanes) : _mm512_setzero_ps();
    }
  }

  template <std::size_t pixels>
  void convolve(std::size_t pixel) const noexcept {
    const std::uint8_t* activations = run_.activations + pixel * run_.pixel_step + channel_;
    Sums sum_i32x16[pixels][kVectors];
    Sums window_i32x16[pixels];
    for (std::size_t p = 0; p < pixels; ++p) {
      for (std::size_t t = 0; t < kVectors; ++t) sum_i32x16[p][t] = reinterpret_cast<Sums>(offset_i32x16_[t]);
      window_i32x16[p] = Sums{};
    }
    const std::uint8_t* filter = filter_;
    std::size_t tap = 0;
    do {
      __m512i codes_x64[pixels];
      for (std::size_t p = 0; p < pixels; ++p) {
        codes_x64[p] = load(activations + p * run_.pixel_step + run_.offsets[tap]);
        if constexpr (filter_has_zero_point) {
          window_i32x16[p] = add_products(window_i32x16[p], codes_x64[p], _mm512_set1_epi8(1));
        }
      }
      multiply_add<0>(codes_x64, filter, sum_i32x16);
      if constexpr (group_lanes > 1) multiply_add<1>(codes_x64, filter, sum_i32x16);
      if constexpr (group_lanes > 2) {
        multiply_add<2>(codes_x64, filter, sum_i32x16);
        multiply_add<3>(codes_x64, filter, sum_i32x16);
      }
      filter += group_lanes * kVectors * kBlock;
    } while (++tap != run_.taps);
    for (std::size_t p = 0; p < pixels; ++p) {
      if constexpr (filter_has_zero_point) subtract_window(reinterpret_cast<__m512i>(window_i32x16[p]), sum_i32x16[p]);
      const std::size_t element = (pixel + p) * run_.output_pixel_stride + channel_;
      if constexpr (end != End::sums) {
        _mm512_mask_storeu_epi8(run_.output + element, mask_, codes(sum_i32x16[p]));
      } else {
        const std::size_t left = run_.channels - channel_;
        store_sums(run_.sums + element, left < kBlock ? left : kBlock, sum_i32x16[p]);
      }
    }
  }

 private:
  // The products of one exchange.
  template <std::size_t exchange, std::size_t pixels>
  static void multiply_add(const __m512i (&codes_x64)[pixels], const std::uint8_t* filter,
                           Sums (&sum_i32x16)[pixels][kVectors]) noexcept {
    __m512i filter_x64[kVectors];
    for (std::size_t t = 0; t < kVectors; ++t) filter_x64[t] = load(filter + (exchange * kVectors + t) * kBlock);
    for (std::size_t p = 0; p < pixels; ++p) {
      const __m512i lanes_x64 = exchanged<exchange>(codes_x64[p]);
      for (std::size_t t = 0; t < kVectors; ++t) {
        sum_i32x16[p][t] = add_products(sum_i32x16[p][t], lanes_x64, filter_x64[t]);
      }
    }
  }

  // Each lane has the sum of its own four channels, and needs that of its group.
  void subtract_window(__m512i window_i32x16, Sums (&sum_i32x16)[kVectors]) const noexcept {
    if constexpr (group_lanes > 1) window_i32x16 = _mm512_add_epi32(window_i32x16, exchanged<1>(window_i32x16));
    if constexpr (group_lanes > 2) window_i32x16 = _mm512_add_epi32(window_i32x16, exchanged<2>(window_i32x16));
    for (std::size_t t = 0; t < kVectors; ++t) {
      const __m512i zero_point_i32x16 = load(run_.filter_zero_point + channel_ + t * kLanes);
      sum_i32x16[t] = reinterpret_cast<Sums>(_mm512_sub_epi32(reinterpret_cast<__m512i>(sum_i32x16[t]),
                                                              _mm512_mullo_epi32(zero_point_i32x16, window_i32x16)));
    }
  }

  // The zero point is added after the first pack: what saturates there does so in the end as well.
  __m512i codes(const Sums (&sum_i32x16)[kVectors]) const noexcept {
    __m512i rounded_i32x16[kVectors];
    for (std::size_t t = 0; t < kVectors; ++t) {
      const __m512 scaled_f32x16 =
          _mm512_mul_ps(_mm512_cvtepi32_ps(reinterpret_cast<__m512i>(sum_i32x16[t])), multiplier_f32x16_[t]);
      rounded_i32x16[t] = _mm512_cvtps_epi32(end == End::codes_within_range ? scaled_f32x16 : bounded(scaled_f32x16));
    }
    const __m512i low_i16x32 =
        _mm512_adds_epi16(_mm512_packs_epi32(rounded_i32x16[0], rounded_i32x16[1]), zero_point_i16x32_);
    const __m512i high_i16x32 =
        _mm512_adds_epi16(_mm512_packs_epi32(rounded_i32x16[2], rounded_i32x16[3]), zero_point_i16x32_);
    // Within 128 bits, byte 4 * t + lane goes to 4 * lane + t.
    const __m512i order_u8x64 =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    return _mm512_xor_si512(_mm512_shuffle_epi8(_mm512_packus_epi16(low_i16x32, high_i16x32), order_u8x64),
                            flip_u8x64_);
  }

  const GroupedRun& run_;
  std::size_t channel_;
  const std::uint8_t* filter_;
  __m512i zero_point_i16x32_, flip_u8x64_;
  __mmask64 mask_;
  __m512i offset_i32x16_[kVectors];
  __m512 multiplier_f32x16_[kVectors];
};

template <std::size_t group_lanes, bool filter_has_zero_point, End end>
void convolve_blocks(const GroupedRun& run) noexcept {
  for (std::size_t channel = 0; channel < run.channels; channel += kBlock) {
    const Block<group_lanes, filter_has_zero_point, end> block(run, channel);
    std::size_t pixel = 0;
    for (; pixel + kPixels <= run.pixels; pixel += kPixels) block.template convolve<kPixels>(pixel);
    if (run.pixels - pixel == 3) block.template convolve<3>(pixel);
    if (run.pixels - pixel == 2) block.template convolve<2>(pixel);
    if (run.pixels - pixel == 1) block.template convolve<1>(pixel);
  }
}

template <bool filter_has_zero_point, End end>
void convolve_groups(const GroupedRun& run) noexcept {
  switch (run.group_lanes) {
    case 1:
      return convolve_blocks<1, filter_has_zero_point, end>(run);
    case 2:
      return convolve_blocks<2, filter_has_zero_point, end>(run);
    default:
      return convolve_blocks<4, filter_has_zero_point, end>(run);
  }
}

template <End end>
void convolve_to(const GroupedRun& run) noexcept {
  (run.filter_zero_point == nullptr ? convolve_groups<false, end> : convolve_groups<true, end>)(run);
}

void convolve(const GroupedRun& run) noexcept {
  if (run.sums != nullptr) {
    convolve_to<End::sums>(run);
  } else {
    (converts_within_range(run) ? convolve_to<End::codes_within_range> : convolve_to<End::codes>)(run);
  }
}

}  // namespace

constinit const GroupedKernels avx512_vnni::grouped = {.lanes = kLanes,
                                                       .most_group_lanes = 4,
                                                       .pixels_of_filter = kPixels,
                                                       .widened = false,
                                                       .groups_of_block = 3.0,
                                                       .groups_of_block_by_four = 3.5,
                                                       .convolve = convolve};

}  // namespace dmlcpu
