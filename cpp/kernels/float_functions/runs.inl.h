// The runs of float_functions.h, in the lanes of an instruction set.
// Included, after lanes/functions.inl.h and lanes/trigonometry.inl.h, inside the unnamed namespace of a kernel file.

struct Add {
  static Floats of(Floats a, Floats b) noexcept { return a + b; }
};
struct Subtract {
  static Floats of(Floats a, Floats b) noexcept { return a - b; }
};
struct Multiply {
  static Floats of(Floats a, Floats b) noexcept { return a * b; }
};
struct Divide {
  static Floats of(Floats a, Floats b) noexcept { return a / b; }
};
struct Maximum {
  static Floats of(Floats a, Floats b) noexcept { return select(is_nan(a), a, larger(a, b)); }
};
struct Minimum {
  static Floats of(Floats a, Floats b) noexcept { return select(is_nan(a), a, smaller(a, b)); }
};

struct Relu {
  static Floats of(Floats x, Floats, Floats) noexcept { return larger(spread(0.0f), x); }
};
struct Sigmoid {
  static Floats of(Floats x, Floats, Floats) noexcept { return logistic(x); }
};
struct Tanh {
  static Floats of(Floats x, Floats, Floats) noexcept { return hyperbolic_tangent(x); }
};
struct Exponential {
  static Floats of(Floats x, Floats, Floats) noexcept { return exponential(x); }
};
struct SquareRoot {
  static Floats of(Floats x, Floats, Floats) noexcept { return square_root(x); }
};
struct Reciprocal {
  static Floats of(Floats x, Floats, Floats) noexcept { return spread(1.0f) / x; }
};
struct ErrorFunction {
  static Floats of(Floats x, Floats, Floats) noexcept { return error_function(x); }
};
struct HardSigmoid {
  static Floats of(Floats x, Floats alpha, Floats beta) noexcept {
    return larger(spread(0.0f), smaller(spread(1.0f), x * alpha + beta));
  }
};
struct Clip {
  static Floats of(Floats x, Floats alpha, Floats beta) noexcept { return smaller(beta, larger(alpha, x)); }
};
struct LeakyRelu {
  static Floats of(Floats x, Floats alpha, Floats) noexcept { return select(less(x, spread(0.0f)), x * alpha, x); }
};
struct Identity {
  static Floats of(Floats x, Floats, Floats) noexcept { return x; }
};
struct Negate {
  static Floats of(Floats x, Floats, Floats) noexcept { return negated(x); }
};

struct Gelu {
  static Floats of(Floats x, Floats alpha, Floats) noexcept {
    return x * (error_function(x / alpha) + spread(1.0f)) * spread(0.5f);
  }
};

struct Logarithm {
  static Floats of(Floats x, Floats, Floats) noexcept { return logarithm(x); }
};

struct Gated {
  static Floats of(Floats x, Floats alpha, Floats) noexcept { return x * logistic(x * alpha); }
};

struct TanhGelu {
  static Floats of(Floats x, Floats alpha, Floats beta) noexcept { return x * logistic(x * (x * beta * x + alpha)); }
};

struct Floor {
  static Floats of(Floats x, Floats, Floats) noexcept { return rounded_down(x); }
};
struct Ceil {
  static Floats of(Floats x, Floats, Floats) noexcept { return negated(rounded_down(negated(x))); }
};
struct Round {
  static Floats of(Floats x, Floats, Floats) noexcept { return rounded(x); }
};

struct Sine {
  static Floats of(Floats x, Floats, Floats) noexcept { return sine(x); }
};
struct Cosine {
  static Floats of(Floats x, Floats, Floats) noexcept { return cosine(x); }
};

struct QuantizedTo16Bits {
  // Adding 1.5 * 2^23 and taking it away rounds what is within 65535 of 0. What is rounded to 0 becomes +0, as a
  // difference of equal integers does.
  static Floats of(Floats x, Floats alpha, Floats beta) noexcept {
    const Floats bounded = smaller(larger(x / alpha, beta), beta + spread(65535.0f));
    return ((bounded + spread(0x1.8p23f)) - spread(0x1.8p23f)) * alpha;
  }
};

// A type of floats of 8 bits: its mantissa's bits without the leading one, its exponent's bias, its largest number.
template <int mantissa_bits, int bias, int largest_number>
struct QuantizedToFloat8 {
  // p is the power of 2 within |b| of the bounded quotient b, or the smallest normal number where that is larger: then
  // |b| <= 2p, and the numbers of the type up to 2p that are nearest to b, subnormal ones too, are multiples of
  // u = p * 2^-mantissa_bits. With magic = 1.5 * 2^23 * u the sum b + magic lies within (1.5 * 2^23 +- 16) u, between
  // 2^23 u and 2^24 u, where float32 holds the multiples of u and no others. So it is b + magic rounded to one of them,
  // half to an even one; since 1.5 * 2^23 is even, that is b's nearest multiple of u, half to even, which is an even
  // mantissa. Taking magic away is exact: at most 16 u remain. p is at most 2^15, so that nothing overflows, and
  // at least 2^-14, so that nothing is subnormal. The bounds are numbers of the type: rounding what is within them
  // stays there. A quotient that is no number passes them, has p = infinity, and stays none. Zeros have the quotient's
  // sign.
  static Floats of(Floats x, Floats alpha, Floats) noexcept {
    constexpr float kLargest = largest_number, kSmallestNormal = 1.0f / (1U << (bias - 1));
    constexpr float kMagic = 1.5f * (1U << (23 - mantissa_bits));
    const Floats bounded = smaller(spread(kLargest), larger(spread(-kLargest), x / alpha));
    const Floats magic = larger(spread(kSmallestNormal), power_of_2_within(bounded)) * spread(kMagic);
    return with_sign_of((bounded + magic) - magic, bounded) * alpha;
  }
};
using QuantizedToFloat8E4M3 = QuantizedToFloat8<3, 7, 448>;
using QuantizedToFloat8E5M2 = QuantizedToFloat8<2, 15, 57344>;

