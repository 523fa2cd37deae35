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
