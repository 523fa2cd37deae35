// depthwise_window.h for AVX2, exact: codes are widened to 16 bits and multiplied by vpmaddwd, two taps of a lane at a
// time. 16 channels of four pixels at a time, whose sums are the 8 accumulators; each column of their windows is
// widened once and added to all the pixels that it belongs to:
//
//   rows r0 r1 of a column, widened   [r0: 16 channels] [r1: 16 channels]
//   interleaved                       low [r0 r1] of channels 0-3 and 8-11, high [r0 r1] of 4-7 and 12-15
//   the last row, of columns x x+1    low [x x+1] ...                       high [x x+1] ...       x is even
//
// Packs of sums to bytes undo the order. A 3x3 window with stride 1 takes, for 16 results, 9 operations to widen and
// interleave, 20 to multiply and add, and 10 the way back to codes.
//
// Filters are widened as well, once for a block of channels, and so their zero points are subtracted beforehand: w - wz
// is within +-255, and two products with 0..255 fit 32 bits. INT8 codes are widened with their sign: code ^ 0x80 is the
// signed code + 128, and 128 times the filter's sum goes to the offset.
//
// 3x3 windows of small codes are not widened: paired_taps.inl.h.
#include <immintrin.h>

#include <cstring>

#include "kernels/depthwise_window/depthwise_window.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/codes/pair_sums_avx2.inl.h"

constexpr std::size_t kPixels = 4, kChannels = 16;
constexpr std::size_t kMostPixels = 32;  // whose sums wait: they take 2 KiB of the level-1 cache

// The windows of some pixels: rows of columns that are `step` bytes apart.
template <std::size_t window>
struct Windows {
  const std::uint8_t* rows[window];
  std::ptrdiff_t step;
};

// The windows from a column of the input's rows on. Where they reach into the padding they are copied with their share
// of it.
template <std::size_t window, std::size_t columns, std::size_t channels>
inline __attribute__((always_inline)) Windows<window> windows_of(
    const DepthwiseWindowRun& run, const std::uint8_t* const (&rows)[window], std::ptrdiff_t first,
    std::uint8_t (&copy)[window][columns][channels]) noexcept {
  const auto is_within = [&](std::ptrdiff_t column) { return 0 <= column && column < run.columns; };
  Windows<window> windows = {.rows = {}, .step = run.column_step};
  if (is_within(first) && is_within(first + static_cast<std::ptrdiff_t>(columns - 1))) {
    for (std::size_t row = 0; row < window; ++row) windows.rows[row] = rows[row] + first * run.column_step;
    return windows;
  }
  windows.step = channels;
  for (std::size_t row = 0; row < window; ++row) windows.rows[row] = copy[row][0];
  for (std::size_t i = 0; i < columns; ++i) {
    const std::ptrdiff_t column = first + static_cast<std::ptrdiff_t>(i), bytes = column * run.column_step;
    const bool is_inside = is_within(column);
    for (std::size_t row = 0; row < window; ++row) {
      const std::uint8_t* codes = is_inside ? rows[row] + bytes : run.padding;
      // In pieces that are read again as a whole.
      for (std::size_t piece = 0; piece < channels; piece += kChannels) {
        _mm_store_si128(reinterpret_cast<__m128i*>(copy[row][i] + piece),
                        _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + piece)));
      }
    }
  }
  return windows;
}

#include "kernels/depthwise_window/paired_taps.inl.h"

// 8 lanes of a block in the order of the unpacks, from the first four of vector v and of vector v + 2.
template <class Element>
inline __m256i lanes_of(const Element* block, std::size_t v) noexcept {
  const auto four = [&](std::size_t vector) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + vector * 16));
  };
  return _mm256_set_m128i(four(v + 2), four(v));
}

// 16 channels of a block, of all pixels.
template <std::size_t window, std::size_t stride, bool is_signed, bool has_slices>
class Channels {
 public:
  // The block's number, and which 16 of its channels.
  Channels(const DepthwiseWindowRun& run, std::size_t channel, std::size_t number, std::size_t quarter) noexcept
      : run_(run),
        channel_(channel),
        zero_point_i16x16_(_mm256_set1_epi16(static_cast<short>(run.output_zero_point))),
        flip_u8x32_(_mm256_set1_epi8(static_cast<char>(run.flip))) {
    const std::size_t lane = number * kWindowLanes + quarter * 4;
    for (std::size_t half = 0; half < 2; ++half) {
      offset_i32x8_[half] = lanes_of(run.offset + lane, half);
      multiplier_f32x8_[half] =
          run.sums == nullptr ? _mm256_castsi256_ps(lanes_of(run.multiplier + lane, half)) : _mm256_setzero_ps();
      for (std::size_t slice = 0; slice < slices(); ++slice) {
        const std::size_t groups = (number * slices() + slice) * window_groups(window);
        widen_filter(
            run.filter + (groups * kWindowLanes + quarter * 4) * 4,
            run.filter_zero_point == nullptr ? _mm256_setzero_si256() : lanes_of(run.filter_zero_point + lane, half),
            slice, half);
      }
    }
    may_exceed_ = !(all_below_1(multiplier_f32x8_[0]) && all_below_1(multiplier_f32x8_[1]));
  }

