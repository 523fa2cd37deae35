// Averages of whole planes by sums of integers, where these tell the same code as the sums of floats that pool.h names.
// Included inside the unnamed namespace of a kernel file, behind the lanes, codes/scalar.inl.h and
// ordered_planes.inl.h; the file defines
//
//   code_sums(codes, count, zero_point, flip)    of at least 32 codes the sum, above it that of |code - zero_point|,
//                                                32 bits each; codes that count lacks to a multiple of kCodesAtOnce
//                                                are the zero point
//
// With F = sum of (x - zero_point), exact, A[k] = sum of |x - zero_point| over the first k taps, A over all t of them,
// s the float32 sum, u = 2^-24:
//
//   each value differs from (x - zero_point) * scale by at most u |x - zero_point| scale
//   partial sums are at most (1 + u)^(t + 1) A[k] scale, so that each addition rounds by at most 1.004 u A[k] scale:
//   |s - F scale| <= 1.01 u scale (A[1] + ... + A[t] + A)
//   the two quotients round twice, F * ratio three times: less than 5.1 u A ratio
//
// where ratio = scale / (count * output_scale). So F * ratio is within
//
//   1.02 u * ratio * (A[1] + ... + A[t] + 7 A)
//
// of what the sums of floats come to before it is rounded to an integer; if no half-way point is as near, the code is
// the same. t is at most 2^16, so that F is exact as a float32, and scales are within 2^-64 and 2^64, so that nothing
// over- or underflows. Averages beyond 2^22 have bounds beyond 1/2.

constexpr std::size_t kPlanes = kLanes, kSpan = 512;

// Of each of some planes: F, A, and the sum of what A has come to behind each kSpan taps, and behind the last.
struct PlaneSums {
  float differences[kPlanes];
  float magnitudes[kPlanes];
  float span_magnitudes[kPlanes];
};

inline void add_plane(const PoolPlanes& run, std::size_t channel, std::size_t p, PlaneSums& sums) noexcept {
  const std::uint8_t* plane = run.input + channel * run.channel_step;
  const auto zero_point = static_cast<std::uint8_t>(run.parameters.input_zero_point[channel]);
  std::uint64_t total = 0;
  std::int32_t span_magnitudes = 0;  // below 2^31, as those of kSpan codes are at most 255 kSpan
  // What is left, if it is less than kCodesAtOnce, may be too little for a span.
  for (std::size_t tap = 0, taps = 0; tap < run.taps; tap += taps) {
    const std::size_t left = run.taps - tap;
    taps = left < kSpan + kCodesAtOnce ? left : kSpan;
    total += code_sums(plane + tap, taps, zero_point, run.flip);
    span_magnitudes += static_cast<std::int32_t>(total >> 32);
  }
  const std::size_t codes = (run.taps + kCodesAtOnce - 1) / kCodesAtOnce * kCodesAtOnce;
  const auto sum = static_cast<std::int32_t>(total & 0xffffffff);
  sums.differences[p] = static_cast<float>(sum - zero_point * static_cast<std::int32_t>(codes));
  sums.magnitudes[p] = static_cast<float>(static_cast<std::int32_t>(total >> 32));
  sums.span_magnitudes[p] = static_cast<float>(span_magnitudes);
}

inline Mask is_moderate(Floats scale) noexcept {
  return both(less(spread(0x1p-64f), scale), less(scale, spread(0x1p64f)));
}

// The averages of kPlanes channels, and where above 0, by how much no half-way point is too near.
struct PlaneAverages {
  float averages[kPlanes], margins[kPlanes];

  PlaneAverages(const PlaneSums& sums, const PoolParameters& parameters, std::size_t taps, float count) noexcept {
    constexpr std::size_t kLongestSpan = kSpan + kCodesAtOnce - 1;
    const Floats longest_span = spread(static_cast<float>(taps < kLongestSpan ? taps : kLongestSpan));
    const Floats scale = load(parameters.input_scale), output_scale = load(parameters.output_scale);
    const Floats ratio = scale / (spread(count) * output_scale);
    const Floats average = load(sums.differences) * ratio;
    const Floats rounder = spread(12582912.0f), distance = average - ((average + rounder) - rounder);
    const Floats magnitudes = longest_span * load(sums.span_magnitudes) + spread(7.0f) * load(sums.magnitudes);
    const Floats error = spread(1.02f * 0x1p-24f) * ratio * magnitudes;
    // A bit less than a half, for the roundings of this difference.
    const Floats margin = spread(0.49999f) - error - magnitude(distance);
    store(averages, average);
    store(margins, select(both(is_moderate(scale), is_moderate(output_scale)), margin, spread(0.0f)));
  }
};

// Parameters of channels that are fewer than kPlanes.
struct LastParameters {
  float input_zero_point[kPlanes] = {}, input_scale[kPlanes] = {}, output_scale[kPlanes] = {},
        output_zero_point[kPlanes] = {};

  LastParameters(const PoolParameters& parameters, std::size_t channels) noexcept {
    std::memcpy(input_zero_point, parameters.input_zero_point, channels * sizeof(float));
    std::memcpy(input_scale, parameters.input_scale, channels * sizeof(float));
    std::memcpy(output_scale, parameters.output_scale, channels * sizeof(float));
    std::memcpy(output_zero_point, parameters.output_zero_point, channels * sizeof(float));
  }
  PoolParameters pointers() const noexcept { return {input_zero_point, input_scale, output_scale, output_zero_point}; }
};

void average_planes(const PoolPlanes& operands) noexcept {
  const PoolPlanes run = operands;  // a copy: bytes of output could alias the original
  const bool applies = run.count >= 1.0f && run.count < 0x1p22f;
  OrderedPlanes open(run);
  for (std::size_t first = 0; first < run.channels; first += kPlanes) {
    const std::size_t left = run.channels - first, planes = left < kPlanes ? left : kPlanes;
    const PoolParameters parameters = {run.parameters.input_zero_point + first, run.parameters.input_scale + first,
                                       run.parameters.output_scale + first, run.parameters.output_zero_point + first};
    PlaneSums sums = {};
    for (std::size_t p = 0; p < planes; ++p) add_plane(run, first + p, p, sums);
    const PlaneAverages averages =
        planes == kPlanes ? PlaneAverages(sums, parameters, run.taps, run.count)
                          : PlaneAverages(sums, LastParameters(parameters, planes).pointers(), run.taps, run.count);
    for (std::size_t p = 0; p < planes; ++p) {
      run.output[first + p] = to_code(averages.averages[p], parameters.output_zero_point[p], run.flip);
    }
    for (std::size_t p = 0; p < planes; ++p) {
      if (!(applies && averages.margins[p] > 0.0f)) open.add(first + p);
    }
  }
  open.average();
}
