// Rows and columns of floats of layer_normalization.h in the lanes of an instruction set.
// Included, after lanes/steps_of_sixteen.inl.h, inside the unnamed namespace of a kernel file.

float row_mean(const float* row, std::size_t count) noexcept {
  Floats sums[kVectors];
  for (Floats& sum : sums) sum = spread(0.0f);
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    sums[v] = sums[v] + (lanes == kLanes ? load(row + i) : load_first(row + i, lanes, 0.0f));
  });
  return folded(sums) / static_cast<float>(count);
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

inline void strip_means(const float* input, std::size_t step, std::size_t count, std::size_t columns,
                        float* means) noexcept {
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
  const Floats length = spread(static_cast<float>(count));
  for_each_column(columns, [&](std::size_t c, std::size_t lanes) {
    const Floats mean = load(sums[0] + c) / length;
    lanes == kLanes ? store(means + c, mean) : store_first(means + c, lanes, mean);
  });
}

void column_means(const FloatColumns& run) noexcept {
  for (std::size_t first = 0; first < run.columns; first += kStrip) {
    const std::size_t columns = run.columns - first < kStrip ? run.columns - first : kStrip;
    strip_means(run.input + first, run.step, run.count, columns, run.means + first);
  }
}

// Lanes behind the end hold the mean in the second pass, so that they add 0: or NaN, where every element of the row
// makes NaN too.
void normalize_floats(const FloatNormalization& row) noexcept {
  const float *input = row.input, *weight = row.weight, *bias = row.bias;
  float* output = row.output;
  const std::size_t count = row.count;
  Floats squares[kVectors];
  for (Floats& square : squares) square = spread(0.0f);
  const float mean = row.uses_mean ? row_mean(input, count) : 0.0f;
  const Floats means = spread(mean);
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    const Floats distance = (lanes == kLanes ? load(input + i) : load_first(input + i, lanes, mean)) - means;
    squares[v] = fused(distance, distance, squares[v]);
  });
  const float variance = folded(squares) / static_cast<float>(count);
  const Floats inverse = spread(1.0f) / square_root(spread(variance + row.epsilon));
  for_each_vector(count, [&](std::size_t i, std::size_t, std::size_t lanes) {
    if (lanes == kLanes) {
      store(output + i, fused((load(input + i) - means) * inverse, load(weight + i), load(bias + i)));
    } else {
      const Floats normalized = (load_first(input + i, lanes, mean) - means) * inverse;
      store_first(output + i, lanes,
                  fused(normalized, load_first(weight + i, lanes, 0.0f), load_first(bias + i, lanes, 0.0f)));
    }
  });
}
