// The runs of cast.h: those to INT32 as plain loops, which compilers turn into the vectors of each instruction set.
// Included inside the unnamed namespace of a kernel file, after the lanes and their halves.

inline std::int32_t to_int32(std::uint8_t value) noexcept { return value; }
inline std::int32_t to_int32(std::int8_t value) noexcept { return value; }

// The largest float32 below 2^31 is 2^31 - 128: values from 2^31 on are converted as that one, then set.
inline std::int32_t to_int32(float value) noexcept {
  const bool above = value >= 0x1p31f, below = value < -0x1p31f, is_nan = value != value;
  const float low = below ? -0x1p31f : value, number = is_nan ? 0.0f : low;
  const auto truncated = static_cast<std::int32_t>(above ? 0x1.fffffep30f : number);
  return above ? INT32_MAX : truncated;
}

template <class Input>
void to_int32_run(const void* input, std::size_t count, void* output) noexcept {
  const Input* __restrict values = static_cast<const Input*>(input);
  std::int32_t* __restrict results = static_cast<std::int32_t*>(output);
  for (std::size_t i = 0; i < count; ++i) results[i] = to_int32(values[i]);
}

template <class Input, class Output>
void float_run(const void* input, std::size_t count, void* output) noexcept {
  const Input* values = static_cast<const Input*>(input);
  Output* results = static_cast<Output*>(output);
  if (count < kLanes) return store_first(results, count, load_first(values, count, 0.0f));
  std::size_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (std::size_t j = 0; j < 4 * kLanes; j += kLanes) store(results + i + j, load(values + i + j));
  }
  for (; i + kLanes <= count; i += kLanes) store(results + i, load(values + i));
  store(results + count - kLanes, load(values + count - kLanes));  // some of them twice
}

constexpr CastKernels kRuns = {.uint8_to_int32 = to_int32_run<std::uint8_t>,
                               .int8_to_int32 = to_int32_run<std::int8_t>,
                               .float32_to_int32 = to_int32_run<float>,
                               .float16_to_float32 = float_run<Half, float>,
                               .float32_to_float16 = float_run<float, Half>};
