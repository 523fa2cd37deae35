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

// Finds the same, and whether no element is more than 30 below it but those that are NaN: then all powers are from
// e^-30 on, and quotients by no large sum normal numbers. The elements are passed over as by the maximum alone.
inline bool row_is_near(const float* input, std::size_t count, float& maximum) noexcept {
  const float highest = __builtin_inff();
  Floats maxima[kVectors], minima[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    maxima[v] = spread(-highest);
    minima[v] = spread(highest);
  }
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    const Floats x = lanes == kLanes ? load(input + i) : load_first(input + i, lanes, *input);
    maxima[v] = larger(x, maxima[v]);
    minima[v] = smaller(x, minima[v]);
  });
  for (std::size_t v = 1; v < kVectors; ++v) {
    maxima[0] = larger(maxima[v], maxima[0]);
    minima[0] = smaller(minima[v], minima[0]);
  }
  maximum = largest(maxima[0]);
  return -largest(negated(minima[0])) - maximum >= -30.0f;
}

// Distances below -87, such as those of what masks hide, count as -infinity: their powers would be subnormal numbers,
// which take processors ten times as long. No distance is above 0.
inline Floats power_of(Floats x, Floats maximum) noexcept {
  const Floats distance = x - maximum;
  const Floats power = normal_exponential(larger(spread(-87.0f), distance));
  return select(less(distance, spread(-87.0f)), spread(0.0f), power);
}

// e / s by the reciprocal of s, correctly rounded:
//
//   r = 1 / s,  rest = (1 - r * s) * r;   q0 = e * r + e * rest,  rem = e - q0 * s,  q = q0 + rem * r
//
// r and rest together are 1 / s to twice the digits, so that q0 is within a unit in the last place; r is correctly
// rounded, and so is q then (Markstein's theorem) if nothing underflows. For s of 1 to 2^64 and quotients from 2^-60 on
// nothing does: rem is a multiple of the units of q0 and s multiplied, 2^-83 * 2^-23. Of 0 it is 0. Vectors that hold
// smaller quotients are divided.
struct Divisor {
  Floats sum, reciprocal, rest, least;

  explicit Divisor(float of_row) noexcept : sum(spread(of_row)) {
    reciprocal = spread(1.0f) / sum;
    rest = fused(negated(reciprocal), sum, spread(1.0f)) * reciprocal;
    least = sum * spread(0x1p-60f);
  }

  Floats quotient(Floats e) const noexcept {
    return any(both(less(e, least), less(spread(0.0f), e))) ? e / sum : normal_quotient(e);
  }

  Floats normal_quotient(Floats e) const noexcept {
    const Floats q0 = fused(e, reciprocal, e * rest);
    return fused(fused(negated(q0), sum, e), reciprocal, q0);
  }
};

// Lanes behind the end hold -infinity, whose exponential adds 0; or NaN, where every element of the row makes NaN too.
void softmax_floats(const FloatSoftmaxRow& row) noexcept {
  const float *input = row.input, lowest = -__builtin_inff();
  float* output = row.output;
  const std::size_t count = row.count;
  constexpr std::size_t kLongRow = 128;  // of shorter ones looking for the minimum takes longer than it saves
  float maximum_of_row;
  const bool is_near = count >= kLongRow && row_is_near(input, count, maximum_of_row);
  if (count < kLongRow) maximum_of_row = row_maximum(input, count);
  const Floats maximum = spread(maximum_of_row);
  Floats sums[kVectors];
  for (Floats& sum : sums) sum = spread(0.0f);
  const auto write_powers = [&](const auto& power_of_near) {
    for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
      if (lanes == kLanes) {
        const Floats power = power_of_near(load(input + i));
        sums[v] = sums[v] + power;
        store(output + i, power);
      } else {
        const Floats power = power_of(load_first(input + i, lanes, lowest), maximum);
        sums[v] = sums[v] + power;
        store_first(output + i, lanes, power);
      }
    });
  };
  if (is_near) {
    write_powers([&](Floats x) { return normal_exponential(x - maximum); });
  } else {
    write_powers([&](Floats x) { return power_of(x, maximum); });
  }
  const float sum = folded(sums);
  const auto divide = [&](const auto& quotient) {
    for_each_vector(count, [&](std::size_t i, std::size_t, std::size_t lanes) {
      if (lanes == kLanes) {
        store(output + i, quotient(load(output + i)));
      } else {
        store_first(output + i, lanes, quotient(load_first(output + i, lanes, 0.0f)));
      }
    });
  };
  // A fused operation of one lane may be a call.
  if (kLanes > 1 && sum >= 1.0f && sum <= 0x1p64f) {
    const Divisor divisor(sum);
    if (is_near && sum <= 0x1p16f) {  // no quotient is below e^-30 * 2^-16
      divide([&](Floats power) { return divisor.normal_quotient(power); });
    } else {
      divide([&](Floats power) { return divisor.quotient(power); });
    }
  } else {
    divide([&](Floats power) { return power / spread(sum); });
  }
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

