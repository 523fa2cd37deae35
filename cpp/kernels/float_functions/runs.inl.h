// The runs of float_functions.h, in the lanes of an instruction set.
// Included, after lanes/functions.inl.h and lanes/trigonometry.inl.h, inside the unnamed namespace of a kernel file.

inline Floats add(Floats a, Floats b) noexcept { return a + b; }
inline Floats subtract(Floats a, Floats b) noexcept { return a - b; }
inline Floats multiply(Floats a, Floats b) noexcept { return a * b; }
inline Floats divide(Floats a, Floats b) noexcept { return a / b; }
inline Floats maximum(Floats a, Floats b) noexcept { return select(is_nan(a), a, larger(a, b)); }
inline Floats minimum(Floats a, Floats b) noexcept { return select(is_nan(a), a, smaller(a, b)); }

inline Floats relu(Floats x) noexcept { return larger(spread(0.0f), x); }
inline Floats reciprocal(Floats x) noexcept { return spread(1.0f) / x; }
inline Floats hard_sigmoid(Floats x, Floats alpha, Floats beta) noexcept {
  return larger(spread(0.0f), smaller(spread(1.0f), x * alpha + beta));
}
inline Floats clip(Floats x, Floats alpha, Floats beta) noexcept { return smaller(beta, larger(alpha, x)); }
inline Floats leaky_relu(Floats x, Floats alpha, Floats) noexcept {
  return select(less(x, spread(0.0f)), x * alpha, x);
}
inline Floats identity(Floats x) noexcept { return x; }
inline Floats rounded_up(Floats x) noexcept { return negated(rounded_down(negated(x))); }

inline Floats gelu(Floats x, Floats alpha, Floats) noexcept {
  return x * spread(0.5f) * (error_function(x / alpha) + spread(1.0f));
}
inline Floats gated(Floats x, Floats alpha, Floats) noexcept { return x * logistic(x * alpha); }
inline Floats tanh_gelu(Floats x, Floats alpha, Floats beta) noexcept {
  return x * logistic(x * (x * beta * x + alpha));
}

// Adding 1.5 * 2^23 and taking it away rounds what is within 65535 of 0. What is rounded to 0 becomes +0, as a
// difference of equal integers does.
inline Floats quantized_to_16_bits(Floats x, Floats alpha, Floats beta) noexcept {
  const Floats bounded = smaller(larger(x / alpha, beta), beta + spread(65535.0f));
  return ((bounded + spread(0x1.8p23f)) - spread(0x1.8p23f)) * alpha;
}

// A type of floats of 8 bits: its mantissa's bits without the leading one, its exponent's bias, its largest number.
//
// p is the power of 2 within |b| of the bounded quotient b, or the smallest normal number where that is larger: then
// |b| <= 2p, and the numbers of the type up to 2p that are nearest to b, subnormal ones too, are multiples of
// u = p * 2^-mantissa_bits. With magic = 1.5 * 2^23 * u the sum b + magic lies within (1.5 * 2^23 +- 16) u, between
// 2^23 u and 2^24 u, where float32 holds the multiples of u and no others. So it is b + magic rounded to one of them,
// half to an even one; since 1.5 * 2^23 is even, that is b's nearest multiple of u, half to even, which is an even
// mantissa. Taking magic away is exact: at most 16 u remain. p is at most 2^15, so that nothing overflows, and at least
// 2^-14, so that nothing is subnormal. The bounds are numbers of the type: rounding what is within them stays there. A
// quotient that is no number passes them, has p = infinity, and stays none. Zeros have the quotient's sign.
template <int mantissa_bits, int bias, int largest_number>
inline Floats quantized_to_float8(Floats x, Floats alpha, Floats) noexcept {
  constexpr float kLargest = largest_number, kSmallestNormal = 1.0f / (1U << (bias - 1));
  constexpr float kMagic = 1.5f * (1U << (23 - mantissa_bits));
  const Floats bounded = smaller(spread(kLargest), larger(spread(-kLargest), x / alpha));
  const Floats magic = larger(spread(kSmallestNormal), power_of_2_within(bounded)) * spread(kMagic);
  return with_sign_of((bounded + magic) - magic, bounded) * alpha;
}

