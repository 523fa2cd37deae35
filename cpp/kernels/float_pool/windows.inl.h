// The windows of float_pool.h, in the lanes of an instruction set: in blocks of vectors that stay in registers where
// all taps are within their rows, one by one elsewhere. Included, after the lanes, inside the unnamed namespace of a
// kernel file, which defines
//
//   load_between(values, begin, end, fill)    lanes [begin, end) of a vector that exists in part, the others filled

struct Sum {
  static constexpr float kFirst = 0.0f;
  static Floats of(Floats a, Floats b) noexcept { return a + b; }
};
struct Maximum {
  static constexpr float kFirst = -__builtin_inff();
  static Floats of(Floats a, Floats b) noexcept { return select(is_nan(a), a, larger(a, b)); }
};

constexpr auto kWidth = static_cast<std::ptrdiff_t>(kLanes);

// Vectors from an element on, all taps of which are within their rows.
template <class Function, std::size_t vectors>
inline void write_inside(const FloatPoolRun& run, std::size_t element) noexcept {
  Floats results[vectors];
  for (std::size_t v = 0; v < vectors; ++v) results[v] = spread(Function::kFirst);
  const float* row = run.input + (run.first + static_cast<std::ptrdiff_t>(element));
  for (std::size_t i = 0; i < run.rows; ++i, row += run.row_step) {
    const float* tap = row;
    for (std::size_t j = 0; j < run.taps; ++j, tap += run.tap_step) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < vectors; ++v) results[v] = Function::of(results[v], load(tap + v * kLanes));
    }
  }
  for (std::size_t v = 0; v < vectors; ++v) store(run.output + element + v * kLanes, results[v]);
}

// The first count lanes of a vector of which some do not exist, or have taps beside their rows.
template <class Function>
inline void write_part(const FloatPoolRun& run, std::size_t element, std::ptrdiff_t count) noexcept {
  Floats result = spread(Function::kFirst);
  const float* row = run.input;
  for (std::size_t i = 0; i < run.rows; ++i, row += run.row_step) {
    std::ptrdiff_t place = run.first + static_cast<std::ptrdiff_t>(element);
    for (std::size_t j = 0; j < run.taps; ++j, place += run.tap_step) {
      const std::ptrdiff_t begin = place < 0 ? -place : 0;
      const std::ptrdiff_t end = count < run.length - place ? count : run.length - place;
      if (begin < end) result = Function::of(result, load_between(row + place, begin, end, Function::kFirst));
    }
  }
  if (count == kWidth) {
    store(run.output + element, result);
  } else {
    store_first(run.output + element, static_cast<std::size_t>(count), result);
  }
}

template <class Function>
void write_windows(const FloatPoolRun& operands) noexcept {
  const FloatPoolRun run = operands;  // a copy: the output could alias the original
  constexpr std::ptrdiff_t kVectors = 4;
  const auto count = static_cast<std::ptrdiff_t>(run.count);
  const std::ptrdiff_t last = run.taps == 0 ? 0 : static_cast<std::ptrdiff_t>(run.taps - 1) * run.tap_step;
  // Elements from begin up to end have all their taps.
  const std::ptrdiff_t begin = run.first < 0 ? -run.first : 0;
  const std::ptrdiff_t behind = run.length - run.first - last, end = behind < count ? behind : count;
  for (std::ptrdiff_t element = 0; element < count;) {
    const auto place = static_cast<std::size_t>(element);
    if (element >= begin && element + kVectors * kWidth <= end) {
      write_inside<Function, kVectors>(run, place);
      element += kVectors * kWidth;
    } else if (element >= begin && element + kWidth <= end) {
      write_inside<Function, 1>(run, place);
      element += kWidth;
    } else {
      const std::ptrdiff_t left = count - element < kWidth ? count - element : kWidth;
      write_part<Function>(run, place, left);
      element += left;
    }
  }
}

constexpr FloatPoolKernels kWindows = {.sums = write_windows<Sum>, .maxima = write_windows<Maximum>};
