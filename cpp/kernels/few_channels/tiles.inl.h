// few_channels.h on the vectors of an instruction set: tiles of up to four channels by some vectors of pixels, whose
// sums stay in registers over all taps. Included inside the unnamed namespace of a kernel file, which has
//
//   Integers      a vector of kLanes 32-bit sums, and integers_of(value), which repeats one
//   Activations   the codes of as many pixels, and activations_at(bytes)
//   Factors       four codes of the filter, and factors_at(bytes), of which there are kFactorBytes
//   plus_products(sum, activations, factors), minus_product(sum, a, b)
//   store_codes<vectors>(sums, channel, count, output), which makes codes of count sums and writes them
//   kVectors<filters>: vectors of pixels that registers have room for beside so many filters

template <std::size_t channels, bool sums_codes>
constexpr std::size_t kFilters = channels + (sums_codes ? 1 : 0);

// Up to `vectors` vectors of pixels from one on, of `channels` channels.
template <std::size_t vectors, std::size_t channels, bool sums_codes>
void convolve_tile(const FewChannelsRun& run, std::size_t channel, std::size_t pixel) noexcept {
  constexpr std::size_t filters = kFilters<channels, sums_codes>;
  Integers sums[filters][vectors];
  for (std::size_t c = 0; c < filters; ++c) {
    for (Integers& sum : sums[c]) sum = integers_of(c < channels ? run.offset[channel + c] : 0);
  }
  const std::uint8_t* filter = run.filter;
  for (std::size_t row = 0; row < run.row_count; ++row) {
    for (std::size_t segment = 0; segment < run.segments; ++segment, filter += (run.channels + 1) * kFactorBytes) {
      const std::uint8_t* codes = run.rows[row] + run.offsets[segment] + pixel * 4;
      Factors factors[filters];
      for (std::size_t c = 0; c < filters; ++c) {
        factors[c] = factors_at(filter + (c < channels ? channel + c : run.channels) * kFactorBytes);
      }
      for (std::size_t v = 0; v < vectors; ++v) {
        const Activations activations = activations_at(codes + v * kLanes * 4);
        for (std::size_t c = 0; c < filters; ++c) sums[c][v] = plus_products(sums[c][v], activations, factors[c]);
      }
    }
  }
  const std::size_t left = run.pixels - pixel, count = left < vectors * kLanes ? left : vectors * kLanes;
  for (std::size_t c = 0; c < channels; ++c) {
    if constexpr (sums_codes) {
      const Integers zero_point = integers_of(run.filter_zero_point[channel + c]);
      for (std::size_t v = 0; v < vectors; ++v) {
        sums[c][v] = minus_product(sums[c][v], zero_point, sums[channels][v]);
      }
    }
    store_codes<vectors>(run, sums[c], channel + c, count,
                         run.output + (channel + c) * run.output_channel_stride + pixel);
  }
}

// All pixels from one on, in tiles of `vectors` vectors, then of half as many, and so on.
template <std::size_t vectors, std::size_t channels, bool sums_codes>
void convolve_pixels(const FewChannelsRun& run, std::size_t channel, std::size_t pixel) noexcept {
  constexpr std::size_t step = vectors * kLanes;
  // The last vector may be a part of one.
  const std::size_t last = vectors == 1 ? kLanes - 1 : 0;
  for (; pixel + step <= run.pixels + last; pixel += step)
    convolve_tile<vectors, channels, sums_codes>(run, channel, pixel);
  if constexpr (vectors > 1) convolve_pixels<vectors / 2, channels, sums_codes>(run, channel, pixel);
}

template <bool sums_codes>
void convolve_channels(const FewChannelsRun& run) noexcept {
  for (std::size_t channel = 0; channel < run.channels; channel += 4) {
    switch (run.channels - channel) {
      case 1:
        convolve_pixels<kVectors<kFilters<1, sums_codes>>, 1, sums_codes>(run, channel, 0);
        break;
      case 2:
        convolve_pixels<kVectors<kFilters<2, sums_codes>>, 2, sums_codes>(run, channel, 0);
        break;
      case 3:
        convolve_pixels<kVectors<kFilters<3, sums_codes>>, 3, sums_codes>(run, channel, 0);
        break;
      default:
        convolve_pixels<kVectors<kFilters<4, sums_codes>>, 4, sums_codes>(run, channel, 0);
    }
  }
}

void convolve(const FewChannelsRun& operands) noexcept {
  const FewChannelsRun run = operands;  // a copy: bytes of output could alias the original
  (run.filter_zero_point != nullptr ? convolve_channels<true> : convolve_channels<false>)(run);
}