inline Floats softsign(Floats x) noexcept { return x / (magnitude(x) + spread(1.0f)); }
// log(1 + e^x), by an exponential that is at most 1.
inline Floats softplus(Floats x) noexcept {
  return maximum(x, spread(0.0f)) + logarithm(exponential(negated(magnitude(x))) + spread(1.0f));
}
// With e = exp(x) the factor of x, tanh(log(1 + e)), is n / (n + 2): 1 from x = 20 on, where e + 2 is e in float32, and
// the square of that far from the largest number.
inline Floats mish(Floats x) noexcept {
  const Floats power = exponential(minimum(x, spread(20.0f))), n = power * (power + spread(2.0f));
  return x * (n / (n + spread(2.0f)));
}
inline Floats elu(Floats x, Floats alpha, Floats beta) noexcept {
  const Floats curve = exponential(minimum(x, spread(0.0f)) / beta) - spread(1.0f);
  return maximum(x, spread(0.0f)) + curve * alpha;
}
inline Floats hard_swish(Floats x, Floats alpha, Floats beta) noexcept { return x * hard_sigmoid(x, alpha, beta); }

inline Floats sign(Floats x) noexcept {
  return select(less(spread(0.0f), magnitude(x)), with_sign_of(spread(1.0f), x), x);
}
inline Floats cube(Floats x) noexcept { return x * x * x; }
inline Floats reciprocal_square_root(Floats x) noexcept { return spread(1.0f) / square_root(x); }

template <class Function>
inline void unary_elements(const FloatUnaryRun& run, Function function) noexcept {
  const float* input = run.input;
  float* output = run.output;
  const std::size_t count = run.count;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(output + i, function(load(input + i)));
  if (i < count) store_first(output + i, count - i, function(load_first(input + i, count - i, 1.0f)));
}

template <Floats (*function)(Floats)>
void unary_run(const FloatUnaryRun& run) noexcept {
  unary_elements(run, [](Floats x) noexcept { return function(x); });
}

template <Floats (*function)(Floats x, Floats alpha, Floats beta)>
void unary_run(const FloatUnaryRun& run) noexcept {
  const Floats alpha = spread(run.alpha), beta = spread(run.beta);
  unary_elements(run, [&](Floats x) noexcept { return function(x, alpha, beta); });
}

using BinaryFunction = Floats (*)(Floats, Floats);

template <BinaryFunction function, bool a_repeats, bool b_repeats>
inline void binary_row(const float* a, const float* b, float* output, std::size_t count) noexcept {
  const Floats first_a = spread(*a), first_b = spread(*b);
  const auto result = [&](std::size_t i) noexcept {
    return function(a_repeats ? first_a : load(a + i), b_repeats ? first_b : load(b + i));
  };
  if (count < kLanes) {
    return store_first(
        output, count,
        function(a_repeats ? first_a : load_first(a, count, 1.0f), b_repeats ? first_b : load_first(b, count, 1.0f)));
  }
  // The last lanes overlap those before, which the output may take from an input: so they are read first.
  const Floats last = result(count - kLanes);
  for (std::size_t i = 0; i + kLanes <= count; i += kLanes) store(output + i, result(i));
  store(output + count - kLanes, last);
}

template <BinaryFunction function, bool a_repeats, bool b_repeats>
void binary_elements(const FloatBinaryRun& run) noexcept {
  // Copies: stores of vectors could change what the reference refers to.
  const FloatBinaryRun rows = run;
  if (rows.count == 0) return;
  for (std::ptrdiff_t row = 0; row < static_cast<std::ptrdiff_t>(rows.rows); ++row) {
    binary_row<function, a_repeats, b_repeats>(rows.a + row * rows.a_row_stride, rows.b + row * rows.b_row_stride,
                                               rows.output + row * rows.output_row_stride, rows.count);
  }
}

template <BinaryFunction function>
void binary_run(const FloatBinaryRun& run) noexcept {
  if (run.a_repeats) {
    return run.b_repeats ? binary_elements<function, true, true>(run) : binary_elements<function, true, false>(run);
  }
  run.b_repeats ? binary_elements<function, false, true>(run) : binary_elements<function, false, false>(run);
}

