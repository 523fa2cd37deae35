// The pixels of float_pool.h, in the lanes of an instruction set.
// Included, after windows.inl.h, inside the unnamed namespace of a kernel file.

// Pixels of a row that have equally many taps.
template <class Function, std::size_t count>
inline void write_together(const FloatPixels& pixels, std::size_t y, std::size_t x, float* output) noexcept {
  const FloatPixels::Taps rows = pixels.rows[y];
  const FloatPixels::Taps* columns = pixels.columns + x;
  const float* row = pixels.input + rows.first;
  Floats results[count];
  for (std::size_t v = 0; v < count; ++v) results[v] = spread(Function::kFirst);
  for (std::int32_t i = 0; i < rows.count; ++i, row += pixels.row_step) {
    const float* tap = row;
    for (std::int32_t j = 0; j < columns[0].count; ++j, tap += pixels.column_step) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < count; ++v) results[v] = Function::of(results[v], load(tap + columns[v].first));
    }
  }
  if constexpr (Function::kDivides) {
    const float* divisors = pixels.divisors + (pixels.divisor_repeats ? 0 : y * pixels.column_count + x);
    for (std::size_t v = 0; v < count; ++v) results[v] = results[v] / spread(divisors[pixels.divisor_repeats ? 0 : v]);
  }
  for (std::size_t v = 0; v < count; ++v) store(output + v * kLanes, results[v]);
}

template <class Function>
void write_pixels(const FloatPixels& operands) noexcept {
  constexpr std::size_t kTogether = 4;
  const FloatPixels pixels = operands;  // a copy: the output could alias the original
  float* output = pixels.output;
  const auto are_alike = [&](std::size_t x) noexcept {
    if (x + kTogether > pixels.column_count) return false;
    for (std::size_t v = 1; v < kTogether; ++v) {
      if (pixels.columns[x + v].count != pixels.columns[x].count) return false;
    }
    return true;
  };
  for (std::size_t y = 0; y < pixels.row_count; ++y) {
    for (std::size_t x = 0; x < pixels.column_count;) {
      const bool together = are_alike(x);
      together ? write_together<Function, kTogether>(pixels, y, x, output)
               : write_together<Function, 1>(pixels, y, x, output);
      x += together ? kTogether : 1;
      output += (together ? kTogether : 1) * kLanes;
    }
  }
}

template <class Function>
constexpr FloatPoolFunctions kFunctionsOf = {.runs = write_windows<Function>, .pixels = write_pixels<Function>};

constexpr FloatPoolKernels kKernels = {.lanes = kLanes,
                                       .sums = kFunctionsOf<Sum>,
                                       .maxima = kFunctionsOf<Maximum>,
                                       .minima = kFunctionsOf<Minimum>,
                                       .averages_of_plane = averages_of_plane,
                                       .largest = extreme_of_window<Maximum>,
                                       .smallest = extreme_of_window<Minimum>};
