// depthwise_planes.h with AVX512_VBMI: vpermb brings 16 lanes their taps, vpdpbusd multiplies and adds them. Codes of
// four channels are made at a time. Both vector ports take 7 cycles for 16 codes of a 3x3 window: three permutations,
// the padding's code moved before each, three products and some five operations that make codes. It takes some 10, as
// chains of results fill the queue in front of them.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/depthwise_planes/depthwise_planes.h"

#ifndef __AVX512VBMI__
#error "compile with AVX512_VBMI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"

constexpr std::size_t kChannelsAtOnce = 4;
// Channels that a block's order and masks stay in registers for, as many streams are read at a time; operators hand
// over no more.
constexpr std::size_t kChannelsOfTile = 16;

// What a kernel is made for. A window of 0 is one of any rows and columns.
struct Kind {
  std::size_t window;
  bool has_zero_points, flips, within_range;
};

// The bytes of a load that may be read.
inline __mmask64 readable_mask(const std::uint8_t* from, const DepthwisePlanesRun& run) noexcept {
  const std::ptrdiff_t before = run.readable - from, left = run.readable_end - from;
  if (before >= 64 || left <= 0) return 0;
  const __mmask64 until_end = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
  return before > 0 ? until_end & (~__mmask64{0} << before) : until_end;
}

template <Kind kind>
class Planes {
 public:
  explicit Planes(const DepthwisePlanesRun& run) noexcept
      : run_(run),
        rows_(kind.window != 0 ? kind.window : run.rows),
        groups_(plane_groups(kind.window != 0 ? kind.window : run.columns)),
        padding_u8x64_(_mm512_set1_epi8(static_cast<char>(run.padding))),
        input_flip_u8x64_(_mm512_set1_epi8(static_cast<char>(run.input_flip))),
        zero_point_i16x32_(_mm512_set1_epi16(static_cast<short>(run.output_zero_point))),
        flip_u8x64_(_mm512_set1_epi8(static_cast<char>(run.flip))) {}

  void convolve() const noexcept {
    for (std::size_t first = 0; first < run_.channels; first += kChannelsOfTile) {
      const std::size_t left = run_.channels - first;
      convolve_tile(first, left < kChannelsOfTile ? left : kChannelsOfTile);
    }
  }

 private:
  // Four neighbouring channels, or a single one, four times, where there are fewer.
  struct Channels {
    const std::uint8_t* input;
    const std::int8_t* filter;
    const std::int32_t* offset;
    const float* multiplier;
    const std::int32_t* filter_zero_point;
    std::uint8_t* output;
    bool are_readable;
  };

  // How the lanes of a block get their taps. Local, so that no store of a code might change it.
  struct Taps {
    static constexpr std::size_t kWindow = kind.window, kGroups = plane_groups(kWindow);
    __m512i order_u8x64[kWindow == 0 ? 1 : kGroups];
    __mmask64 inside[kWindow == 0 ? 1 : kWindow * kGroups];
    const std::uint8_t* any_order;  // of any window
    const std::uint64_t* any_inside;

    Taps(const std::uint8_t* of_block, const std::uint64_t* masks) noexcept : any_order(of_block), any_inside(masks) {
      for (std::size_t i = 0; i < kGroups; ++i) order_u8x64[i] = _mm512_load_si512(of_block + i * kPlaneBytes);
      for (std::size_t i = 0; i < kWindow * kGroups; ++i) inside[i] = masks[i];
    }
    __attribute__((always_inline)) __m512i order(std::size_t group) const noexcept {
      return kWindow == 0 ? _mm512_load_si512(any_order + group * kPlaneBytes) : order_u8x64[group];
    }
    __attribute__((always_inline)) __mmask64 mask(std::size_t i) const noexcept {
      return kWindow == 0 ? any_inside[i] : inside[i];
    }
  };

