// The runs of cast.h to INT32 as plain loops, which compilers turn into the vectors of each instruction set.
// Included inside the unnamed namespace of a kernel file, after <cstdint>.

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