  // The sums of a stretch of a row first, then their codes, as a code waits long for its sum.
  void convolve() noexcept {
    for (std::size_t row = 0; row < run_.output_rows; ++row) {
      for (std::size_t slice = 0; slice < slices(); ++slice) {
        for (std::size_t i = 0; i < window; ++i) {
          rows_[slice][i] = run_.rows[(row * slices() + slice) * window + i] + channel_;
        }
      }
      for (std::size_t pixel = 0; pixel < run_.pixels; pixel += kMostPixels) {
        const std::size_t left = run_.pixels - pixel, pixels = left < kMostPixels ? left : kMostPixels;
        // The last ones are summed with some of those before them once more.
        for (std::size_t p = 0; p < pixels; p += kPixels) {
          sum_pixels(pixel, pixels < kPixels ? 0 : pixels - p < kPixels ? pixels - kPixels : p);
        }
        const std::size_t element = row * run_.output_row_stride + pixel * run_.output_pixel_stride + channel_;
        if (run_.sums != nullptr) {
          store_sums(run_.sums + element, pixels);
        } else {
          may_exceed_ ? store_codes<true>(run_.output + element, pixels)
                      : store_codes<false>(run_.output + element, pixels);
        }
      }
    }
  }

 private:
  static constexpr std::size_t kColumns = (kPixels - 1) * stride + window, kRowPairs = window / 2;
  static constexpr std::size_t kSlices = has_slices ? kMostWindowSlices : 1;  // that there is room for

  std::size_t slices() const noexcept { return has_slices ? run_.slices : 1; }

  // The filter of a slice.
  struct Filter {
    __m256i rows_i16x16[kRowPairs][window][2], last_i16x16[window + 1][2];
  };

  // The filter of one vector of lanes, in pairs: of rows 2i and 2i + 1 of each column, and of the last row's columns
  // c - 1 and c, of which those outside the window are 0.
  void widen_filter(const std::int8_t* groups, __m256i zero_point_i32x8, std::size_t slice, std::size_t half) noexcept {
    Filter& filter = filter_[slice];
    __m256i taps_i32x8[window][window];
    for (std::size_t group = 0; group < window_groups(window); ++group) {
      const __m256i codes_x32 = lanes_of(reinterpret_cast<const std::int32_t*>(groups) + group * kWindowLanes, half);
      for (std::size_t i = 0; i < 4; ++i) {
        const WindowTap tap = window_tap(window, stride, group, i);
        if (!tap.present) continue;
        const __m256i code_i32x8 = _mm256_srai_epi32(_mm256_slli_epi32(codes_x32, 24 - 8 * static_cast<int>(i)), 24);
        taps_i32x8[tap.row][tap.column] = _mm256_sub_epi32(code_i32x8, zero_point_i32x8);
      }
    }
    __m256i sum_i32x8 = _mm256_setzero_si256();
    for (const auto& row : taps_i32x8) {
      for (const __m256i& tap_i32x8 : row) sum_i32x8 = _mm256_add_epi32(sum_i32x8, tap_i32x8);
    }
    if (is_signed) offset_i32x8_[half] = _mm256_add_epi32(offset_i32x8_[half], _mm256_slli_epi32(sum_i32x8, 7));
    const auto pair = [](__m256i low_i32x8, __m256i high_i32x8) {
      return _mm256_blend_epi16(low_i32x8, _mm256_slli_epi32(high_i32x8, 16), 0xaa);
    };
    for (std::size_t column = 0; column < window; ++column) {
      for (std::size_t i = 0; i < kRowPairs; ++i) {
        filter.rows_i16x16[i][column][half] = pair(taps_i32x8[2 * i][column], taps_i32x8[2 * i + 1][column]);
      }
    }
    const __m256i(&last_i32x8)[window] = taps_i32x8[window - 1];
    const __m256i none = _mm256_setzero_si256();
    for (std::size_t column = 0; column <= window; ++column) {
      filter.last_i16x16[column][half] =
          pair(column == 0 ? none : last_i32x8[column - 1], column == window ? none : last_i32x8[column]);
    }
  }

  using Sums = __m256i[kPixels][2];

