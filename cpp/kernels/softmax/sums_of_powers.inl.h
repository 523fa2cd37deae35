// Sums of up to 256 exponentials of codes in each lane, exact: 256 and more is rounded to multiples of 2^-15 when an
// exponential is added, and what rounding leaves out, 2^-16 at most, is summed beside it, in multiples of 2^-31.
// Included inside the unnamed namespace of a kernel file, after its lanes.

struct SumsOfPowers {
  static constexpr std::size_t kMost = 256;
  Floats high = spread(256.0F), low = spread(0.0F);

  void add(Floats power) noexcept {
    const Floats next = high + power;
    low = low + (power - (next - high));
    high = next;
  }

  // Of each lane, rounded once.
  Floats rounded() const noexcept { return (high - spread(256.0F)) + low; }

  // Both parts as integers, the higher one in units of 2^-15.
  Floats high_units() const noexcept { return (high - spread(256.0F)) * spread(0x1p15F); }
  Floats low_units() const noexcept { return low * spread(1.0F / kExponentialUnit); }
};