// A row in each lane: the sum of power(i). Partial sums of numbers from count on are 0: adding these changes nothing.
template <class Power>
inline Floats summed_columns(std::size_t count, const Power& power) noexcept {
  const std::size_t summed = count < kStep ? count : kStep;
  Floats sums[kStep];
  for (std::size_t i = 0; i < summed; ++i) sums[i] = power(i);
  for (std::size_t i = summed; i < count; ++i) sums[i % kStep] = sums[i % kStep] + power(i);
  for (std::size_t half = kStep / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i + half < summed && i < half; ++i) sums[i] = sums[i] + sums[i + half];
  }
  return sums[0];
}

// Rows from j on, a lane each: reads x[i] of them, of which it returns the maximum.
inline Floats read_columns(const FloatSoftmaxColumns& columns, std::size_t j, std::size_t lanes, Floats* x) noexcept {
  const float* input = columns.input + j;
  Floats maximum = spread(-__builtin_inff());
  for (std::size_t i = 0; i < columns.count; ++i, input += columns.input_step) {
    x[i] = lanes == kLanes ? load(input) : load_first(input, lanes, 0.0f);
    maximum = larger(x[i], maximum);
  }
  return maximum;
}

// Writes result(i) of each element of theirs.
template <class Result>
inline void write_columns_of_floats(const FloatSoftmaxColumns& columns, std::size_t j, std::size_t lanes,
                                    const Result& result) noexcept {
  float* output = columns.output + j;
  for (std::size_t i = 0; i < columns.count; ++i, output += columns.output_step) {
    lanes == kLanes ? store(output, result(i)) : store_first(output, lanes, result(i));
  }
}

inline std::size_t lanes_from(const FloatSoftmaxColumns& columns, std::size_t j) noexcept {
  return columns.rows - j < kLanes ? columns.rows - j : kLanes;
}

void softmax_columns(const FloatSoftmaxColumns& operands) noexcept {
  const FloatSoftmaxColumns columns = operands;  // a copy: the output could alias the original
  for (std::size_t j = 0; j < columns.rows; j += kLanes) {
    const std::size_t lanes = lanes_from(columns, j);
    Floats powers[kMostSoftmaxColumnElements];
    const Floats maximum = read_columns(columns, j, lanes, powers);
    const Floats sum =
        summed_columns(columns.count, [&](std::size_t i) { return powers[i] = power_of(powers[i], maximum); });
    write_columns_of_floats(columns, j, lanes, [&](std::size_t i) { return powers[i] / sum; });
  }
}

void softmax_logarithm_columns(const FloatSoftmaxColumns& operands) noexcept {
  const FloatSoftmaxColumns columns = operands;  // a copy: the output could alias the original
  for (std::size_t j = 0; j < columns.rows; j += kLanes) {
    const std::size_t lanes = lanes_from(columns, j);
    Floats distances[kMostSoftmaxColumnElements];
    const Floats maximum = read_columns(columns, j, lanes, distances);
    const Floats sum = summed_columns(columns.count, [&](std::size_t i) {
      distances[i] = distances[i] - maximum;
      return exponential(distances[i]);
    });
    const Floats of_sum = logarithm(sum);
    write_columns_of_floats(columns, j, lanes, [&](std::size_t i) { return distances[i] - of_sum; });
  }
}
