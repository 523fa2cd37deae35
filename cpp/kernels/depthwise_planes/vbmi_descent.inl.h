// Windows of 3x3 and 5x5: a row of the input is brought to its lanes once, and added to all outputs whose windows have
// it, whose sums wait in registers. For 16 outputs of a 3x3 window that is a permutation, the padding's code moved
// before it, three products and some four operations that make codes: 4 cycles of two vector ports; 6 at row stride 2.
// Included inside the unnamed namespace of a kernel file, behind vbmi_channels.inl.h.

struct Window {
  std::size_t size, row_stride;

  constexpr std::size_t groups() const noexcept { return plane_groups(size); }
  // Outputs above the one whose first row a step reads, which read it as well.
  constexpr std::size_t waiting() const noexcept { return (size - 1) / row_stride; }
};

template <Window window, bool is_plain>
class Descent {
 public:
  explicit Descent(const DepthwisePlanesRun& run) noexcept : run_(run), vectors_(run) {}

  void convolve() const noexcept {
    for (std::size_t first = 0; first < run_.channels; first += kPlaneTileChannels) {
      const PlaneTile tile(run_, first);
      for (std::size_t i = 0; i < tile.size; ++i) convolve_blocks(tile.channels[i]);
    }
  }

 private:
  static constexpr std::size_t kGroups = window.groups(), kWaiting = window.waiting();

  // [output][channel]: output 0 is the one whose first row is read, the last one is complete behind a step.
  struct State {
    __m512i sums_i32x16[kWaiting + 1][kPlaneChannels];
    __m512i codes_i32x16[kWaiting + 1][kPlaneChannels];  // the sums of codes
    __m512i order_u8x64[kGroups];
    const std::uint8_t* rows[kPlaneChannels];
    const std::uint64_t* inside;
  };

  void convolve_blocks(const PlaneChannels& of_tile) const noexcept {
    const PlaneChannels channels = of_tile;  // a copy, which no store of a code might change
    for (std::size_t number = 0; number < run_.block_count; ++number) {
      const PlaneBlock block = run_.blocks[number];
      switch (loads_of(run_, channels.are_readable(run_, block))) {
        case Loads::as_they_are:
          convolve_block<Loads::as_they_are>(block, channels);
          break;
        case Loads::flipped:
          convolve_block<Loads::flipped>(block, channels);
          break;
        case Loads::masked:
          convolve_block<Loads::masked>(block, channels);
      }
    }
  }

  // The first steps begin outputs and the last ones end some; between them each does both.
  template <Loads loads>
  void convolve_block(const PlaneBlock& block, const PlaneChannels& channels) const noexcept {
    State state;
    for (std::size_t group = 0; group < kGroups; ++group) {
      state.order_u8x64[group] = _mm512_load_si512(run_.orders + block.order + group * kPlaneBytes);
    }
    state.inside = run_.inside + block.inside;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kPlaneChannels; ++i) {
      state.rows[i] = channels.input + block.first +
                      static_cast<std::ptrdiff_t>(i) * channel_step<loads>(channels) * run_.input_plane_step;
    }
    __m512i complete_i32x16[kPlaneSteps][kPlaneChannels];
    begin_steps<0, loads>(state, channels);
    std::size_t step = 0;
    for (; step + kWaiting < block.steps; ++step) {
      add_step<0, kWaiting + 1, loads>(state, channels);
      finish_step<loads>(state, channels, complete_i32x16[step]);
    }
    end_steps<1, loads>(state, channels, complete_i32x16, block.steps - kWaiting, step);
    store_steps(complete_i32x16, channels, channel_step<loads>(channels), block);
  }

  // Codes of all steps, which so fill the queue in front of the vector unit less than among what makes sums.
  void store_steps(const __m512i (*sums_i32x16)[kPlaneChannels], const PlaneChannels& channels,
                   std::ptrdiff_t channel_step, const PlaneBlock& block) const noexcept {
    const __m512i zero_point_i16x32 = vectors_.zero_point_i16x32, flip_u8x64 = vectors_.flip_u8x64;
    const std::ptrdiff_t plane_step = channel_step * run_.output_plane_step, output_step = run_.output_step;
    const std::size_t lanes = block.lanes, steps = block.steps;
    const __mmask16 mask = lane_mask(lanes);
    std::uint8_t* output = channels.output + block.output;
    for (std::size_t step = 0; step < steps; ++step, output += output_step) {
      const __m512i codes_u8x64 = codes_of<is_plain>(sums_i32x16[step], read_anew(channels.multiplier), channel_step,
                                                     zero_point_i16x32, flip_u8x64);
      if (lanes == kPlaneLanes) {
        store_codes<false>(output, plane_step, kAllLanes, codes_u8x64);
      } else {
        store_codes<true>(output, plane_step, mask, codes_u8x64);
      }
    }
  }

  template <std::size_t number, Loads loads>
  __attribute__((always_inline)) void begin_steps(State& state, const PlaneChannels& channels) const noexcept {
    if constexpr (number < kWaiting) {
      add_step<0, number + 1, loads>(state, channels);
      move_on<number + 1>(state);
      begin_steps<number + 1, loads>(state, channels);
    }
  }

  template <std::size_t number, Loads loads>
  __attribute__((always_inline)) void end_steps(State& state, const PlaneChannels& channels,
                                                __m512i (*complete_i32x16)[kPlaneChannels], std::size_t first,
                                                std::size_t step) const noexcept {
    if constexpr (number <= kWaiting) {
      if (first + number - 1 == step) {  // not so where a block has fewer steps than outputs wait
        add_step<number, kWaiting + 1, loads>(state, channels);
        finish_step<loads>(state, channels, complete_i32x16[step]);
        ++step;
      }
      end_steps<number + 1, loads>(state, channels, complete_i32x16, first, step);
    }
  }

  template <Loads loads>
  __attribute__((always_inline)) static std::ptrdiff_t channel_step(const PlaneChannels& channels) noexcept {
    return loads == Loads::masked ? channels.step : 1;
  }

  // The outputs that have begun are those above the one that begins next.
  template <std::size_t begun>
  __attribute__((always_inline)) static void move_on(State& state) noexcept {
#pragma GCC unroll 8
    for (std::size_t j = begun; j > 0; --j) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kPlaneChannels; ++i) {
        state.sums_i32x16[j][i] = state.sums_i32x16[j - 1][i];
        if constexpr (!is_plain) state.codes_i32x16[j][i] = state.codes_i32x16[j - 1][i];
      }
    }
  }

  // Adds the next rows of the input to outputs begin .. end - 1.
  template <std::size_t begin, std::size_t end, Loads loads>
  __attribute__((always_inline)) void add_step(State& state, const PlaneChannels& channels) const noexcept {
    if constexpr (begin == 0) {
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kPlaneChannels; ++i) {
        const auto number = static_cast<std::ptrdiff_t>(i) * channel_step<loads>(channels);
        state.sums_i32x16[0][i] = _mm512_set1_epi32(channels.offset[number]);
        if constexpr (!is_plain) state.codes_i32x16[0][i] = _mm512_setzero_si512();
      }
    }
