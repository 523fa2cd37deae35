// float32 functions as fixed sequences of operations, the same for every instruction set, each rounded once; the fused
// ones are called fused. Included, after the lanes of an instruction set, inside the unnamed namespace of a kernel
// file.
//
// Errors, in units in the last place of the exact value rounded to float32 (subnormal results included):
// exponential < 1, logistic < 2.5, hyperbolic_tangent < 1.5, hyperbolic_sine < 1.75, hyperbolic_cosine < 1.5,
// error_function < 1.25, logarithm < 0.9.

// Horner's rule, the highest power first.
template <std::size_t count>
inline Floats polynomial(Floats x, const float (&coefficients)[count]) noexcept {
  Floats result = spread(coefficients[0]);
  for (std::size_t i = 1; i < count; ++i) result = fused(result, x, spread(coefficients[i]));
  return result;
}

// To the nearest integer, half to even: below 2^23, from where on float32 holds integers only, by adding 2^23 and
// taking it away. What is no number, or infinite, stays. Zeros have the sign of x.
inline Floats rounded(Floats x) noexcept {
  const Floats size = magnitude(x), whole = (size + spread(0x1p23f)) - spread(0x1p23f);
  return select(less(size, spread(0x1p23f)), with_sign_of(whole, x), x);
}

// To the largest integer that is not above x: the nearest, or the one below that.
inline Floats rounded_down(Floats x) noexcept {
  const Floats nearest = rounded(x);
  return with_sign_of(select(less(x, nearest), nearest - spread(1.0f), nearest), x);
}

// e^x = 2^n * e^r with n = rne(x / log 2), |r| <= log(2) / 2, of x from -104 to 89: e^r by a polynomial of degree 6,
// and n + 1.5 * 2^23. log 2 is taken away in two parts. n comes from an addition of 1.5 * 2^23, above which float32
// holds integers only.
struct ExponentialParts {
  Floats power_of_rest, shifted;
};
inline ExponentialParts exponential_parts(Floats x) noexcept {
  constexpr float kCoefficients[] = {
      0x1.6a3fb6p-10f, 0x1.1239ep-7f, 0x1.5558bep-5f, 0x1.555492p-3f, 0x1.fffffcp-2f, 1.0f, 1.0f};
  const Floats shifted = fused(x, spread(0x1.715476p+0f), spread(0x1.8p23f));
  const Floats n = shifted - spread(0x1.8p23f);
  const Floats r = fused(n, spread(-0x1.7f7d1cp-20f), fused(n, spread(-0x1.62e4p-1f), x));
  return {polynomial(r, kCoefficients), shifted};
}

// Beyond the bounds the result is 0 or infinite as at them, where n is -150 and e^r below 1, or 128; NaN passes them.
inline Floats exponential(Floats x) noexcept {
  const ExponentialParts parts = exponential_parts(smaller(spread(89.0f), larger(spread(-104.0f), x)));
  return times_power_of_2(parts.power_of_rest, parts.shifted);
}

// The same of x from -87 to 88, or NaN, for which it is a normal number.
inline Floats normal_exponential(Floats x) noexcept {
  const ExponentialParts parts = exponential_parts(x);
  return times_normal_power_of_2(parts.power_of_rest, parts.shifted);
}

// The same of x that is not above 0, or NaN.
inline Floats exponential_below_0(Floats x) noexcept {
  const ExponentialParts parts = exponential_parts(larger(spread(-104.0f), x));
  return times_power_of_2_up_to_1(parts.power_of_rest, parts.shifted);
}

// 1 / (1 + e^-x), as e^x / (1 + e^x) where x is negative.
inline Floats logistic(Floats x) noexcept {
  const Floats power = exponential_below_0(negated(magnitude(x)));
  return select(less(x, spread(0.0f)), power, spread(1.0f)) / (spread(1.0f) + power);
}

// A polynomial below 5/8, 1 - 2 / (e^2x + 1) above, which is 1 from x = 10 on.
inline Floats hyperbolic_tangent(Floats x) noexcept {
  constexpr float kCoefficients[] = {-0x1.752ea6p-8f, 0x1.51fe82p-6f, -0x1.b83636p-5f, 0x1.1106f8p-3f, -0x1.555532p-2f};
  const Floats size = magnitude(x), square = x * x;
  const Floats near_0 = fused(size * square, polynomial(square, kCoefficients), size);
  const Floats power = normal_exponential(smaller(spread(20.0f), size + size));
  const Floats far = spread(1.0f) - spread(2.0f) / (power + spread(1.0f));
  return with_sign_of(select(less(size, spread(0.625f)), near_0, far), x);
}