struct Absolute {
  static Floats of(Floats x, Floats, Floats) noexcept { return magnitude(x); }
};
struct Softsign {
  static Floats of(Floats x, Floats, Floats) noexcept { return x / (magnitude(x) + spread(1.0f)); }
};
// log(1 + e^x), by an exponential that is at most 1.
struct Softplus {
  static Floats of(Floats x, Floats, Floats) noexcept {
    return Maximum::of(x, spread(0.0f)) + logarithm(exponential(negated(magnitude(x))) + spread(1.0f));
  }
};
// With e = exp(x) the factor of x, tanh(log(1 + e)), is n / (n + 2): 1 from x = 20 on, where e + 2 is e in float32, and
// the square of that far from the largest number.
struct Mish {
  static Floats of(Floats x, Floats, Floats) noexcept {
    const Floats power = exponential(Minimum::of(x, spread(20.0f))), n = power * (power + spread(2.0f));
    return x * (n / (n + spread(2.0f)));
  }
};
struct Elu {
  static Floats of(Floats x, Floats alpha, Floats beta) noexcept {
    const Floats curve = exponential(Minimum::of(x, spread(0.0f)) / beta) - spread(1.0f);
    return Maximum::of(x, spread(0.0f)) + curve * alpha;
  }
};
struct HardSwish {
  static Floats of(Floats x, Floats alpha, Floats beta) noexcept { return x * HardSigmoid::of(x, alpha, beta); }
};

template <class Function>
void unary_run(const FloatUnaryRun& run) noexcept {
  const float* input = run.input;
  float* output = run.output;
  const std::size_t count = run.count;
  const Floats alpha = spread(run.alpha), beta = spread(run.beta);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(output + i, Function::of(load(input + i), alpha, beta));
  if (i < count) {
    store_first(output + i, count - i, Function::of(load_first(input + i, count - i, 1.0f), alpha, beta));
  }
}

template <class Function, bool a_repeats, bool b_repeats>
void binary_elements(const FloatBinaryRun& run) noexcept {
  const float *a = run.a, *b = run.b;
  float* output = run.output;
  const std::size_t count = run.count;
  if (count == 0) return;
  const Floats first_a = spread(*a), first_b = spread(*b);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store(output + i, Function::of(a_repeats ? first_a : load(a + i), b_repeats ? first_b : load(b + i)));
  }
  if (i < count) {
    const std::size_t rest = count - i;
    store_first(output + i, rest,
                Function::of(a_repeats ? first_a : load_first(a + i, rest, 1.0f),
                             b_repeats ? first_b : load_first(b + i, rest, 1.0f)));
  }
}

template <class Function>
void binary_run(const FloatBinaryRun& run) noexcept {
  if (run.a_repeats) {
    return run.b_repeats ? binary_elements<Function, true, true>(run) : binary_elements<Function, true, false>(run);
  }
  run.b_repeats ? binary_elements<Function, false, true>(run) : binary_elements<Function, false, false>(run);
}

// In the order of FloatBinary and FloatUnary.
constexpr FloatFunctionKernels kRuns = {.binary = {binary_run<Add>, binary_run<Subtract>, binary_run<Multiply>,
                                                   binary_run<Divide>, binary_run<Maximum>, binary_run<Minimum>},
                                        .unary = {unary_run<Relu>,
                                                  unary_run<Sigmoid>,
                                                  unary_run<Tanh>,
                                                  unary_run<Exponential>,
                                                  unary_run<SquareRoot>,
                                                  unary_run<Reciprocal>,
                                                  unary_run<ErrorFunction>,
                                                  unary_run<HardSigmoid>,
                                                  unary_run<Clip>,
                                                  unary_run<LeakyRelu>,
                                                  unary_run<Identity>,
                                                  unary_run<Negate>,
                                                  unary_run<Gelu>,
                                                  unary_run<Logarithm>,
                                                  unary_run<Gated>,
                                                  unary_run<TanhGelu>,
                                                  unary_run<Floor>,
                                                  unary_run<Ceil>,
                                                  unary_run<Round>,
                                                  unary_run<Sine>,
                                                  unary_run<Cosine>,
                                                  unary_run<QuantizedTo16Bits>,
                                                  unary_run<QuantizedToFloat8E4M3>,
                                                  unary_run<QuantizedToFloat8E5M2>,
                                                  unary_run<Absolute>,
                                                  unary_run<Softsign>,
                                                  unary_run<Softplus>,
                                                  unary_run<Mish>,
                                                  unary_run<Elu>,
                                                  unary_run<HardSwish>}};