#pragma GCC unroll 2
    for (std::size_t row = 0; row < window.row_stride; ++row) {
      if (row + window.row_stride * begin < window.size) add_row<begin, end, loads>(state, channels, row);
    }
  }

  template <std::size_t begin, std::size_t end, Loads loads>
  __attribute__((always_inline)) void add_row(State& state, const PlaneChannels& channels,
                                              std::size_t row) const noexcept {
    constexpr std::size_t kChannelBytes = window.size * kGroups * 4;
    const std::int8_t* const filters = read_anew(channels.filter);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kPlaneChannels; ++i) {
      const __m512i bytes_u8x64 = load_bytes<loads>(state.rows[i], run_, vectors_);
      state.rows[i] += run_.row_step;
      const std::int8_t* const filter =
          filters + static_cast<std::ptrdiff_t>(i * kChannelBytes) * channel_step<loads>(channels);
      __m512i codes_i32x16 = _mm512_setzero_si512();
#pragma GCC unroll 2
      for (std::size_t group = 0; group < kGroups; ++group) {
        const __m512i taps_u8x64 = _mm512_mask_permutexvar_epi8(vectors_.padding_u8x64, state.inside[group],
                                                                state.order_u8x64[group], bytes_u8x64);
        if constexpr (!is_plain)
          codes_i32x16 = _mm512_dpbusd_epi32(codes_i32x16, taps_u8x64, ones_of(window.size, group));
#pragma GCC unroll 5
        for (std::size_t j = begin; j < end; ++j) {
          const std::size_t row_of_window = row + window.row_stride * j;
          if (row_of_window >= window.size) continue;
          int of_filter;
          std::memcpy(&of_filter, filter + (row_of_window * kGroups + group) * 4, sizeof(of_filter));
          state.sums_i32x16[j][i] =
              _mm512_dpbusd_epi32(state.sums_i32x16[j][i], taps_u8x64, _mm512_set1_epi32(of_filter));
        }
      }
#pragma GCC unroll 5
      for (std::size_t j = begin; j < end && !is_plain; ++j) {
        if (row + window.row_stride * j >= window.size) continue;
        state.codes_i32x16[j][i] = _mm512_add_epi32(state.codes_i32x16[j][i], codes_i32x16);
      }
    }
    state.inside += kGroups;
  }

  template <Loads loads>
  __attribute__((always_inline)) void finish_step(State& state, const PlaneChannels& channels,
                                                  __m512i* complete_i32x16) const noexcept {
    const std::ptrdiff_t of_channel = channel_step<loads>(channels);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kPlaneChannels; ++i) {
      complete_i32x16[i] = state.sums_i32x16[kWaiting][i];
      if constexpr (is_plain) continue;
      const std::int32_t zero_point = channels.filter_zero_point[static_cast<std::ptrdiff_t>(i) * of_channel];
      const __m512i corrected_i32x16 =
          _mm512_mullo_epi32(state.codes_i32x16[kWaiting][i], _mm512_set1_epi32(zero_point));
      complete_i32x16[i] = _mm512_sub_epi32(complete_i32x16[i], corrected_i32x16);
    }
    move_on<kWaiting>(state);
  }

  const DepthwisePlanesRun run_;  // a copy, which no store of a code might change
  const PlaneVectors vectors_;
};

template <Window window>
void descend(const DepthwisePlanesRun& run) noexcept {
  is_plain_run(run) ? Descent<window, true>(run).convolve() : Descent<window, false>(run).convolve();
}
