// The rows of floats of softmax.h in the lanes of an instruction set.
// Included, after lanes/functions.inl.h and lanes/steps_of_sixteen.inl.h, inside the unnamed namespace of a kernel
// file.

inline float row_maximum(const float* input, std::size_t count) noexcept {
  const float lowest = -__builtin_inff();
  Floats maxima[kVectors];
  for (Floats& maximum : maxima) maximum = spread(lowest);
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    const Floats x = lanes == kLanes ? load(input + i) : load_first(input + i, lanes, lowest);
    maxima[v] = larger(x, maxima[v]);
  });
  for (std::size_t v = 1; v < kVectors; ++v) maxima[0] = larger(maxima[v], maxima[0]);
  return largest(maxima[0]);
}

// Distances below -87, such as those of what masks hide, count as -infinity: their powers would be subnormal numbers,
// which take processors ten times as long.
inline Floats distance_of(Floats x, Floats maximum) noexcept {
  const Floats distance = x - maximum;
  return select(less(distance, spread(-87.0f)), spread(-__builtin_inff()), distance);
}

// Lanes behind the end hold -infinity, whose exponential adds 0; or NaN, where every element of the row makes NaN too.
void softmax_floats(const FloatSoftmaxRow& row) noexcept {
  const float *input = row.input, lowest = -__builtin_inff();
  float* output = row.output;
  const std::size_t count = row.count;
  const Floats maximum = spread(row_maximum(input, count));
  Floats sums[kVectors];
  for (Floats& sum : sums) sum = spread(0.0f);
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    const bool whole = lanes == kLanes;
    const Floats x = whole ? load(input + i) : load_first(input + i, lanes, lowest);
    const Floats power = exponential(distance_of(x, maximum));
    sums[v] = sums[v] + power;
    whole ? store(output + i, power) : store_first(output + i, lanes, power);
  });
  const Floats sum = spread(folded(sums));
  for_each_vector(count, [&](std::size_t i, std::size_t, std::size_t lanes) {
    if (lanes == kLanes) {
      store(output + i, load(output + i) / sum);
    } else {
      store_first(output + i, lanes, load_first(output + i, lanes, 0.0f) / sum);
    }
  });
}

// The same exponentials, of which only the sum is wanted.
void softmax_logarithms(const FloatSoftmaxRow& row) noexcept {
  const float *input = row.input, lowest = -__builtin_inff();
  const Floats maximum = spread(row_maximum(input, row.count));
  const auto distances = [&](std::size_t i, std::size_t lanes) {
    return (lanes == kLanes ? load(input + i) : load_first(input + i, lanes, lowest)) - maximum;
  };
  Floats sums[kVectors];
  for (Floats& sum : sums) sum = spread(0.0f);
  for_each_vector(row.count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    sums[v] = sums[v] + exponential(distances(i, lanes));
  });
  const Floats of_sum = logarithm(spread(folded(sums)));
  for_each_vector(row.count, [&](std::size_t i, std::size_t, std::size_t lanes) {
    const Floats result = distances(i, lanes) - of_sum;
    lanes == kLanes ? store(row.output + i, result) : store_first(row.output + i, lanes, result);
  });
}
