// FLOAT16 in software, equal to what vcvtph2ps and vcvtps2ph (round to nearest even) return, NaN bits included.
// Included inside the unnamed namespace of a kernel file, after <cstdint> and <cstring>.

struct Half {
  std::uint16_t bits;
};

inline float float_from_bits(std::uint32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline std::uint32_t bits_from_float(float value) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Exact. A NaN keeps its sign and payload and becomes quiet.
inline float widen(Half half) noexcept {
  constexpr std::uint32_t kInfinity = 0x7c00, kSmallestNormal = 0x0400;
  const std::uint32_t sign = static_cast<std::uint32_t>(half.bits & 0x8000) << 16;
  const std::uint32_t magnitude = half.bits & 0x7fff;
  if (magnitude > kInfinity) return float_from_bits(sign | 0x7fc00000 | (magnitude << 13));
  if (magnitude == kInfinity) return float_from_bits(sign | 0x7f800000);
  if (magnitude >= kSmallestNormal)
    return float_from_bits(sign | ((magnitude << 13) + (112U << 23)));  // bias 15 to 127
  constexpr float kUnit = 1.0f / (1 << 24);                             // denormals are multiples of 2^-24
  return float_from_bits(sign | bits_from_float(static_cast<float>(magnitude) * kUnit));
}

// Rounds to nearest even. A NaN keeps its sign and the upper bits of its payload and becomes quiet.
inline Half narrow(float value) noexcept {
  constexpr std::uint32_t kInfinity = 0x7f800000;
  constexpr std::uint32_t kOverflow = 0x477ff000;  // 65520, half way from the largest FLOAT16 to 2^16: to even, up
  constexpr std::uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  const std::uint32_t sign = (bits_from_float(value) >> 16) & 0x8000;
  std::uint32_t magnitude = bits_from_float(value) & 0x7fffffff;
  if (magnitude > kInfinity) {
    magnitude = 0x7e00 | ((magnitude >> 13) & 0x03ff);
  } else if (magnitude >= kOverflow) {
    magnitude = 0x7c00;
  } else if (magnitude >= kSmallestNormal) {
    // Half of a unit of bit 13, less one where bit 13 is even; a carry runs into the exponent as it should.
    magnitude += 0x0fff + ((magnitude >> 13) & 1);
    magnitude = (magnitude - (112U << 23)) >> 13;
  } else {
    // In [0.5, 1) a float32 has units of 2^-24, those of a denormal FLOAT16: the sum rounds, its low bits are the
    // count.
    magnitude = bits_from_float(float_from_bits(magnitude) + 0.5f) - bits_from_float(0.5f);
  }
  return {static_cast<std::uint16_t>(sign | magnitude)};
}
