// Two vectors of lanes as one: the operations of scalar.inl.h that functions of one input need are done to both, one
// after the other, so that two chains of operations that wait for each other are under way at once.
// Included inside the namespace `paired` within the unnamed one of a kernel file, behind the lanes of an instruction
// set in the namespace `single` beside it.

struct Floats {
  single::Floats low, high;
};
struct Mask {
  single::Mask low, high;
};
constexpr std::size_t kLanes = 2 * single::kLanes;

inline Floats operator+(Floats a, Floats b) noexcept { return {a.low + b.low, a.high + b.high}; }
inline Floats operator-(Floats a, Floats b) noexcept { return {a.low - b.low, a.high - b.high}; }
inline Floats operator*(Floats a, Floats b) noexcept { return {a.low * b.low, a.high * b.high}; }
inline Floats operator/(Floats a, Floats b) noexcept { return {a.low / b.low, a.high / b.high}; }

inline Floats spread(float value) noexcept { return {single::spread(value), single::spread(value)}; }
inline Floats load(const float* values) noexcept {
  return {single::load(values), single::load(values + single::kLanes)};
}
inline void store(float* values, Floats lanes) noexcept {
  single::store(values, lanes.low);
  single::store(values + single::kLanes, lanes.high);
}
inline Floats load_first(const float* values, std::size_t count, float fill) noexcept {
  if (count < single::kLanes) return {single::load_first(values, count, fill), single::spread(fill)};
  return {single::load(values), single::load_first(values + single::kLanes, count - single::kLanes, fill)};
}
inline void store_first(float* values, std::size_t count, Floats lanes) noexcept {
  if (count < single::kLanes) return single::store_first(values, count, lanes.low);
  single::store(values, lanes.low);
  single::store_first(values + single::kLanes, count - single::kLanes, lanes.high);
}

inline Floats fused(Floats a, Floats b, Floats c) noexcept {
  return {single::fused(a.low, b.low, c.low), single::fused(a.high, b.high, c.high)};
}
inline Floats square_root(Floats x) noexcept { return {single::square_root(x.low), single::square_root(x.high)}; }
inline Mask less(Floats a, Floats b) noexcept { return {single::less(a.low, b.low), single::less(a.high, b.high)}; }
inline Mask is_nan(Floats x) noexcept { return {single::is_nan(x.low), single::is_nan(x.high)}; }
inline Floats select(Mask mask, Floats a, Floats b) noexcept {
  return {single::select(mask.low, a.low, b.low), single::select(mask.high, a.high, b.high)};
}
inline Floats smaller(Floats a, Floats b) noexcept {
  return {single::smaller(a.low, b.low), single::smaller(a.high, b.high)};
}
inline Floats larger(Floats a, Floats b) noexcept {
  return {single::larger(a.low, b.low), single::larger(a.high, b.high)};
}

inline Floats magnitude(Floats x) noexcept { return {single::magnitude(x.low), single::magnitude(x.high)}; }
inline Floats negated(Floats x) noexcept { return {single::negated(x.low), single::negated(x.high)}; }
inline Floats with_sign_of(Floats x, Floats sign) noexcept {
  return {single::with_sign_of(x.low, sign.low), single::with_sign_of(x.high, sign.high)};
}
inline Floats power_of_2_within(Floats x) noexcept {
  return {single::power_of_2_within(x.low), single::power_of_2_within(x.high)};
}
inline Floats times_power_of_2(Floats x, Floats shifted) noexcept {
  return {single::times_power_of_2(x.low, shifted.low), single::times_power_of_2(x.high, shifted.high)};
}
inline Floats times_power_of_2_up_to_1(Floats x, Floats shifted) noexcept {
  return {single::times_power_of_2_up_to_1(x.low, shifted.low), single::times_power_of_2_up_to_1(x.high, shifted.high)};
}
inline Floats times_normal_power_of_2(Floats x, Floats shifted) noexcept {
  return {single::times_normal_power_of_2(x.low, shifted.low), single::times_normal_power_of_2(x.high, shifted.high)};
}
inline Floats exponent_of(Floats x, Floats& significand) noexcept {
  return {single::exponent_of(x.low, significand.low), single::exponent_of(x.high, significand.high)};
}
inline float largest(Floats x) noexcept { return single::largest(single::larger(x.low, x.high)); }
