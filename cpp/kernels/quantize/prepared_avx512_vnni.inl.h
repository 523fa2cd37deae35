// Short rows, and rows with a parameter for each element, whose parameters are made once for all of them.
// Included inside the unnamed namespace of avx512_vnni.cpp, after its steps of 64.

// Parameters of several rows, or of the elements of a row that others follow, as Lanes has them: made once, since a
// division takes longer than a step.
struct Parameters {
  static constexpr std::size_t kMost = 512;
  alignas(64) float scale[kMost], bound[kMost], reciprocal[kMost], rest[kMost];
  alignas(64) std::int32_t zero_point[kMost];
};

template <Rescale rescale>
void prepare(const float* scale, const float* zero_point, std::size_t count, Parameters& parameters) noexcept {
  for (std::size_t i = 0; i < count; i += 16) {
    const Lanes lanes = lanes_of<rescale>(scale + i, zero_point + i, lane_mask(count - i));
    _mm512_store_ps(parameters.scale + i, lanes.scale_f32x16);
    if constexpr (rescale == Rescale::divide_by_reciprocal) {
      _mm512_store_ps(parameters.bound + i, lanes.reciprocal.bound_f32x16);
      _mm512_store_ps(parameters.reciprocal + i, lanes.reciprocal.reciprocal_f32x16);
      _mm512_store_ps(parameters.rest + i, lanes.reciprocal.rest_f32x16);
    }
    _mm512_store_si512(parameters.zero_point + i, lanes.zero_point_i32x16);
  }
}

// Of sixteen elements from i on.
inline Lanes lanes_at(const Parameters& parameters, std::size_t i) noexcept {
  return {_mm512_load_ps(parameters.scale + i),
          {_mm512_load_ps(parameters.bound + i), _mm512_load_ps(parameters.reciprocal + i),
           _mm512_load_ps(parameters.rest + i)},
          _mm512_load_si512(parameters.zero_point + i)};
}

// Of one row, in all lanes.
inline Lanes lanes_of_row(const Parameters& parameters, std::size_t row) noexcept {
  return {_mm512_set1_ps(parameters.scale[row]),
          {_mm512_set1_ps(parameters.bound[row]), _mm512_set1_ps(parameters.reciprocal[row]),
           _mm512_set1_ps(parameters.rest[row])},
          _mm512_set1_epi32(parameters.zero_point[row])};
}

// Rows of 16 or 32 elements, one after the other: several in a step. The rest of them is left to the caller, who is
// told how many are done.
template <Rescale rescale, std::size_t rows_of_step, class Input>
std::size_t quantize_joined_rows(const Input* input, std::uint8_t* output, std::size_t rows,
                                 const Parameters& parameters, std::uint8_t flip) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  constexpr std::size_t kVectors = 4 / rows_of_step;  // of a row
  std::size_t row = 0;
  for (; row + rows_of_step <= rows; row += rows_of_step, input += 64, output += 64) {
    const Lanes lanes[4] = {lanes_of_row(parameters, row), lanes_of_row(parameters, row + 1 / kVectors),
                            lanes_of_row(parameters, row + 2 / kVectors), lanes_of_row(parameters, row + 3 / kVectors)};
    prefetch_64(input, kPrefetch);
    quantize_64<rescale>(input, output, ~__mmask64{0}, lanes, flip_u8x64);
  }
  return row;
}

// Rows shorter than kAlignedRow, from the first on; input and output are those of row 0.
template <Rescale rescale, class Input>
void quantize_short_rows(const QuantizeRun& run, const Input* input, std::uint8_t* output, std::size_t first,
                         std::size_t rows, const Parameters& parameters, std::uint8_t flip) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  const std::size_t rest = run.count % 64, whole = run.count - rest;
  const __mmask64 rest_mask = mask_of(rest);
  input += first * run.input_row_stride;
  output += first * run.output_row_stride;
  for (std::size_t row = first; row < rows; ++row) {
    const Lanes lanes[1] = {lanes_of_row(parameters, row)};
    for (std::size_t i = 0; i < whole; i += 64) {
      prefetch_64(input + i, kPrefetch);
      quantize_64<rescale>(input + i, output + i, ~__mmask64{0}, lanes, flip_u8x64);
    }
    if (rest > 16) {
      quantize_64<rescale>(input + whole, output + whole, rest_mask, lanes, flip_u8x64);
    } else if (rest != 0) {
      const auto mask = static_cast<__mmask16>(rest_mask);
      const __m512 rescaled_f32x16 = rescaled<rescale>(load(input + whole, mask), lanes[0]);
      store_tail(output + whole, mask, to_unsaturated(rescaled_f32x16, lanes[0].zero_point_i32x16), flip_u8x64);
    }
    input += run.input_row_stride;
    output += run.output_row_stride;
  }
}

