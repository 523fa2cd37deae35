// depthwise_window.h for AVX512-VNNI: a column of the window is interleaved by 8 unpacks for 64 lanes, and vpdpbusd
// takes four taps of 16 lanes. All of it, from codes to codes, is bound by the two ports that vectors of 64 bytes have:
// 38 operations for 64 results of a 3x3 window with stride 1, of which 8 are unpacks, 12 products and 18 the way back
// to codes.
#include <immintrin.h>

#include <type_traits>
#include <utility>

#include "kernels/depthwise_window/depthwise_window.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"

// Groups of four taps, a vector for each 16 lanes.
struct Groups {
  __m512i u8x64[4];
};
// Two rows or columns, interleaved by bytes.
struct Pairs {
  __m512i low_u8x64, high_u8x64;
};

inline Pairs interleave(__m512i a_u8x64, __m512i b_u8x64) noexcept {
  return {_mm512_unpacklo_epi8(a_u8x64, b_u8x64), _mm512_unpackhi_epi8(a_u8x64, b_u8x64)};
}
inline Groups interleave(const Pairs& a, const Pairs& b) noexcept {
  return {{_mm512_unpacklo_epi16(a.low_u8x64, b.low_u8x64), _mm512_unpackhi_epi16(a.low_u8x64, b.low_u8x64),
           _mm512_unpacklo_epi16(a.high_u8x64, b.high_u8x64), _mm512_unpackhi_epi16(a.high_u8x64, b.high_u8x64)}};
}

// Writes the sums of a block for as many parts of a row as are present, `step` elements apart: quarters of the four
// vectors go to 16 neighbouring channels. A call, so that it takes no registers where codes are made.
template <std::size_t parts>
__attribute__((noinline)) void store_sums(std::int32_t* sums, std::size_t step, std::size_t present, __m512i a_i32x16,
                                          __m512i b_i32x16, __m512i c_i32x16, __m512i d_i32x16) noexcept {
  const __m512i low_01 = _mm512_shuffle_i32x4(a_i32x16, b_i32x16, 0x44);
  const __m512i low_23 = _mm512_shuffle_i32x4(c_i32x16, d_i32x16, 0x44);
  const __m512i high_01 = _mm512_shuffle_i32x4(a_i32x16, b_i32x16, 0xee);
  const __m512i high_23 = _mm512_shuffle_i32x4(c_i32x16, d_i32x16, 0xee);
  const __m512i quarter_i32x16[4] = {
      _mm512_shuffle_i32x4(low_01, low_23, 0x88), _mm512_shuffle_i32x4(low_01, low_23, 0xdd),
      _mm512_shuffle_i32x4(high_01, high_23, 0x88), _mm512_shuffle_i32x4(high_01, high_23, 0xdd)};
  constexpr std::size_t of_part = 4 / parts;
  for (std::size_t quarter = 0; quarter < present * of_part; ++quarter) {
    _mm512_storeu_si512(sums + quarter / of_part * step + quarter % of_part * 16, quarter_i32x16[quarter]);
  }
}

// What a dispatch needs of the products and before them.
enum class Activations : std::uint8_t { as_they_are, flipped, summed, flipped_and_summed };

