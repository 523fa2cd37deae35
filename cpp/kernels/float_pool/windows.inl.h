// The windows of float_pool.h, in the lanes of an instruction set: in blocks of vectors that stay in registers where
// all taps are within their rows, one by one elsewhere. Included, after planes.inl.h, inside the unnamed namespace of a
// kernel file, which defines
//
//   load_between(values, begin, end, fill)    lanes [begin, end) of a vector that exists in part, the others filled
//   even_lanes(first, second)                 lanes 0, 2, 4, ... of two vectors, one after the other
//   Found, noted(found, mask)                 in which lanes there was something, and with those of a mask

struct Sum {
  static constexpr float kFirst = 0.0f;
  static constexpr bool kDivides = true;
  static Floats of(Floats a, Floats b) noexcept { return a + b; }
};
struct Maximum {
  static constexpr bool kDivides = false;
  static constexpr float kFirst = -__builtin_inff();
  static Floats of(Floats a, Floats b) noexcept { return select(is_nan(a), a, larger(a, b)); }
  // Where neither is NaN.
  static Floats of_numbers(Floats a, Floats b) noexcept { return larger(a, b); }
  static float of_lanes(Floats x) noexcept { return largest(x); }
};
struct Minimum {
  static constexpr bool kDivides = false;
  static constexpr float kFirst = __builtin_inff();
  static Floats of(Floats a, Floats b) noexcept { return select(is_nan(a), a, smaller(a, b)); }
  static Floats of_numbers(Floats a, Floats b) noexcept { return smaller(a, b); }
  static float of_lanes(Floats x) noexcept { return -largest(negated(x)); }
};

constexpr auto kWidth = static_cast<std::ptrdiff_t>(kLanes);

template <std::ptrdiff_t step>
inline Floats load_elements(const float* values) noexcept {
  if constexpr (step == 1) return load(values);
  return even_lanes(load(values), load(values + kLanes));
}

// Lanes [begin, end), at least one, of elements that exist in part.
template <std::ptrdiff_t step>
inline Floats load_elements_between(const float* values, std::ptrdiff_t begin, std::ptrdiff_t end,
                                    float fill) noexcept {
  if constexpr (step == 1 || kWidth == 1) return load_between(values, begin, end, fill);
  const std::ptrdiff_t from = 2 * begin, to = 2 * end - 1;
  const Floats first = load_between(values, from < kWidth ? from : kWidth, to < kWidth ? to : kWidth, fill);
  const std::ptrdiff_t second_from = from < kWidth ? 0 : from - kWidth, second_to = to < kWidth ? 0 : to - kWidth;
  return even_lanes(first, load_between(values + kWidth, second_from, second_to, fill));
}

// Vectors from an element on, all taps of which are within their rows.
template <class Function, std::ptrdiff_t step, std::size_t vectors>
inline void write_inside(const FloatPoolRun& run, std::size_t element) noexcept {
  Floats results[vectors];
  for (std::size_t v = 0; v < vectors; ++v) results[v] = spread(Function::kFirst);
  const float* row = run.input + (run.first + step * static_cast<std::ptrdiff_t>(element));
  for (std::size_t i = 0; i < run.rows; ++i, row += run.row_step) {
    const float* tap = row;
    for (std::size_t j = 0; j < run.taps; ++j, tap += run.tap_step) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) {
        results[v] = Function::of(results[v], load_elements<step>(tap + v * kLanes * static_cast<std::size_t>(step)));
      }
    }
  }
  if (Function::kDivides && run.divisors != nullptr) {
    for (std::size_t v = 0; v < vectors; ++v) {
      const std::size_t place = element + v * kLanes;
      results[v] = results[v] / (run.divisor_repeats ? spread(*run.divisors) : load(run.divisors + place));
    }
  }
  for (std::size_t v = 0; v < vectors; ++v) store(run.output + element + v * kLanes, results[v]);
}

inline Floats divisors_of_part(const FloatPoolRun& run, std::size_t element, std::ptrdiff_t count) noexcept {
  if (run.divisor_repeats) return spread(*run.divisors);
  const float* divisors = run.divisors + element;
  return count == kWidth ? load(divisors) : load_first(divisors, static_cast<std::size_t>(count), 1.0f);
}

