// The transforms of winograd.h along one axis, of lanes that are numbers or vectors of them. Results of 32 bits are
// modulo 2^32: these lanes are unsigned.
// Included inside the unnamed namespace of a kernel file.

// Numbers or vectors of any alignment.
template <class Value>
inline Value load(const void* values) noexcept {
  Value value;
  __builtin_memcpy(&value, values, sizeof(value));
  return value;
}
template <class Value>
inline void store(void* values, Value value) noexcept {
  __builtin_memcpy(values, &value, sizeof(value));
}

// A row of B' each.
template <class Lanes>
inline void transform_six(const Lanes (&x)[6], Lanes (&v)[6]) noexcept {
  const Lanes even = x[4] - (x[2] << 2), odd = x[3] - (x[1] << 2);
  const Lanes outer = x[4] - x[2], twice = (x[3] - x[1]) << 1;
  v[0] = ((x[0] - x[2]) << 2) + outer;
  v[1] = even + odd;
  v[2] = even - odd;
  v[3] = outer + twice;
  v[4] = outer - twice;
  v[5] = (x[5] - x[3]) - (twice << 1);
}

// A row of G each.
template <class Lanes>
inline void transform_three(const Lanes (&w)[3], Lanes (&u)[6]) noexcept {
  const Lanes sum = w[0] + w[2], weighted = w[0] + (w[2] << 2), twice = w[1] << 1;
  u[0] = w[0];
  u[1] = sum + w[1];
  u[2] = sum - w[1];
  u[3] = weighted + twice;
  u[4] = weighted - twice;
  u[5] = w[2];
}

// A row of A' each, without its factor: 1, 2, 4 and 4.
template <class Lanes>
inline void transform_back(const Lanes (&m)[6], Lanes (&y)[4]) noexcept {
  const Lanes sum_1 = m[1] + m[2], difference_1 = m[1] - m[2], sum_2 = m[3] + m[4], difference_2 = m[3] - m[4];
  const Lanes three = m[0] + (m[0] << 1), last = m[5] + (m[5] << 1);
  y[0] = ((three - (sum_1 << 1)) << 1) + sum_2;
  y[1] = difference_2 - (difference_1 << 1);
  y[2] = sum_2 - sum_1;
  y[3] = ((difference_2 + last) << 1) - difference_1;
}

// Of the sum at a row and a column: what is left of 64 by the factors left out.
constexpr int kLeftOut[4] = {0, 1, 2, 2};
constexpr int shift_of(std::size_t row, std::size_t column) { return 6 - kLeftOut[row] - kLeftOut[column]; }

constexpr std::uint32_t kInverseOfNine = 954437177U;
static_assert(9 * kInverseOfNine == 1U);

// Along both axes, columns first: load(row, column) gives what store(place, lanes) gets the transform of.
template <class Lanes, std::size_t inputs, std::size_t outputs, class Transform, class Load, class Store>
inline __attribute__((always_inline)) void transform_both(const Transform& transform, const Load& load,
                                                          const Store& store) noexcept {
  Lanes half[outputs][inputs];
#pragma GCC unroll 6
  for (std::size_t column = 0; column < inputs; ++column) {
    Lanes in[inputs], out[outputs];
#pragma GCC unroll 6
    for (std::size_t row = 0; row < inputs; ++row) in[row] = load(row, column);
    transform(in, out);
#pragma GCC unroll 6
    for (std::size_t row = 0; row < outputs; ++row) half[row][column] = out[row];
  }
#pragma GCC unroll 6
  for (std::size_t row = 0; row < outputs; ++row) {
    Lanes out[outputs];
    transform(half[row], out);
#pragma GCC unroll 6
    for (std::size_t column = 0; column < outputs; ++column) store(row, column, out[column]);
  }
}

template <class Lanes, class Load, class Store>
inline __attribute__((always_inline)) void transform_codes(const Load& load, const Store& store) noexcept {
  transform_both<Lanes, 6, 6>([](const Lanes(&x)[6], Lanes(&v)[6]) noexcept { transform_six(x, v); }, load, store);
}

template <class Lanes, class Load, class Store>
inline __attribute__((always_inline)) void transform_window(const Load& load, const Store& store) noexcept {
  transform_both<Lanes, 3, 6>([](const Lanes(&w)[3], Lanes(&u)[6]) noexcept { transform_three(w, u); }, load, store);
}

// Store gets 2^shift_of(row, column) * 9 times the sums.
template <class Lanes, class Load, class Store>
inline __attribute__((always_inline)) void transform_products(const Load& load, const Store& store) noexcept {
  transform_both<Lanes, 6, 4>([](const Lanes(&m)[6], Lanes(&y)[4]) noexcept { transform_back(m, y); }, load, store);
}