  void convolve_tile(std::size_t first, std::size_t count) const noexcept {
    Channels tile[kChannelsOfTile];
    std::size_t size = 0;
    const bool are_single = count < kChannelsAtOnce;
    if (are_single) {
      for (std::size_t i = 0; i < count; ++i) tile[size++] = channels_from(first + i, 1);
    } else {  // the last ones once more, where they are no multiple of four
      for (std::size_t i = 0; i < count; i += kChannelsAtOnce) {
        const std::size_t begin = i + kChannelsAtOnce < count ? i : count - kChannelsAtOnce;
        tile[size++] = channels_from(first + begin, kChannelsAtOnce);
      }
    }
    for (std::size_t number = 0; number < run_.block_count; ++number) {
      const PlaneBlock block = run_.blocks[number];
      const Taps taps(run_.orders + number * groups_ * kPlaneBytes, run_.inside + number * rows_ * groups_);
      for (std::size_t i = 0; i < size; ++i) {
        are_single             ? convolve_channels<0, false>(block, taps, tile[i])
        : tile[i].are_readable ? convolve_channels<1, true>(block, taps, tile[i])
                               : convolve_channels<1, false>(block, taps, tile[i]);
      }
    }
  }

  Channels channels_from(std::size_t channel, std::size_t count) const noexcept {
    const auto number = static_cast<std::ptrdiff_t>(channel);
    const std::uint8_t* const input = run_.input + number * run_.input_plane_step;
    const std::uint8_t* const last = input + static_cast<std::ptrdiff_t>(count - 1) * run_.input_plane_step;
    return {input,
            run_.filter + channel * rows_ * groups_ * 4,
            run_.offset + channel,
            run_.multiplier + channel,
            run_.filter_zero_point == nullptr ? nullptr : run_.filter_zero_point + channel,
            run_.output + number * run_.output_plane_step,
            input - run_.readable >= -run_.lowest && run_.readable_end - last >= run_.highest};
  }

  // A filter that adds the codes of a group's columns.
  __m512i ones_of(std::size_t group) const noexcept {
    const std::size_t columns = run_.columns - 4 * group;
    return _mm512_set1_epi32(columns >= 4 ? 0x01010101 : (1 << 8 * columns) / 255);
  }

  struct Sums {
    __m512i i32x16[kChannelsAtOnce];
  };

  // step is 1, or 0 where all four are the same channel.
  template <std::ptrdiff_t step, bool are_readable>
  __attribute__((always_inline)) void convolve_channels(const PlaneBlock& block, const Taps& taps,
                                                        const Channels& channels) const noexcept {
    const Sums sums = add_taps<step, are_readable>(block, taps, channels);
    __m512i rounded_i32x16[kChannelsAtOnce];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512 scaled_f32x16 =
          _mm512_mul_ps(_mm512_cvtepi32_ps(sums.i32x16[i]), _mm512_set1_ps(channels.multiplier[i * step]));
      rounded_i32x16[i] = _mm512_cvtps_epi32(kind.within_range ? scaled_f32x16 : bounded(scaled_f32x16));
    }
    const __m512i codes_u8x64 =
        _mm512_xor_si512(saturate_in_order(rounded_i32x16[0], rounded_i32x16[1], rounded_i32x16[2], rounded_i32x16[3],
                                           zero_point_i16x32_),
                         flip_u8x64_);
    const auto mask = static_cast<__mmask16>((1U << block.outputs) - 1);
    const std::ptrdiff_t output_step = run_.output_plane_step;
    std::uint8_t* const output = channels.output + block.output;
    _mm_mask_storeu_epi8(output, mask, _mm512_castsi512_si128(codes_u8x64));
    if constexpr (step == 0) return;
    _mm_mask_storeu_epi8(output + output_step, mask, _mm512_extracti32x4_epi32(codes_u8x64, 1));
    _mm_mask_storeu_epi8(output + 2 * output_step, mask, _mm512_extracti32x4_epi32(codes_u8x64, 2));
    _mm_mask_storeu_epi8(output + 3 * output_step, mask, _mm512_extracti32x4_epi32(codes_u8x64, 3));
  }

  // Channels are innermost: what waits for each other's results is some instructions apart, as a processor looks for
  // others among a hundred at most.
  template <std::ptrdiff_t step, bool are_readable>
  __attribute__((always_inline)) Sums add_taps(const PlaneBlock& block, const Taps& taps,
                                               const Channels& channels) const noexcept {
    Sums sums, codes;
    const std::uint8_t* rows[kChannelsAtOnce];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      sums.i32x16[i] = _mm512_set1_epi32(channels.offset[i * step]);
      codes.i32x16[i] = _mm512_setzero_si512();
      rows[i] = channels.input + block.first + i * step * run_.input_plane_step;
    }
    const std::ptrdiff_t of_channel = step * static_cast<std::ptrdiff_t>(rows_ * groups_ * 4);
    const std::int8_t* filter = channels.filter;