// All pixels of a block of channels: vectors hold 64 / parts channels of as many parts of the row.
template <std::size_t window, std::size_t stride, std::size_t parts, Activations kind, bool has_slices>
class ChannelBlock {
 public:
  // number is that of the block.
  ChannelBlock(const DepthwiseWindowRun& run, std::size_t channel, std::size_t number) noexcept
      : run_(run),
        channel_(channel),
        part_pixels_((run.pixels + parts - 1) / parts),
        filter_(run.filter + number * slices() * kSliceBytes),
        parameters_(number * kWindowLanes),
        input_flip_u8x64_(_mm512_set1_epi8(static_cast<char>(run.input_flip))),
        zero_point_i16x32_(_mm512_set1_epi16(static_cast<short>(run.output_zero_point))),
        flip_u8x64_(_mm512_set1_epi8(static_cast<char>(run.flip))) {
    for (const std::uint8_t*& row : rows_[0]) row = run.padding;
    __mmask16 within_range = kAllLanes;
    for (std::size_t v = 0; v < 4; ++v) {
      if (kSums) {
        minus_zero_point_i32x16_[v] =
            _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(run.filter_zero_point + parameters_ + v * 16));
      }
      offset_i32x16_[v] = _mm512_loadu_si512(run.offset + parameters_ + v * 16);
      multiplier_f32x16_[v] =
          run.sums == nullptr ? _mm512_loadu_ps(run.multiplier + parameters_ + v * 16) : _mm512_setzero_ps();
      within_range &= below_1(multiplier_f32x16_[v]);
    }
    is_within_range_ = within_range == kAllLanes;
  }

  // The sums of one slice are what those of the next begin with.
  void convolve() noexcept {
    const std::uint8_t* const* rows = run_.rows;
    const std::int8_t* const filter = filter_;
    for (std::size_t row = 0; row < run_.output_rows; ++row, filter_ = filter) {
      first_element_ = row * run_.output_row_stride + channel_;
      for (std::size_t slice = 0; slice < slices(); ++slice, rows += window, filter_ += kSliceBytes) {
        for (std::size_t i = 0; i < window; ++i) rows_[1][i] = rows[i] + channel_;
        first_sums_ = slice == 0 ? run_.offset + parameters_ : run_.partial_sums;
        sums_step_ = slice == 0 ? 0 : kWindowLanes;
        is_last_slice_ = slice + 1 == slices();
        convolve_pixels(std::make_index_sequence<window>());
      }
    }
  }

 private:
  static constexpr std::size_t kSliceBytes = window_groups(window) * kWindowLanes * 4;
  static constexpr bool kSums = kind == Activations::summed || kind == Activations::flipped_and_summed;
  static constexpr bool kFlips = kind == Activations::flipped || kind == Activations::flipped_and_summed;

  std::size_t slices() const noexcept { return has_slices ? run_.slices : 1; }

  // Column x of the window's is at index x modulo `window`, where x counts from the first one of the row on: after as
  // many pixels as the window has columns the indices are the same again, so that each of these phases is code of its
  // own and columns never move.
  template <std::size_t... phases>
  void convolve_pixels(std::index_sequence<phases...>) const noexcept {
    Groups columns[window];
    std::ptrdiff_t next = run_.first_column;
    for (std::size_t i = 0; i + stride < window; ++i) columns[i] = column(next++);
    PassingSums passing(columns);
    LastRow last_row;
    if constexpr (window == 5) last_row.begin(*this, run_.first_column);
    std::size_t pixel = 0;
    const auto convolve_pixel = [&](auto phase) __attribute__((always_inline)) {
      constexpr std::size_t first = phase * stride;
      for (std::size_t i = window - stride; i < window; ++i) {
        Groups& replaced = columns[(first + i) % window];
        if (pixel != 0) passing.add(replaced, -1);
        replaced = column(next++);
        passing.add(replaced, 1);
      }
      Sums sums(*this, pixel, passing);
      for (std::size_t group = 0; group < window; ++group) sums.add(group, columns[(first + group) % window]);
      if constexpr (window == 5) {
        sums.add(window, last_row.groups);
        last_row.advance(*this);
        sums.add(window + 1, last_row.groups);
      }
      sums.finish(pixel);
      return ++pixel == part_pixels_;
    };
    while (!(convolve_pixel(std::integral_constant<std::size_t, phases>()) || ...)) {
    }
  }

  // The first four rows of a column.
  __attribute__((always_inline)) Groups column(std::ptrdiff_t column) const noexcept {
    const Place place = place_of(column);
    const __m512i third_u8x64 = load(2, place);
    // What stands in place of a fourth row meets a filter of zeros.
    return interleave(interleave(load(0, place), load(1, place)),
                      interleave(third_u8x64, window > 3 ? load(3, place) : third_u8x64));
  }

  // The sums of a window's codes in its first four rows. With stride 1 neighbouring windows have all columns but two in
  // common: one enters and one leaves. With stride 2 each window is summed for itself, and these are zeros.
  struct PassingSums {
    static constexpr bool kUsed = kSums && stride == 1;
    __m512i i32x16[4];

    __attribute__((always_inline)) explicit PassingSums(const Groups (&columns)[window]) noexcept {
      for (__m512i& sums : i32x16) sums = _mm512_setzero_si512();
      for (std::size_t i = 0; i + stride < window; ++i) add(columns[i], 1);
    }
    // Once or, to take them off again, -1 times.
    __attribute__((always_inline)) void add(const Groups& column, signed char times) noexcept {
      if constexpr (kUsed) {
        for (std::size_t v = 0; v < 4; ++v) {
          i32x16[v] = _mm512_dpbusd_epi32(i32x16[v], column.u8x64[v], taps_of_group(0, times));
        }
      }
    }
  };

  // What adds up the codes of a group that belong to the window, times a number.
  static __attribute__((always_inline)) __m512i taps_of_group(std::size_t group, signed char times) noexcept {
    unsigned taps = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      taps |=
          window_tap(window, stride, group, i).present ? unsigned{static_cast<unsigned char>(times)} << (8 * i) : 0U;
    }
    return _mm512_set1_epi32(static_cast<int>(taps));
  }

  // Row 4 of a 5x5 window: groups of four neighbouring columns, which are two pairs of them.
  struct LastRow {
    Groups groups;            // from the first column of a pixel's window on
    Pairs pairs[2 / stride];  // of the columns that come `stride` columns later, where they begin
    std::ptrdiff_t next;      // column of the pair after these

    __attribute__((always_inline)) void begin(const ChannelBlock& block, std::ptrdiff_t column) noexcept {
      groups = interleave(block.last_row_pair(column), block.last_row_pair(column + 2));
      for (std::size_t i = 0; i < 2 / stride; ++i) {
        pairs[i] = block.last_row_pair(column + static_cast<std::ptrdiff_t>((i + 1) * stride));
      }
      next = column + 2 + static_cast<std::ptrdiff_t>(stride);
    }
    __attribute__((always_inline)) void advance(const ChannelBlock& block) noexcept {
      const Pairs pair = block.last_row_pair(next);
      groups = interleave(pairs[0], pair);
      if constexpr (stride == 1) pairs[0] = pairs[1];
      pairs[2 / stride - 1] = pair;
      next += static_cast<std::ptrdiff_t>(stride);
    }
  };
  __attribute__((always_inline)) Pairs last_row_pair(std::ptrdiff_t column) const noexcept {
    return interleave(load(4, place_of(column)), load(4, place_of(column + 1)));
  }

  // Where a column stands in each part of the row: bytes from its rows, or in the padding.
  struct Place {
    const std::uint8_t* const* rows[parts];
    std::ptrdiff_t bytes[parts];
  };
  __attribute__((always_inline)) Place place_of(std::ptrdiff_t column) const noexcept {
    Place place;
    for (std::size_t part = 0; part < parts; ++part) {
      const auto first = static_cast<std::ptrdiff_t>(part * part_pixels_ * stride);
      const bool is_inside = static_cast<std::size_t>(column + first) < static_cast<std::size_t>(run_.columns);
      place.rows[part] = rows_[is_inside];
      place.bytes[part] = column * run_.column_step + first * run_.column_step;
      place.bytes[part] &= -static_cast<std::ptrdiff_t>(is_inside);
    }
    return place;
  }

  __attribute__((always_inline)) __m512i load(std::size_t row, const Place& place) const noexcept {
    const auto codes = [&](std::size_t part) { return place.rows[part][row] + place.bytes[part]; };
    __m512i codes_u8x64;
    if constexpr (parts == 1) {
      codes_u8x64 = _mm512_loadu_si512(codes(0));
    } else if constexpr (parts == 2) {
      const auto half = [&](std::size_t part) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes(part)));
      };
      codes_u8x64 = _mm512_inserti64x4(_mm512_castsi256_si512(half(0)), half(1), 1);
    } else {
      const auto quarter = [&](std::size_t part) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes(part)));
      };
      codes_u8x64 = _mm512_castsi128_si512(quarter(0));
      codes_u8x64 = _mm512_inserti32x4(codes_u8x64, quarter(1), 1);
      codes_u8x64 = _mm512_inserti32x4(codes_u8x64, quarter(2), 2);
      codes_u8x64 = _mm512_inserti32x4(codes_u8x64, quarter(3), 3);
    }
    return kFlips ? _mm512_xor_si512(codes_u8x64, input_flip_u8x64_) : codes_u8x64;
  }

  // The sums of a pixel, and of the same in the other parts.
  class Sums {
   public:
    __attribute__((always_inline)) Sums(const ChannelBlock& block, std::size_t pixel,
                                        const PassingSums& passing) noexcept
        : block_(block) {
      const std::int32_t* first = block.first_sums_ + pixel * block.sums_step_;
      for (std::size_t v = 0; v < 4; ++v) {
        sum_i32x16_[v] = has_slices ? _mm512_loadu_si512(first + v * 16) : block.offset_i32x16_[v];
        codes_i32x16_[v] = passing.i32x16[v];
      }
    }

    __attribute__((always_inline)) void add(std::size_t group, const Groups& groups) noexcept {
      for (std::size_t v = 0; v < 4; ++v) {
        const __m512i filter_x64 = _mm512_load_si512(block_.filter_ + (group * 4 + v) * 64);
        sum_i32x16_[v] = _mm512_dpbusd_epi32(sum_i32x16_[v], groups.u8x64[v], filter_x64);
        if (kSums && (!PassingSums::kUsed || group >= window)) {
          codes_i32x16_[v] = _mm512_dpbusd_epi32(codes_i32x16_[v], groups.u8x64[v], taps_of_group(group, 1));
        }
      }
    }

    __attribute__((always_inline)) void finish(std::size_t pixel) noexcept {
      if constexpr (kSums) {
        for (std::size_t v = 0; v < 4; ++v) {
          // As pairs of 16 bits: a zero point is within +-128, the sum of 25 codes at most 6375, and its higher half 0.
          sum_i32x16_[v] = _mm512_dpwssd_epi32(sum_i32x16_[v], codes_i32x16_[v], block_.minus_zero_point_i32x16_[v]);
        }
      }
      if (has_slices && !block_.is_last_slice_) {
        std::int32_t* partial = block_.run_.partial_sums + pixel * kWindowLanes;
        for (std::size_t v = 0; v < 4; ++v) _mm512_store_si512(partial + v * 16, sum_i32x16_[v]);
        return;
      }
      if (block_.run_.sums != nullptr) {
        return store_sums<parts>(block_.run_.sums + block_.first_element_ + pixel * block_.run_.output_pixel_stride,
                                 block_.part_pixels_ * block_.run_.output_pixel_stride, block_.parts_that_have(pixel),
                                 sum_i32x16_[0], sum_i32x16_[1], sum_i32x16_[2], sum_i32x16_[3]);
      }
      for (std::size_t v = 0; v < 4; ++v) {
        const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(sum_i32x16_[v]), block_.multiplier_f32x16_[v]);
        sum_i32x16_[v] = _mm512_cvtps_epi32(block_.is_within_range_ ? scaled_f32x16 : bounded(scaled_f32x16));
      }
      block_.store(pixel, _mm512_xor_si512(saturate(sum_i32x16_[0], sum_i32x16_[1], sum_i32x16_[2], sum_i32x16_[3],
                                                    block_.zero_point_i16x32_),
                                           block_.flip_u8x64_));
    }

   private:
    const ChannelBlock& block_;
    __m512i sum_i32x16_[4], codes_i32x16_[4];
  };

  // The last parts may be shorter.
  __attribute__((always_inline)) std::size_t parts_that_have(std::size_t pixel) const noexcept {
    std::size_t present = 1;
    for (std::size_t part = 1; part < parts; ++part) present += pixel + part * part_pixels_ < run_.pixels;
    return present;
  }

  // The codes of a pixel and of the same in the other parts, as far as these have it.
  __attribute__((always_inline)) void store(std::size_t pixel, __m512i codes_u8x64) const noexcept {
    std::uint8_t* output = run_.output + first_element_ + pixel * run_.output_pixel_stride;
    const std::size_t step = part_pixels_ * run_.output_pixel_stride;
    const std::size_t present = parts_that_have(pixel);
    if constexpr (parts == 1) {
      _mm512_storeu_si512(output, codes_u8x64);
    } else if constexpr (parts == 2) {
      const auto store_half = [&](std::size_t part, __m256i codes_u8x32) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(output + part * step), codes_u8x32);
      };
      store_half(0, _mm512_castsi512_si256(codes_u8x64));
      if (present > 1) store_half(1, _mm512_extracti64x4_epi64(codes_u8x64, 1));
    } else {
      const auto store_quarter = [&](std::size_t part, __m128i codes_u8x16) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(output + part * step), codes_u8x16);
      };
      store_quarter(0, _mm512_castsi512_si128(codes_u8x64));
      if (present > 1) store_quarter(1, _mm512_extracti32x4_epi32(codes_u8x64, 1));
      if (present > 2) store_quarter(2, _mm512_extracti32x4_epi32(codes_u8x64, 2));
      if (present > 3) store_quarter(3, _mm512_extracti32x4_epi32(codes_u8x64, 3));
    }
  }

  const DepthwiseWindowRun run_;  // a copy: bytes of output could alias the original
  std::size_t channel_, part_pixels_, first_element_ = 0;
  const std::int8_t* filter_;
  std::size_t parameters_;
  // Of a slice of several: what the sums of pixels begin with, sums_step_ elements apart, and whether they are whole.
  const std::int32_t* first_sums_ = nullptr;
  std::size_t sums_step_ = 0;
  bool is_last_slice_ = true;
  const std::uint8_t* rows_[2][window];  // the padding in place of each, and the rows themselves
  bool is_within_range_;
  __m512i input_flip_u8x64_, zero_point_i16x32_, flip_u8x64_, offset_i32x16_[4], minus_zero_point_i32x16_[4];
  __m512 multiplier_f32x16_[4];
};