// The first count lanes of a vector of which some do not exist, or have taps beside their rows.
template <class Function, std::ptrdiff_t step>
inline void write_part(const FloatPoolRun& run, std::size_t element, std::ptrdiff_t count) noexcept {
  Floats result = spread(Function::kFirst);
  const float* row = run.input;
  for (std::size_t i = 0; i < run.rows; ++i, row += run.row_step) {
    std::ptrdiff_t place = run.first + step * static_cast<std::ptrdiff_t>(element);
    for (std::size_t j = 0; j < run.taps; ++j, place += run.tap_step) {
      const std::ptrdiff_t begin = place < 0 ? (step - 1 - place) / step : 0;
      const std::ptrdiff_t behind = (run.length - place + step - 1) / step, end = count < behind ? count : behind;
      if (step == 1 && begin == 0 && end == kWidth) {  // most taps of a row's first and last vectors
        result = Function::of(result, load(row + place));
      } else if (begin < end) {
        result = Function::of(result, load_elements_between<step>(row + place, begin, end, Function::kFirst));
      }
    }
  }
  if (Function::kDivides && run.divisors != nullptr) result = result / divisors_of_part(run, element, count);
  if (count == kWidth) {
    store(run.output + element, result);
  } else {
    store_first(run.output + element, static_cast<std::size_t>(count), result);
  }
}

template <class Function, std::ptrdiff_t step>
inline void write_run(const FloatPoolRun& run) noexcept {
  constexpr std::ptrdiff_t kVectors = 4;
  const auto count = static_cast<std::ptrdiff_t>(run.count);
  const std::ptrdiff_t last = run.taps == 0 ? 0 : static_cast<std::ptrdiff_t>(run.taps - 1) * run.tap_step;
  // Elements from begin up to end have all their taps, and what is between these and the next element's.
  const std::ptrdiff_t begin = run.first < 0 ? (step - 1 - run.first) / step : 0;
  const std::ptrdiff_t behind = (run.length - run.first - last) / step, end = behind < count ? behind : count;
  for (std::ptrdiff_t element = 0; element < count;) {
    const auto place = static_cast<std::size_t>(element);
    if (element >= begin && element + kVectors * kWidth <= end) {
      write_inside<Function, step, kVectors>(run, place);
      element += kVectors * kWidth;
    } else if (element >= begin && element + kWidth <= end) {
      write_inside<Function, step, 1>(run, place);
      element += kWidth;
    } else if (element > 0 && count - element < kWidth && count >= kWidth) {
      // The last vector is a whole one, some of whose elements are those of the one before.
      write_part<Function, step>(run, static_cast<std::size_t>(count - kWidth), kWidth);
      break;
    } else {
      const std::ptrdiff_t left = count - element < kWidth ? count - element : kWidth;
      write_part<Function, step>(run, place, left);
      element += left;
    }
  }
}

template <class Function>
void write_windows(const FloatPoolRun& operands) noexcept {
  const FloatPoolRun run = operands;  // a copy: the output could alias the original
  run.step == 1 ? write_run<Function, 1>(run) : write_run<Function, 2>(run);
}

// What the order of the lanes has not kept: the first NaN, or the last zero.
inline float first_nan(const FloatWindow& window) noexcept {
  const float* row = window.input;
  for (std::size_t i = 0; i < window.rows; ++i, row += window.row_step) {
    for (std::size_t j = 0; j < window.count; ++j) {
      if (row[j] != row[j]) return row[j];
    }
  }
  return __builtin_nanf("");
}
inline float last_zero(const FloatWindow& window) noexcept {
  for (std::size_t i = window.rows; i-- > 0;) {
    const float* row = window.input + static_cast<std::ptrdiff_t>(i) * window.row_step;
    for (std::size_t j = window.count; j-- > 0;) {
      if (row[j] == 0.0f) return row[j];
    }
  }
  return 0.0f;
}

template <class Extreme>
float extreme_of_window(const FloatWindow& operands) noexcept {
  constexpr std::size_t kVectors = kLanes == 1 ? 32 : 4;  // compilers make vectors of single lanes
  const FloatWindow window = operands;
  Floats best[kVectors];
  Found found[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    best[v] = spread(Extreme::kFirst);
    found[v] = Found(is_nan(best[v]));
  }
  const auto take = [&](std::size_t v, Floats values) noexcept {
    best[v] = Extreme::of_numbers(best[v], values);
    found[v] = noted(found[v], is_nan(values));
  };
  const float* row = window.input;
  for (std::size_t i = 0; i < window.rows; ++i, row += window.row_step) {
    std::size_t j = 0;
    for (; j + kVectors * kLanes <= window.count; j += kVectors * kLanes) {
      for (std::size_t v = 0; v < kVectors; ++v) take(v, load(row + j + v * kLanes));
    }
    for (; j + kLanes <= window.count; j += kLanes) take(0, load(row + j));
    if (j < window.count) take(1, load_first(row + j, window.count - j, Extreme::kFirst));
  }
  for (std::size_t v = 1; v < kVectors; ++v) {
    best[0] = Extreme::of_numbers(best[0], best[v]);
    found[0] = noted(found[0], found[v]);
  }
  if (any(found[0])) return first_nan(window);
  const float result = Extreme::of_lanes(best[0]);
  return result == 0.0f ? last_zero(window) : result;
}
