// The row of floats of layer_normalization.h in the lanes of an instruction set.
// Included, after lanes/steps_of_sixteen.inl.h, inside the unnamed namespace of a kernel file.

float row_mean(const float* row, std::size_t count) noexcept {
  Floats sums[kVectors];
  for (Floats& sum : sums) sum = spread(0.0f);
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) {
    sums[v] = sums[v] + (lanes == kLanes ? load(row + i) : load_first(row + i, lanes, 0.0f));
  });
  return folded(sums) / static_cast<float>(count);
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