// Loads a vector of a half's elements, or the first ones of it.
struct LoadedHalf {
  Floats input, cosines, sines;

  LoadedHalf(const RotationHalf& half, std::ptrdiff_t i) noexcept
      : input(load(half.input + i)), cosines(load(half.cosines + i)), sines(load(half.sines + i)) {}
  LoadedHalf(const RotationHalf& half, std::ptrdiff_t i, std::size_t lanes) noexcept
      : input(load_first(half.input + i, lanes, 0.0f)),
        cosines(load_first(half.cosines + i, lanes, 0.0f)),
        sines(load_first(half.sines + i, lanes, 0.0f)) {}
};

inline RotationHalf row_of(const RotationHalf& half, const RotationRun& run, std::ptrdiff_t row) noexcept {
  return {.input = half.input + row * run.input_row_stride,
          .cosines = half.cosines + row * run.cosines_row_stride,
          .sines = half.sines + row * run.sines_row_stride,
          .output = half.output + row * run.output_row_stride};
}

inline Floats rotated_first(const LoadedHalf& first, const LoadedHalf& second) noexcept {
  return first.input * first.cosines - second.input * first.sines;
}
inline Floats rotated_second(const LoadedHalf& first, const LoadedHalf& second) noexcept {
  return second.input * second.cosines + first.input * second.sines;
}

void rotate(const RotationRun& run) noexcept {
  const RotationRun own = run;  // stores of vectors could change what the reference refers to
  for (std::ptrdiff_t row = 0; row < static_cast<std::ptrdiff_t>(own.rows); ++row) {
    const RotationHalf first = row_of(own.first, own, row), second = row_of(own.second, own, row);
    std::size_t i = 0;
    for (; i + kLanes <= own.count; i += kLanes) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      const LoadedHalf a(first, at), b(second, at);
      store(first.output + at, rotated_first(a, b));
      store(second.output + at, rotated_second(a, b));
    }
    if (i == own.count) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    const LoadedHalf a(first, at, own.count - i), b(second, at, own.count - i);
    store_first(first.output + at, own.count - i, rotated_first(a, b));
    store_first(second.output + at, own.count - i, rotated_second(a, b));
  }
}

// In the order of FloatBinary and FloatUnary.
constexpr FloatFunctionKernels kRuns = {.binary = {binary_run<add>, binary_run<subtract>, binary_run<multiply>,
                                                   binary_run<divide>, binary_run<maximum>, binary_run<minimum>},
                                        .unary = {unary_run<relu>,
                                                  unary_run<logistic>,
                                                  unary_run<hyperbolic_tangent>,
                                                  unary_run<exponential>,
                                                  unary_run<square_root>,
                                                  unary_run<reciprocal>,
                                                  unary_run<error_function>,
                                                  unary_run<hard_sigmoid>,
                                                  unary_run<clip>,
                                                  unary_run<leaky_relu>,
                                                  unary_run<identity>,
                                                  unary_run<negated>,
                                                  unary_run<gelu>,
                                                  unary_run<logarithm>,
                                                  unary_run<gated>,
                                                  unary_run<tanh_gelu>,
                                                  unary_run<rounded_down>,
                                                  unary_run<rounded_up>,
                                                  unary_run<rounded>,
                                                  unary_run<sine>,
                                                  unary_run<cosine>,
                                                  unary_run<quantized_to_16_bits>,
                                                  unary_run<quantized_to_float8<3, 7, 448>>,
                                                  unary_run<quantized_to_float8<2, 15, 57344>>,
                                                  unary_run<magnitude>,
                                                  unary_run<softsign>,
                                                  unary_run<softplus>,
                                                  unary_run<mish>,
                                                  unary_run<elu>,
                                                  unary_run<hard_swish>,
                                                  unary_run<arctangent>,
                                                  unary_run<arcsine>,
                                                  unary_run<arccosine>,
                                                  unary_run<hyperbolic_sine>,
                                                  unary_run<hyperbolic_cosine>,
                                                  unary_run<sign>,
                                                  unary_run<cube>,
                                                  unary_run<reciprocal_square_root>},
                                        .rotate = rotate};
