// interpolate.h on the vectors of masked_floats.
// Included, after these, inside the unnamed namespace of a kernel file.

// So many vectors of one output.
template <std::size_t vectors>
inline void add_up(const InterpolatedPlace& place, const float* input, std::size_t input_step, float* output) noexcept {
  Floats sums[vectors];
  const Floats first = spread(place.weights[0]);
  for (std::size_t v = 0; v < vectors; ++v) sums[v] = first * load(input + v * kLanes);
  for (std::size_t t = 1; t < place.count; ++t) {
    input += input_step;
    const Floats weight = spread(place.weights[t]);
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = fused(weight, load(input + v * kLanes), sums[v]);
  }
  for (std::size_t v = 0; v < vectors; ++v) store(output + v * kLanes, sums[v]);
}

inline void add_up(const InterpolatedPlace& place, const float* input, std::size_t input_step, Mask mask,
                   float* output) noexcept {
  Floats sum = spread(place.weights[0]) * load(input, mask);
  for (std::size_t t = 1; t < place.count; ++t) {
    input += input_step;
    sum = fused(spread(place.weights[t]), load(input, mask), sum);
  }
  store(output, mask, sum);
}

void sum_up(const InterpolateRun& run) noexcept {
  const Mask mask = first_lanes(run.lanes % kLanes);
  for (std::size_t i = 0; i < run.outputs; ++i) {
    const InterpolatedPlace place = run.places[i];
    const float* input = run.input + place.first * run.input_step;
    float* output = run.output + i * run.output_step;
    std::size_t lane = 0;
    for (; lane + 4 * kLanes <= run.lanes; lane += 4 * kLanes) {
      add_up<4>(place, input + lane, run.input_step, output + lane);
    }
    for (; lane + 2 * kLanes <= run.lanes; lane += 2 * kLanes) {
      add_up<2>(place, input + lane, run.input_step, output + lane);
    }
    for (; lane + kLanes <= run.lanes; lane += kLanes) {
      add_up<1>(place, input + lane, run.input_step, output + lane);
    }
    if (lane < run.lanes) add_up(place, input + lane, run.input_step, mask, output + lane);
  }
}