// rows rows from the first on, at most Parameters::kMost of them.
template <Rescale rescale, class Input>
void quantize_rows(const QuantizeRun& run, std::size_t first, std::size_t rows, std::uint8_t flip) noexcept {
  Parameters parameters;
  prepare<rescale>(run.scale + first, run.zero_point + first, rows, parameters);
  const Input* input = static_cast<const Input*>(run.input) + first * run.input_row_stride;
  std::uint8_t* output = run.output + first * run.output_row_stride;
  if (run.count >= kAlignedRow) {
    for (std::size_t row = 0; row < rows; ++row) {
      quantize_row<rescale>(input + row * run.input_row_stride, output + row * run.output_row_stride, run.count,
                            lanes_of_row(parameters, row), flip);
    }
    return;
  }
  const bool joined = run.input_row_stride == run.count && run.output_row_stride == run.count;
  std::size_t done = 0;
  if (joined && run.count == 16) done = quantize_joined_rows<rescale, 4>(input, output, rows, parameters, flip);
  if (joined && run.count == 32) done = quantize_joined_rows<rescale, 2>(input, output, rows, parameters, flip);
  quantize_short_rows<rescale>(run, input, output, done, rows, parameters, flip);
}

// Whether the parameters of 192 elements are four times those of 48, as of images with 3 channels.
inline bool repeats_by_48(const QuantizeRun& run) noexcept {
  return run.count == 192 && std::memcmp(run.scale, run.scale + 48, 144 * sizeof(float)) == 0 &&
         std::memcmp(run.zero_point, run.zero_point + 48, 144 * sizeof(float)) == 0;
}

// Rows of 192 such elements: the parameters stay in registers.
template <Rescale rescale, class Input>
void quantize_by_48(const QuantizeRun& run, std::uint8_t flip) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  const auto lanes_from = [&](std::size_t i) {
    return lanes_of<rescale>(run.scale + i, run.zero_point + i, kAllLanes);
  };
  const Lanes a = lanes_from(0), b = lanes_from(16), c = lanes_from(32);
  const Lanes lanes[3][4] = {{a, b, c, a}, {b, c, a, b}, {c, a, b, c}};
  for (std::size_t row = 0; row < run.rows; ++row) {
    const Input* input = static_cast<const Input*>(run.input) + row * run.input_row_stride;
    std::uint8_t* output = run.output + row * run.output_row_stride;
#pragma GCC unroll 3
    for (std::size_t i = 0; i < 3; ++i) {
      prefetch_64(input + 64 * i, kPrefetch);
      quantize_64<rescale>(input + 64 * i, output + 64 * i, ~__mmask64{0}, lanes[i], flip_u8x64);
    }
  }
}

// Rows of a multiple of 64 elements, at most Parameters::kMost, with a parameter each, from end to end.
template <Rescale rescale, class Input>
void quantize_periods(const QuantizeRun& run, std::uint8_t flip) noexcept {
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(flip));
  if (repeats_by_48(run)) return quantize_by_48<rescale, Input>(run, flip);
  Parameters parameters;
  prepare<rescale>(run.scale, run.zero_point, run.count, parameters);
  for (std::size_t row = 0; row < run.rows; ++row) {
    const Input* input = static_cast<const Input*>(run.input) + row * run.input_row_stride;
    std::uint8_t* output = run.output + row * run.output_row_stride;
    for (std::size_t i = 0; i < run.count; i += 64) {
      const Lanes lanes[4] = {lanes_at(parameters, i), lanes_at(parameters, i + 16), lanes_at(parameters, i + 32),
                              lanes_at(parameters, i + 48)};
      prefetch_64(input + i, kPrefetch);
      quantize_64<rescale>(input + i, output + i, ~__mmask64{0}, lanes, flip_u8x64);
    }
  }
}
