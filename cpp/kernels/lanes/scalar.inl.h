// One float32 as a vector of one lane: the operations that the sequences of float32 functions are written in.
// Included inside the unnamed namespace of a kernel file.
//
// Every operation rounds once. Comparisons with NaN are false, so that a NaN goes where the second operand goes.

using Floats = float;
using Mask = bool;
constexpr std::size_t kLanes = 1;

inline Floats spread(float value) noexcept { return value; }
inline Floats load(const float* values) noexcept { return *values; }
inline void store(float* values, Floats lanes) noexcept { *values = lanes; }

// The first count lanes, count < kLanes, the others filled.
inline Floats load_first(const float*, std::size_t, float fill) noexcept { return fill; }
inline void store_first(float*, std::size_t, Floats) noexcept {}

// A value from a place of its own for each lane.
inline Floats load_at(const float* values, const std::int32_t* places) noexcept { return values[*places]; }

inline Floats fused(Floats a, Floats b, Floats c) noexcept { return __builtin_fmaf(a, b, c); }
inline Floats square_root(Floats x) noexcept { return __builtin_sqrtf(x); }
inline Mask less(Floats a, Floats b) noexcept { return a < b; }
inline Mask is_nan(Floats x) noexcept { return x != x; }
inline Mask either(Mask a, Mask b) noexcept { return a || b; }
inline Mask both(Mask a, Mask b) noexcept { return a && b; }
inline bool any(Mask mask) noexcept { return mask; }
inline Floats select(Mask mask, Floats a, Floats b) noexcept { return mask ? a : b; }

// a < b ? a : b and a > b ? a : b
inline Floats smaller(Floats a, Floats b) noexcept { return a < b ? a : b; }
inline Floats larger(Floats a, Floats b) noexcept { return a > b ? a : b; }

inline Floats magnitude(Floats x) noexcept { return __builtin_fabsf(x); }
inline Floats negated(Floats x) noexcept { return -x; }
inline Floats with_sign_of(Floats x, Floats sign) noexcept { return __builtin_copysignf(x, sign); }

// The largest power of 2 that is not above the size of x: 0 of subnormal numbers, infinity of what is none or infinite.
inline Floats power_of_2_within(Floats x) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits &= 0x7f800000U;
  std::memcpy(&x, &bits, sizeof(bits));
  return x;
}

// x * 2^n, rounded once, for |x| within 1/2..2 and n = shifted - 1.5 * 2^23 within -150..128: n is in the lowest bits
// of shifted. Two factors, each in range, of which the first makes no rounding.
inline Floats times_power_of_2(Floats x, Floats shifted) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  const std::uint32_t biased = bits - 0x4b400000U + 256U;  // n + 256, positive
  const std::uint32_t first = (biased >> 1) - 128U, second = (biased - 256U) - first;
  const std::uint32_t first_bits = (first + 127U) << 23, second_bits = (second + 127U) << 23;
  float first_factor, second_factor;
  std::memcpy(&first_factor, &first_bits, sizeof(first_bits));
  std::memcpy(&second_factor, &second_bits, sizeof(second_bits));
  return x * first_factor * second_factor;
}

// Where n is not above 0.
inline Floats times_power_of_2_up_to_1(Floats x, Floats shifted) noexcept { return times_power_of_2(x, shifted); }

// Where the result, and 2^n, are normal numbers.
inline Floats times_normal_power_of_2(Floats x, Floats shifted) noexcept { return times_power_of_2(x, shifted); }

// n and the significand, of sqrt(1/2) up to sqrt(2), of which x is significand * 2^n; x is normal, finite and above 0.
// Of any other it is some number.
inline Floats exponent_of(Floats x, Floats& significand) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const std::int32_t n = static_cast<std::int32_t>(bits - 0x3f3504f3U) >> 23;
  bits -= static_cast<std::uint32_t>(n) << 23;
  std::memcpy(&significand, &bits, sizeof(bits));
  return static_cast<float>(n);
}

// The largest lane, where none is NaN.
inline float largest(Floats x) noexcept { return x; }

// 16 sums folded in halves: 0 + 8, 1 + 9, ... then 0 + 4, ... then 0 + 2, 1 + 3, then 0 + 1.
inline float folded(const Floats (&sums)[16]) noexcept {
  float halves[8];
  for (int i = 0; i < 8; ++i) halves[i] = sums[i] + sums[i + 8];
  for (int i = 0; i < 4; ++i) halves[i] = halves[i] + halves[i + 4];
  for (int i = 0; i < 2; ++i) halves[i] = halves[i] + halves[i + 2];
  return halves[0] + halves[1];
}