// e^x / 2 of x from 0 on, or NaN: that of what is not above 89.5 has n - 1 <= 128, and is infinite from 89.42 on.
inline Floats halved_exponential(Floats x) noexcept {
  const ExponentialParts parts = exponential_parts(smaller(spread(89.5f), x));
  return times_power_of_2(parts.power_of_rest, parts.shifted - spread(1.0f));
}

// A polynomial below 1, e^x / 2 - e^-x / 2 above.
inline Floats hyperbolic_sine(Floats x) noexcept {
  constexpr float kCoefficients[] = {0x1.7a267ep-19f, 0x1.9ffe12p-13f, 0x1.111136p-7f, 0x1.555556p-3f};
  const Floats size = magnitude(x), square = x * x;
  const Floats near_0 = fused(size * square, polynomial(square, kCoefficients), size);
  const Floats half = halved_exponential(size);
  return with_sign_of(select(less(size, spread(1.0f)), near_0, half - spread(0.25f) / half), x);
}

inline Floats hyperbolic_cosine(Floats x) noexcept {
  const Floats half = halved_exponential(magnitude(x));
  return half + spread(0.25f) / half;
}

// A polynomial below 15/16, 1 - e^p(x) above, p of degree 6 the logarithm of the complement, which falls from 0 to -18
// at 4; 1 from there on.
inline Floats error_function(Floats x) noexcept {
  constexpr float kNear0[] = {-0x1.36ad44p-11f, 0x1.466ba6p-8f,  -0x1.b669c2p-6f,
                              0x1.ce1858p-4f,   -0x1.8126dcp-2f, 0x1.06eba6p-3f};
  constexpr float kFar[] = {0x1.967436p-13f, -0x1.8c2a18p-9f, 0x1.6ad222p-6f,  -0x1.a902c6p-4f,
                            -0x1.4655d8p-1f, -0x1.20a7f4p+0f, -0x1.d338fep-13f};
  const Floats size = magnitude(x), square = x * x;
  const Floats near_0 = fused(polynomial(square, kNear0), size, size);
  const Floats far = spread(1.0f) - normal_exponential(polynomial(smaller(spread(4.0f), size), kFar));
  return with_sign_of(select(less(size, spread(0.9375f)), near_0, far), x);
}

// n log 2 + log(1 + f) of x = (1 + f) 2^n, with sqrt(1/2) <= 1 + f < sqrt(2): f is exact, log(1 + f) is
// f - f^2 / 2 + f^3 p(f), p of degree 7, and log 2 is added in two parts, of which n times the first is exact.
// Subnormal numbers are scaled first. Negative infinity of 0, NaN below.
inline Floats logarithm(Floats x) noexcept {
  constexpr float kCoefficients[] = {-0x1.38b576p-4f, 0x1.055b7p-3f,  -0x1.0d8546p-3f, 0x1.22da1cp-3f,
                                     -0x1.547244p-3f, 0x1.99a008p-3f, -0x1.000226p-2f, 0x1.555554p-2f};
  const Mask is_small = less(x, spread(0x1p-126f)), is_positive = less(spread(0.0f), x);
  Floats significand;
  const Floats exponent = exponent_of(select(is_small, x * spread(0x1p23f), x), significand);
  const Floats n = exponent - select(is_small, spread(23.0f), spread(0.0f));
  const Floats f = significand - spread(1.0f), square = f * f;
  const Floats cubic = fused(n, spread(0x1.7f7d1cp-20f), f * square * polynomial(f, kCoefficients));
  const Floats rest = f + fused(square, spread(-0.5f), cubic);
  const Floats finite = fused(n, spread(0x1.62e4p-1f), rest);
  const Floats of_positive = select(less(x, spread(__builtin_inff())), finite, x);
  const Floats of_zero = select(is_nan(x), x, spread(-__builtin_inff()));
  return select(is_positive, of_positive, select(less(x, spread(0.0f)), spread(__builtin_nanf("")), of_zero));
}