  static __attribute__((always_inline)) __m256i widened(const Windows<window>& windows, std::size_t row,
                                                        std::size_t column) noexcept {
    const std::uint8_t* codes = windows.rows[row] + static_cast<std::ptrdiff_t>(column) * windows.step;
    const __m128i codes_x16 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    return is_signed ? _mm256_cvtepi8_epi16(codes_x16) : _mm256_cvtepu8_epi16(codes_x16);
  }

  // Adds the products of two interleaved rows or columns.
  static __attribute__((always_inline)) void add(__m256i a_i16x16, __m256i b_i16x16, const __m256i (&filter_i16x16)[2],
                                                 __m256i (&sum_i32x8)[2]) noexcept {
    const __m256i low = _mm256_madd_epi16(_mm256_unpacklo_epi16(a_i16x16, b_i16x16), filter_i16x16[0]);
    const __m256i high = _mm256_madd_epi16(_mm256_unpackhi_epi16(a_i16x16, b_i16x16), filter_i16x16[1]);
    sum_i32x8[0] = _mm256_add_epi32(sum_i32x8[0], low);
    sum_i32x8[1] = _mm256_add_epi32(sum_i32x8[1], high);
    // Keeps the compiler from adding products up in another order, which takes more registers than there are.
    __asm__("" : "+x"(sum_i32x8[0]), "+x"(sum_i32x8[1]));
  }

  // All rows of a column but the last.
  static __attribute__((always_inline)) void add_rows(const Windows<window>& windows, const Filter& filter,
                                                      std::size_t column, Sums& sums) noexcept {
#pragma GCC unroll 2
    for (std::size_t i = 0; i < kRowPairs; ++i) {
      const __m256i upper = widened(windows, 2 * i, column), lower = widened(windows, 2 * i + 1, column);
#pragma GCC unroll 4
      for (std::size_t pixel = 0; pixel < kPixels; ++pixel) {
        const std::size_t of_window = column - pixel * stride;
        if (of_window < window) add(upper, lower, filter.rows_i16x16[i][of_window], sums[pixel]);
      }
    }
  }

  using Copy = std::uint8_t[window][kColumns][kChannels];

  // Four pixels of a row.
  void sum_pixels(std::size_t first_pixel, std::size_t pixel) noexcept {
    const std::ptrdiff_t first = run_.first_column + static_cast<std::ptrdiff_t>((first_pixel + pixel) * stride);
    alignas(16) Copy copy;
    Windows<window> windows = windows_of<window>(
        run_, rows_[0], first, copy);  // before there are sums, for which few registers are left beside it
    Sums sums;
    for (auto& of_pixel : sums) {
      of_pixel[0] = offset_i32x8_[0];
      of_pixel[1] = offset_i32x8_[1];
    }
    sum_windows(windows, filter_[0], sums);
    for (std::size_t slice = 1; slice < slices(); ++slice) {
      windows = windows_of<window>(run_, rows_[slice], first, copy);
      sum_windows(windows, filter_[slice], sums);
    }
    for (std::size_t p = 0; p < kPixels; ++p) {
      sum_i32x8_[pixel + p][0] = sums[p][0];
      sum_i32x8_[pixel + p][1] = sums[p][1];
    }
  }

  // Adds the windows of a slice.
  static __attribute__((always_inline)) void sum_windows(const Windows<window>& windows, const Filter& filter,
                                                         Sums& sums) noexcept {
#pragma GCC unroll 8
    for (std::size_t column = 0; column < kColumns; column += 2) {
      add_rows(windows, filter, column, sums);
      const __m256i last = widened(windows, window - 1, column);
      __m256i last_of_next = last;
      if (column + 1 < kColumns) {
        add_rows(windows, filter, column + 1, sums);
        last_of_next = widened(windows, window - 1, column + 1);
      }
#pragma GCC unroll 4
      for (std::size_t p = 0; p < kPixels; ++p) {
        const std::size_t of_window = column + 1 - p * stride;
        if (of_window <= window) add(last, last_of_next, filter.last_i16x16[of_window], sums[p]);
      }
    }
  }

