// float_depthwise.h in blocks of sums that stay in registers, on the vectors of an instruction set: of four pixels, so
// that what is read of the filter serves four steps, or of one.
// Included inside the unnamed namespace of a kernel file, behind masked_floats/<isa>.inl.h and
//
//   kVectors, kPixelVectors      the vectors of channels of a block of four pixels, and of one

template <std::size_t pixels, std::size_t vectors>
inline void clip_sums(const FloatBounds* bounds, Floats (&sum)[pixels][vectors]) noexcept {
  if (bounds == nullptr) return;
  const Floats lower = spread(bounds->lower), upper = spread(bounds->upper);
#pragma GCC unroll 8
  for (std::size_t p = 0; p < pixels; ++p) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) sum[p][v] = smaller(upper, larger(lower, sum[p][v]));
  }
}

// A block; of a masked one the last vector is cut off at the end of the channels.
template <std::size_t pixels, std::size_t vectors, bool masked>
inline void write_block(const FloatDepthwiseRun& run, std::size_t pixel, std::size_t channel) noexcept {
  const Mask mask = first_lanes((run.channels - channel - 1) % kLanes + 1);
  const auto load_vector = [mask](const float* values, std::size_t v) noexcept {
    return masked && v + 1 == vectors ? load(values + v * kLanes, mask) : load(values + v * kLanes);
  };
  Floats sum[pixels][vectors];
#pragma GCC unroll 8
  for (std::size_t v = 0; v < vectors; ++v) {
    const Floats first = run.bias == nullptr ? zeros() : load_vector(run.bias + channel, v);
#pragma GCC unroll 8
    for (std::size_t p = 0; p < pixels; ++p) sum[p][v] = first;
  }
  const float* filter = run.filter + channel;
  for (std::size_t t = 0; t < run.tap_count; ++t, filter += run.filter_row_stride) {
    const std::size_t step = run.taps[t].step;
    const float* input = run.taps[t].input + pixel * step + run.first_channel + channel;
    Floats of_filter[vectors];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < vectors; ++v) of_filter[v] = load_vector(filter, v);
#pragma GCC unroll 8
    for (std::size_t p = 0; p < pixels; ++p, input += step) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) sum[p][v] = fused(load_vector(input, v), of_filter[v], sum[p][v]);
    }
  }
  clip_sums(run.bounds, sum);
  float* output = run.output + pixel * run.output_pixel_stride + channel;
#pragma GCC unroll 8
  for (std::size_t p = 0; p < pixels; ++p, output += run.output_pixel_stride) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v + masked < vectors; ++v) store(output + v * kLanes, sum[p][v]);
    if (masked) store(output + (vectors - 1) * kLanes, mask, sum[p][vectors - 1]);
  }
}

// The channels that are left, in as few vectors as hold them.
template <std::size_t pixels, std::size_t vectors>
inline void write_last(const FloatDepthwiseRun& run, std::size_t pixel, std::size_t channel) noexcept {
  if constexpr (vectors > 1) {
    if (run.channels - channel <= (vectors - 1) * kLanes) return write_last<pixels, vectors - 1>(run, pixel, channel);
  }
  write_block<pixels, vectors, true>(run, pixel, channel);
}

template <std::size_t pixels, std::size_t vectors>
inline void write_pixels(const FloatDepthwiseRun& run, std::size_t pixel) noexcept {
  std::size_t channel = 0;
  for (; channel + vectors * kLanes <= run.channels; channel += vectors * kLanes) {
    write_block<pixels, vectors, false>(run, pixel, channel);
  }
  if (channel < run.channels) write_last<pixels, vectors>(run, pixel, channel);
}

void convolve(const FloatDepthwiseRun& run) noexcept {
  std::size_t pixel = 0;
  for (; pixel + 4 <= run.pixels; pixel += 4) write_pixels<4, kVectors>(run, pixel);
  for (; pixel < run.pixels; ++pixel) write_pixels<1, kPixelVectors>(run, pixel);
}
