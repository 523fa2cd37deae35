// Rows and columns of floats of layer_normalization.h in the lanes of an instruction set.
// Included, after lanes/steps_of_sixteen.inl.h, inside the unnamed namespace of a kernel file.

float row_sum(const float* row, std::size_t count) noexcept {
  Floats sums[kVectors];
  for (Floats& sum : sums) sum = spread(0.0f);
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    sums[v] = sums[v] + (lanes == kLanes ? load(row + i) : load_first(row + i, lanes, 0.0f));
  });
  return folded(sums);
}

// The partial sums of up to kStrip columns, [16][kStrip]; of fewer rows than 16 as many as there are. Those that are
// left out are 0, and none of the others is -0, so that to add them would change nothing.
constexpr std::size_t kStrip = 128;

// Calls body(first column, count) for every vector of a strip.
template <class Body>
inline void for_each_column(std::size_t columns, const Body& body) noexcept {
  std::size_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) body(c, kLanes);
  if (c < columns) body(c, columns - c);
}

inline void strip_quotients(const float* input, std::size_t step, std::size_t count, std::size_t columns, float divisor,
                            float* quotients) noexcept {
  alignas(64) float sums[kStep][kStrip];
  for (std::size_t i = 0; i < count; ++i) {
    const float* row = input + i * step;
    float* sum = sums[i % kStep];
    const bool is_first = i < kStep;
    for_each_column(columns, [&](std::size_t c, std::size_t lanes) {
      const Floats term = lanes == kLanes ? load(row + c) : load_first(row + c, lanes, 0.0f);
      store(sum + c, (is_first ? spread(0.0f) : load(sum + c)) + term);
    });
  }
  std::size_t present = count < kStep ? count : kStep;
  for (std::size_t half = kStep / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j + half < present; ++j) {
      for_each_column(columns, [&](std::size_t c, std::size_t) {
        store(sums[j] + c, load(sums[j] + c) + load(sums[j + half] + c));
      });
    }
    present = present < half ? present : half;
  }
  const Floats divisors = spread(divisor);
  for_each_column(columns, [&](std::size_t c, std::size_t lanes) {
    const Floats quotient = load(sums[0] + c) / divisors;
    lanes == kLanes ? store(quotients + c, quotient) : store_first(quotients + c, lanes, quotient);
  });
}

void column_quotients(const FloatColumns& run) noexcept {
  for (std::size_t first = 0; first < run.columns; first += kStrip) {
    const std::size_t columns = run.columns - first < kStrip ? run.columns - first : kStrip;
    strip_quotients(run.input + first, run.step, run.count, columns, run.divisor, run.quotients + first);
  }
}

// The mean but for some units in the last place; additions in two chains, which would otherwise take most of the time.
inline float near_mean(const float* row, std::size_t count) noexcept {
  Floats sums[kVectors], others[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = others[v] = spread(0.0f);
  std::size_t whole = 0;
  for (; whole + 2 * kStep <= count; whole += 2 * kStep) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      sums[v] = sums[v] + load(row + whole + v * kLanes);
      others[v] = others[v] + load(row + whole + kStep + v * kLanes);
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = sums[v] + others[v];
  for_each_vector(count - whole, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    sums[v] = sums[v] + (lanes == kLanes ? load(row + whole + i) : load_first(row + whole + i, lanes, 0.0f));
  });
  return folded(sums) * (1.0f / static_cast<float>(count));
}

struct RowDistribution {
  float near_mean;
  float error;    // the mean less near_mean
  float inverse;  // of the deviation
};

// Lanes behind the end hold near_mean, so that they add 0: or NaN, where every element of the row makes NaN too.
template <bool kUsesMean>
inline RowDistribution row_distribution(const float* row, std::size_t count, float epsilon) noexcept {
  const float near = kUsesMean ? near_mean(row, count) : 0.0f, length = static_cast<float>(count);
  Floats sums[kVectors], squares[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) sums[v] = squares[v] = spread(0.0f);
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    Floats distance = lanes == kLanes ? load(row + i) : load_first(row + i, lanes, near);
    if constexpr (kUsesMean) {
      distance = distance - spread(near);
      sums[v] = sums[v] + distance;
    }
    squares[v] = fused(distance, distance, squares[v]);
  });
  float radicand = folded(squares) / length + epsilon, error = 0.0f;
  if constexpr (kUsesMean) {
    error = folded(sums) / length;
    radicand = fused(-error, error, radicand);
    radicand = epsilon > radicand ? epsilon : radicand;  // which keeps NaN
  }
  return {.near_mean = near, .error = error, .inverse = 1.0f / square_root(radicand)};
}

template <bool kUsesMean>
inline void normalize_row(const FloatNormalization& row) noexcept {
  const float *input = row.input, *weight = row.weight, *bias = row.bias;
  float* output = row.output;
  const RowDistribution distribution = row_distribution<kUsesMean>(input, row.count, row.epsilon);
  const Floats near_means = spread(distribution.near_mean), errors = spread(distribution.error);
  const Floats inverse = spread(distribution.inverse);
  for_each_vector(row.count, [&](std::size_t i, std::size_t, std::size_t lanes) {
    const bool whole = lanes == kLanes;
    Floats distance = whole ? load(input + i) : load_first(input + i, lanes, 0.0f);
    if constexpr (kUsesMean) distance = (distance - near_means) - errors;
    const Floats normalized = distance * inverse;
    if (whole) {
      store(output + i, fused(normalized, load(weight + i), load(bias + i)));
    } else {
      store_first(output + i, lanes,
                  fused(normalized, load_first(weight + i, lanes, 0.0f), load_first(bias + i, lanes, 0.0f)));
    }
  });
}

void normalize_floats(const FloatNormalization& row) noexcept {
  row.uses_mean ? normalize_row<true>(row) : normalize_row<false>(row);
}

void normalize_group(const FloatGroup& group) noexcept {
  const float* input = group.input;
  float* output = group.output;
  const std::size_t count = group.count;
  const RowDistribution distribution = row_distribution<true>(input, group.channels * count, group.epsilon);
  const Floats near_means = spread(distribution.near_mean), errors = spread(distribution.error);
  const Floats inverse = spread(distribution.inverse);
  for (std::size_t channel = 0; channel < group.channels; ++channel, input += count, output += count) {
    const Floats weight = spread(group.weight[channel]), bias = spread(group.bias[channel]);
    for_each_vector(count, [&](std::size_t i, std::size_t, std::size_t lanes) {
      const bool whole = lanes == kLanes;
      const Floats distance = (whole ? load(input + i) : load_first(input + i, lanes, 0.0f)) - near_means;
      const Floats result = (distance - errors) * inverse * weight + bias;
      whole ? store(output + i, result) : store_first(output + i, lanes, result);
    });
  }
}