  template <bool may_exceed>
  void store_codes(std::uint8_t* output, std::size_t pixels) const noexcept {
    // Copies: bytes of output could alias the originals.
    const __m256 multiplier_f32x8[2] = {multiplier_f32x8_[0], multiplier_f32x8_[1]};
    const __m256i zero_point_i16x16 = zero_point_i16x16_, flip_u8x32 = flip_u8x32_;
    const std::size_t step = run_.output_pixel_stride;
    const auto in_16_bits = [&](const __m256i(&of_pixel_i32x8)[2]) {
      __m256i rounded_i32x8[2];
      for (std::size_t half = 0; half < 2; ++half) {
        const __m256 scaled_f32x8 = _mm256_mul_ps(_mm256_cvtepi32_ps(of_pixel_i32x8[half]), multiplier_f32x8[half]);
        rounded_i32x8[half] = _mm256_cvtps_epi32(may_exceed ? bounded(scaled_f32x8) : scaled_f32x8);
      }
      return _mm256_adds_epi16(_mm256_packs_epi32(rounded_i32x8[0], rounded_i32x8[1]), zero_point_i16x16);
    };
    for (std::size_t p = 0; p < pixels; p += 2, output += 2 * step) {
      const std::size_t next = p + 1 < pixels ? p + 1 : p;
      const __m256i codes_u8x32 = _mm256_packus_epi16(in_16_bits(sum_i32x8_[p]), in_16_bits(sum_i32x8_[next]));
      const __m256i in_order_u8x32 = _mm256_xor_si256(_mm256_permute4x64_epi64(codes_u8x32, 0xd8), flip_u8x32);
      const auto store = [&](std::size_t at, __m128i of_pixel_u8x16) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(output + at), of_pixel_u8x16);
      };
      store(0, _mm256_castsi256_si128(in_order_u8x32));
      if (next != p) store(step, _mm256_extracti128_si256(in_order_u8x32, 1));
    }
  }

  void store_sums(std::int32_t* output, std::size_t pixels) const noexcept {
    for (std::size_t p = 0; p < pixels; ++p, output += run_.output_pixel_stride) {
      const auto store = [&](std::size_t at, __m256i sum_i32x8) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + at), sum_i32x8);
      };
      store(0, _mm256_permute2x128_si256(sum_i32x8_[p][0], sum_i32x8_[p][1], 0x20));
      store(8, _mm256_permute2x128_si256(sum_i32x8_[p][0], sum_i32x8_[p][1], 0x31));
    }
  }

  const DepthwiseWindowRun run_;  // a copy: bytes of output could alias the original
  std::size_t channel_;
  bool may_exceed_;  // whether scaled sums may be beyond what converts to an integer
  const std::uint8_t* rows_[kSlices][window];
  __m256i zero_point_i16x16_, flip_u8x32_, offset_i32x8_[2];
  __m256 multiplier_f32x8_[2];
  Filter filter_[kSlices];
  __m256i sum_i32x8_[kMostPixels][2];  // of a stretch of a row
};

// Whether these channels are done. By itself, as registers and the stack of the other kernel are full.
template <std::size_t stride, bool is_signed>
__attribute__((noinline)) bool convolve_pairs(const DepthwiseWindowRun& run, std::size_t channel, std::size_t number,
                                              std::size_t lane) noexcept {
  PairedTaps<stride, is_signed> channels(run, channel, number, lane);
  if (channels.is_exact()) channels.convolve();
  return channels.is_exact();
}

template <std::size_t window, std::size_t stride, bool is_signed, bool has_slices>
void convolve_blocks(const DepthwiseWindowRun& run) noexcept {
  std::size_t end = 0;
  for (std::size_t number = 0; end < run.channels; ++number) {
    const WindowBlock block = next_window_block(run.channels, end);
    end = block.channel + block.channels;
    for (std::size_t quarter = 0; quarter < block.channels / kChannels; ++quarter) {
      if constexpr (window == 3 && !has_slices) {
        if (quarter % 2 == 0 && block.channels >= PairedTaps<stride, is_signed>::kChannels &&
            convolve_pairs<stride, is_signed>(run, block.channel + quarter * kChannels, number, quarter * 4)) {
          ++quarter;
          continue;
        }
      }
      Channels<window, stride, is_signed, has_slices>(run, block.channel + quarter * kChannels, number, quarter)
          .convolve();
    }
  }
}

template <std::size_t window, std::size_t stride>
void convolve_codes(const DepthwiseWindowRun& run) noexcept {
  if (run.slices == 1) {
    (run.input_flip != 0 ? convolve_blocks<window, stride, true, false>
                         : convolve_blocks<window, stride, false, false>)(run);
  } else {
    (run.input_flip != 0 ? convolve_blocks<window, stride, true, true>
                         : convolve_blocks<window, stride, false, true>)(run);
  }
}

void convolve(const DepthwiseWindowRun& run) noexcept {
  if (run.window == 3) {
    (run.stride == 1 ? convolve_codes<3, 1> : convolve_codes<3, 2>)(run);
  } else {
    (run.stride == 1 ? convolve_codes<5, 1> : convolve_codes<5, 2>)(run);
  }
}

}  // namespace

constinit const DepthwiseWindowKernels avx2::depthwise_window = {.convolve = convolve};

}  // namespace dmlcpu
