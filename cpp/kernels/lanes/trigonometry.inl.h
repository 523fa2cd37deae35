// Sine and cosine of float32, of the quarter turns of an angle and what is left of it, and inverses. Fixed sequences of
// operations as in functions.inl.h, behind which it is included, inside the unnamed namespace of a kernel file.
//
// Errors, in units in the last place of the exact value rounded to float32: sine, cosine and arctangent < 1.6, arcsine
// and arccosine < 1.25.

// |x| = quarters * pi/2 + angle, with |angle| < 1.01 * pi/4, and quarters reduced modulo 4.
struct Turn {
  Floats angle, quarters;
};

// From here on 2/pi in float32 does not tell the nearest quarter well enough: angles would leave what the polynomials
// are for.
constexpr float kFar = 0x1p17f;

// One size, finite and at least kFar: m * 2^e quarters of 2/pi each, modulo 4. Of the bits of 2/pi those before the
// place e - 2 make multiples of 4, and 96 from there are enough: they leave 2^-62 of a quarter, and no float32 is
// nearer than 2^-31 to a multiple of pi/2.
inline void turn_far(float size, float& angle, float& quarters) noexcept {
  // 32 zeros, then 2/pi: the bit of 2^-1 is at place 32.
  constexpr std::uint32_t kBits[] = {0,           0xa2f9836eU, 0x4e441529U, 0xfc2757d1U,
                                     0xf534ddc0U, 0xdb629599U, 0x3c439041U, 0xfe5163abU};
  std::uint32_t bits;
  std::memcpy(&bits, &size, sizeof(bits));
  const std::uint64_t m = (bits & 0x7fffffU) | 0x800000U;
  const std::uint32_t place = (bits >> 23) - 150U + 30U;  // e = exponent - 150 is at least -6, at most 104
  const std::uint32_t word = place / 32, shift = place % 32;
  std::uint64_t window[3];
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::uint64_t both = std::uint64_t{kBits[word + i]} << 32 | kBits[word + i + 1];
    window[i] = both << shift >> 32;
  }
  const std::uint64_t low = m * window[2], middle = m * window[1] + (low >> 32), high = m * window[0] + (middle >> 32);
  const std::uint64_t turned = high << 32 | (middle & 0xffffffffU);  // in 2^-62 of a quarter, modulo 4
  const std::uint64_t nearest = (turned + (std::uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<std::int64_t>(turned - (nearest << 62));
  quarters = static_cast<float>(nearest);
  angle = static_cast<float>(static_cast<double>(rest) * 0x1.921fb54442d18p-62);
}

// Below kFar pi/2 is taken away in three parts. With less than 2^17 quarters the first difference is exact: it is below
// 1 and a multiple of 2^-24, or nothing is taken away. What is infinite, or no number, has an angle that is none.
inline Turn turn_of(Floats size) noexcept {
  const Floats n = fused(size, spread(0x1.45f306p-1f), spread(0x1.8p23f)) - spread(0x1.8p23f);
  const Floats near_angle = fused(n, spread(-0x1.921fb6p+0f), size);
  Turn turn;
  turn.angle = fused(n, spread(0x1.ee59dap-50f), fused(n, spread(0x1.777a5cp-25f), near_angle));
  turn.quarters = n - spread(4.0f) * rounded_down(n * spread(0.25f));
  if (largest(select(is_nan(size), spread(0.0f), size)) >= kFar) {
    float sizes[kLanes], angles[kLanes], quarters[kLanes];
    store(sizes, size);
    store(angles, turn.angle);
    store(quarters, turn.quarters);
    for (std::size_t i = 0; i < kLanes; ++i) {
      if (sizes[i] >= kFar && sizes[i] < __builtin_inff()) turn_far(sizes[i], angles[i], quarters[i]);
    }
    turn.angle = load(angles);
    turn.quarters = load(quarters);
  }
  return turn;
}

// The sine after a number of quarter turns, 0 to 3: r + r^3 p(r^2), then 1 - r^2 / 2 + r^4 q(r^2), then both negative.
inline Floats sine_after(Floats angle, Floats quarters) noexcept {
  constexpr float kSine[] = {-0x1.994e42p-13f, 0x1.11076p-7f, -0x1.555546p-3f};
  constexpr float kCosine[] = {0x1.9a01f4p-16f, -0x1.6c0c8ap-10f, 0x1.55554ap-5f};
  const Floats square = angle * angle;
  const Floats sine = fused(angle * square, polynomial(square, kSine), angle);
  const Floats cosine = fused(square * square, polynomial(square, kCosine), fused(square, spread(-0.5f), spread(1.0f)));
  const Floats half = select(less(quarters, spread(2.0f)), quarters, quarters - spread(2.0f));
  const Floats upper = select(less(spread(0.5f), half), cosine, sine);
  return select(less(spread(1.5f), quarters), negated(upper), upper);
}

inline Floats sine(Floats x) noexcept {
  const Turn turn = turn_of(magnitude(x));
  return with_sign_of(spread(1.0f), x) * sine_after(turn.angle, turn.quarters);
}

// A quarter turn ahead of the sine.
inline Floats cosine(Floats x) noexcept {
  const Turn turn = turn_of(magnitude(x));
  const Floats ahead = turn.quarters + spread(1.0f);
  return sine_after(turn.angle, select(less(ahead, spread(4.0f)), ahead, ahead - spread(4.0f)));
}

// pi/2 in two parts.
constexpr float kRightAngle = 0x1.921fb6p+0f, kRestOfRightAngle = -0x1.777a5cp-25f;

// q + q^3 p(q^2) of q = |x| up to 1 and 1 / |x| above, where that is taken from a right angle.
inline Floats arctangent(Floats x) noexcept {
  constexpr float kCoefficients[] = {-0x1.d62dbap-10f, 0x1.65a52p-7f,   -0x1.fed038p-6f,
                                     0x1.dac94ep-5f,   -0x1.583464p-4f, 0x1.c099eep-4f,
                                     -0x1.2421b4p-3f,  0x1.9991fep-3f,  -0x1.55553ep-2f};
  const Floats size = magnitude(x);
  const Floats quotient = smaller(spread(1.0f), size) / larger(spread(1.0f), size), square = quotient * quotient;
  const Floats angle = fused(quotient * square, polynomial(square, kCoefficients), quotient);
  const Floats rest = spread(kRightAngle) - (angle - spread(kRestOfRightAngle));
  return with_sign_of(select(less(spread(1.0f), size), rest, angle), x);
}

// p of the arcsine r + r^3 p(r^2) of r within 1/2, of the square of r.
inline Floats arcsine_polynomial(Floats square) noexcept {
  constexpr float kCoefficients[] = {0x1.59dadp-5f, 0x1.8ba25p-6f, 0x1.748c66p-5f, 0x1.33014ep-4f, 0x1.5555cap-3f};
  return polynomial(square, kCoefficients);
}

// Above 1/2 a right angle less twice the arcsine of the root of (1 - |x|) / 2, which beyond 1 is no number. Of these
// the larger parts are taken from each other first, and what that rounds away is added to the smaller ones.
inline Floats arcsine(Floats x) noexcept {
  const Floats size = magnitude(x);
  const Mask is_small = less(size, spread(0.5f));
  const Floats square = select(is_small, size * size, (spread(1.0f) - size) * spread(0.5f));
  const Floats root = select(is_small, size, square_root(square)), factor = arcsine_polynomial(square);
  const Floats angle = fused(root * square, factor, root), twice = root + root;
  const Floats nearly = spread(kRightAngle) - twice, rounded_away = spread(kRightAngle) - nearly - twice;
  const Floats rest = fused(negated(twice) * square, factor, spread(kRestOfRightAngle)) + rounded_away;
  return with_sign_of(select(is_small, angle, nearly + rest), x);
}

// A right angle less the arcsine where |x| is below 1/2; else twice the arcsine of that root, below 0 taken from two
// right angles.
inline Floats arccosine(Floats x) noexcept {
  const Floats size = magnitude(x);
  const Mask is_small = less(size, spread(0.5f)), is_negative = less(x, spread(0.0f));
  const Floats square = select(is_small, size * size, (spread(1.0f) - size) * spread(0.5f));
  const Floats root = select(is_small, x, square_root(square));
  const Floats angle = fused(root * square, arcsine_polynomial(square), root);
  const Floats beside = spread(kRightAngle) - (angle - spread(kRestOfRightAngle)), twice = angle + angle;
  const Floats opposite = spread(2.0f * kRightAngle) - (twice - spread(2.0f * kRestOfRightAngle));
  return select(is_small, beside, select(is_negative, opposite, twice));
}