#pragma GCC unroll 5
    for (std::size_t r = 0; r < rows_; ++r) {
      __m512i bytes_u8x64[kChannelsAtOnce];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        bytes_u8x64[i] =
            are_readable ? _mm512_loadu_si512(rows[i]) : _mm512_maskz_loadu_epi8(readable_mask(rows[i], run_), rows[i]);
        if constexpr (kind.flips) bytes_u8x64[i] = _mm512_xor_si512(bytes_u8x64[i], input_flip_u8x64_);
        rows[i] += run_.row_step;
      }
#pragma GCC unroll 2
      for (std::size_t group = 0; group < groups_; ++group, filter += 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const __m512i taps_u8x64 = _mm512_mask_permutexvar_epi8(padding_u8x64_, taps.mask(r * groups_ + group),
                                                                  taps.order(group), bytes_u8x64[i]);
          int of_filter;
          std::memcpy(&of_filter, filter + i * of_channel, sizeof(of_filter));
          sums.i32x16[i] = _mm512_dpbusd_epi32(sums.i32x16[i], taps_u8x64, _mm512_set1_epi32(of_filter));
          if constexpr (kind.has_zero_points) {
            codes.i32x16[i] = _mm512_dpbusd_epi32(codes.i32x16[i], taps_u8x64, ones_of(group));
          }
        }
      }
    }
    for (int i = 0; kind.has_zero_points && i < 4; ++i) {
      const __m512i zero_point_i32x16 = _mm512_set1_epi32(channels.filter_zero_point[i * step]);
      sums.i32x16[i] = _mm512_sub_epi32(sums.i32x16[i], _mm512_mullo_epi32(codes.i32x16[i], zero_point_i32x16));
    }
    return sums;
  }

  const DepthwisePlanesRun run_;  // a copy, which no store of a code might change
  const std::size_t rows_, groups_;
  const __m512i padding_u8x64_, input_flip_u8x64_, zero_point_i16x32_, flip_u8x64_;
};

template <std::size_t window, bool has_zero_points, bool within_range>
void convolve_codes(const DepthwisePlanesRun& run) noexcept {
  run.input_flip == 0 ? Planes<Kind{window, has_zero_points, false, within_range}>(run).convolve()
                      : Planes<Kind{window, has_zero_points, true, within_range}>(run).convolve();
}

// Whether no conversion of scaled sums overflows.
bool converts_within_range(const DepthwisePlanesRun& run) noexcept {
  for (std::size_t channel = 0; channel < run.channels; channel += 16) {
    const std::size_t left = run.channels - channel;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : (1U << left) - 1);
    if ((below_1(_mm512_maskz_loadu_ps(mask, run.multiplier + channel)) & mask) != mask) return false;
  }
  return true;
}

template <std::size_t window>
void convolve_window(const DepthwisePlanesRun& run) noexcept {
  if (run.filter_zero_point != nullptr) return convolve_codes<window, true, false>(run);
  converts_within_range(run) ? convolve_codes<window, false, true>(run) : convolve_codes<window, false, false>(run);
}

void convolve(const DepthwisePlanesRun& run) noexcept {
  if (run.rows == 3 && run.columns == 3) return convolve_window<3>(run);
  if (run.rows == 5 && run.columns == 5) return convolve_window<5>(run);
  convolve_window<0>(run);
}

}  // namespace

constinit const DepthwisePlanesKernels avx512_vbmi::depthwise_planes = {.convolve = convolve};

}  // namespace dmlcpu
