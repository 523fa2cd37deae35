// From a real quotient or product to a code of the offset domain 0..255 (see quantize/quantize.h).
// Included inside the unnamed namespace of a kernel file.

// sat(rne(value) + zero_point), flipped. A NaN fails the first comparison and becomes the lowest code.
//
// clamped is within [-255, 255], so the sum with 1.5 * 2^23 is within [2^23, 2^24), where float32 holds the integers
// and nothing else: the addition rounds to an integer, half to even as the constant is even, and the subtraction is
// exact.
inline std::uint8_t to_code(float value, float zero_point, std::uint8_t flip) noexcept {
  constexpr float kRoundToInteger = 12582912.0f;
  const float lowest = 0.0f - zero_point, highest = 255.0f - zero_point;
  float clamped = value > lowest ? value : lowest;
  clamped = clamped < highest ? clamped : highest;
  const float rounded = (clamped + kRoundToInteger) - kRoundToInteger;
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(rounded + zero_point) ^ flip);
}

// sat(fma(2^23 + t, multiplier, addend) - 1.5 * 2^23), flipped, as kernels/add/add.h has it.
struct IntegerCode {
  double multiplier, base;
  std::uint8_t flip;

  // Exact until it is rounded: a product of 24 by 24 bits, and a sum below 2^15 in magnitude of multiples of 2^-38.
  // Integers are clamped, not floats: compilers make branches of the latter, which random codes mispredict.
  std::uint8_t operator()(std::int32_t t) const noexcept {
    constexpr double kRoundToInteger = 0x1.8p52;
    const double exact = (0x1p23 + static_cast<double>(t)) * multiplier + base;
    const auto rounded = static_cast<std::int32_t>((exact + kRoundToInteger) - kRoundToInteger);
    const std::int32_t at_least_0 = rounded > 0 ? rounded : 0;
    return static_cast<std::uint8_t>((at_least_0 < 255 ? at_least_0 : 255) ^ flip);
  }
};

template <class Integers>
inline IntegerCode integer_code(const Integers& integers, std::uint8_t flip) noexcept {
  return {static_cast<double>(integers.multiplier), static_cast<double>(integers.addend) - 0x1.8p23, flip};
}
