// Windows of any rows and columns: rows are brought to their lanes for each output that has them. Both vector ports
// take 7 cycles for 16 codes of a 3x3 window; it takes some 10, as chains of results fill the queue in front of them.
// Included inside the unnamed namespace of a kernel file, behind vbmi_channels.inl.h.

// A size of 0 is any rows and columns.
template <std::size_t size, bool is_plain>
class Windows {
 public:
  explicit Windows(const DepthwisePlanesRun& run) noexcept
      : run_(run),
        rows_(size != 0 ? size : run.rows),
        groups_(plane_groups(size != 0 ? size : run.columns)),
        vectors_(run) {}

  void convolve() const noexcept {
    for (std::size_t first = 0; first < run_.channels; first += kPlaneTileChannels) {
      const PlaneTile tile(run_, first);
      for (std::size_t number = 0; number < run_.block_count; ++number) convolve_block(run_.blocks[number], tile);
    }
  }

 private:
  // How the lanes of a block get their taps. Local, so that no store of a code might change it.
  struct Taps {
    static constexpr std::size_t kWindow = size, kGroups = plane_groups(kWindow);
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

  void convolve_block(const PlaneBlock& of_run, const PlaneTile& tile) const noexcept {
    const PlaneBlock block = of_run;
    const Taps taps(run_.orders + block.order, run_.inside + block.inside);
    const Loads loads = loads_of(run_, tile.is_readable(run_, block));
    for (std::size_t i = 0; i < tile.size; ++i) {
      const PlaneChannels& channels = tile.channels[i];
      if (loads == Loads::as_they_are) {
        convolve_channels<1, Loads::as_they_are>(block, taps, channels);
      } else if (loads == Loads::flipped) {
        convolve_channels<1, Loads::flipped>(block, taps, channels);
      } else if (channels.step == 0) {
        convolve_channels<0, Loads::masked>(block, taps, channels);
      } else {
        convolve_channels<1, Loads::masked>(block, taps, channels);
      }
    }
  }

  struct Sums {
    __m512i i32x16[kPlaneChannels];
  };

  // step is 1, or 0 where all four are the same channel.
  template <std::ptrdiff_t step, Loads loads>
  __attribute__((always_inline)) void convolve_channels(const PlaneBlock& block, const Taps& taps,
                                                        const PlaneChannels& channels) const noexcept {
    const Sums sums = add_taps<step, loads>(block, taps, channels);
    const __m512i codes_u8x64 =
        codes_of<is_plain>(sums.i32x16, channels.multiplier, step, vectors_.zero_point_i16x32, vectors_.flip_u8x64);
    store_codes<true>(channels.output + block.output, step * run_.output_plane_step, lane_mask(block.lanes),
                      codes_u8x64);
  }

  // Channels are innermost: what waits for each other's results is some instructions apart, as a processor looks for
  // others among a hundred at most.
  template <std::ptrdiff_t step, Loads loads>
  __attribute__((always_inline)) Sums add_taps(const PlaneBlock& block, const Taps& taps,
                                               const PlaneChannels& channels) const noexcept {
    Sums sums, codes;
    const std::uint8_t* rows[kPlaneChannels];
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
      __m512i bytes_u8x64[kPlaneChannels];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        bytes_u8x64[i] = load_bytes<loads>(rows[i], run_, vectors_);
        rows[i] += run_.row_step;
      }
#pragma GCC unroll 2
      for (std::size_t group = 0; group < groups_; ++group, filter += 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          const __m512i taps_u8x64 = _mm512_mask_permutexvar_epi8(
              vectors_.padding_u8x64, taps.mask(r * groups_ + group), taps.order(group), bytes_u8x64[i]);
          int of_filter;
          std::memcpy(&of_filter, filter + i * of_channel, sizeof(of_filter));
          sums.i32x16[i] = _mm512_dpbusd_epi32(sums.i32x16[i], taps_u8x64, _mm512_set1_epi32(of_filter));
          if constexpr (!is_plain) {
            codes.i32x16[i] = _mm512_dpbusd_epi32(codes.i32x16[i], taps_u8x64, ones_of(run_.columns, group));
          }
        }
      }
    }
    for (int i = 0; !is_plain && i < 4; ++i) {
      const __m512i zero_point_i32x16 = _mm512_set1_epi32(channels.filter_zero_point[i * step]);
      sums.i32x16[i] = _mm512_sub_epi32(sums.i32x16[i], _mm512_mullo_epi32(codes.i32x16[i], zero_point_i32x16));
    }
    return sums;
  }

  const DepthwisePlanesRun run_;  // a copy, which no store of a code might change
  const std::size_t rows_, groups_;
  const PlaneVectors vectors_;
};

template <std::size_t size>
void convolve_windows(const DepthwisePlanesRun& run) noexcept {
  is_plain_run(run) ? Windows<size, true>(run).convolve() : Windows<size, false>(run).convolve();
}
