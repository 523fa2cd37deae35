// The columns of resample.h, in the lanes of an instruction set.
// Included, after the lanes, inside the unnamed namespace of a kernel file.

inline Floats between(Floats lower, Floats upper, Floats weight) noexcept { return lower + (upper - lower) * weight; }

inline float between_numbers(float lower, float upper, float weight) noexcept {
  return lower + (upper - lower) * weight;
}

// One channel: every lane a column of its own.
inline void resample_plane(const ResampleColumns& run) noexcept {
  std::size_t column = 0;
  for (; column + kLanes <= run.columns; column += kLanes) {
    const Floats lower = load_at(run.input, run.lower + column), upper = load_at(run.input, run.upper + column);
    store(run.output + column, between(lower, upper, load(run.weight + column)));
  }
  for (; column < run.columns; ++column) {
    const float lower = run.input[run.lower[column]], upper = run.input[run.upper[column]];
    run.output[column] = between_numbers(lower, upper, run.weight[column]);
  }
}

void resample_columns(const ResampleColumns& run) noexcept {
  if (run.channels == 1) return resample_plane(run);
  float* output = run.output;
  for (std::size_t column = 0; column < run.columns; ++column, output += run.channels) {
    const float *lower = run.input + run.lower[column], *upper = run.input + run.upper[column];
    const Floats weight = spread(run.weight[column]);
    std::size_t c = 0;
    for (; c + kLanes <= run.channels; c += kLanes) {
      store(output + c, between(load(lower + c), load(upper + c), weight));
    }
    if (c < run.channels) {
      const std::size_t rest = run.channels - c;
      store_first(output + c, rest,
                  between(load_first(lower + c, rest, 0.0f), load_first(upper + c, rest, 0.0f), weight));
    }
  }
}