template <std::size_t window, std::size_t stride, Activations kind, bool has_slices>
void convolve_blocks(const DepthwiseWindowRun& run) noexcept {
  std::size_t end = 0;
  for (std::size_t number = 0; end < run.channels; ++number) {
    const WindowBlock block = next_window_block(run.channels, end);
    end = block.channel + block.channels;
    if (block.channels == 64) {
      ChannelBlock<window, stride, 1, kind, has_slices>(run, block.channel, number).convolve();
    } else if (block.channels == 32) {
      ChannelBlock<window, stride, 2, kind, has_slices>(run, block.channel, number).convolve();
    } else {
      ChannelBlock<window, stride, 4, kind, has_slices>(run, block.channel, number).convolve();
    }
  }
}

template <std::size_t window, std::size_t stride, bool has_slices>
void convolve_codes(const DepthwiseWindowRun& run) noexcept {
  // Of volumes, which are rare, all codes are flipped, if by 0: each kind is code that compiles for seconds.
  constexpr auto unflipped = has_slices ? Activations::flipped : Activations::as_they_are;
  constexpr auto unflipped_and_summed = has_slices ? Activations::flipped_and_summed : Activations::summed;
  if (run.filter_zero_point == nullptr) {
    (run.input_flip != 0 ? convolve_blocks<window, stride, Activations::flipped, has_slices>
                         : convolve_blocks<window, stride, unflipped, has_slices>)(run);
  } else {
    (run.input_flip != 0 ? convolve_blocks<window, stride, Activations::flipped_and_summed, has_slices>
                         : convolve_blocks<window, stride, unflipped_and_summed, has_slices>)(run);
  }
}

template <bool has_slices>
void convolve_windows(const DepthwiseWindowRun& run) noexcept {
  if (run.window == 3) {
    (run.stride == 1 ? convolve_codes<3, 1, has_slices> : convolve_codes<3, 2, has_slices>)(run);
  } else {
    (run.stride == 1 ? convolve_codes<5, 1, has_slices> : convolve_codes<5, 2, has_slices>)(run);
  }
}

void convolve(const DepthwiseWindowRun& run) noexcept {
  (run.slices == 1 ? convolve_windows<false> : convolve_windows<true>)(run);
}

}  // namespace

constinit const DepthwiseWindowKernels avx512_vnni::depthwise_window = {.convolve = convolve};

}  // namespace dmlcpu
