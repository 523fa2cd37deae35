// Averages of whole planes of float_pool.h, in the lanes of an instruction set: the lanes of a vector are neighbours in
// memory, of one row of the plane or of several, and a tap of theirs is one load, of those lanes that have it.
// Included, after the lanes, inside the unnamed namespace of a kernel file, which defines
//
//   Lanes, lanes_of(bits)         which lanes there are, of a bit for each
//   common(lanes, others)         those that are in both
//   load_of(values, lanes)        0 in the others, of which nothing is read

// Of the lanes from an element on; none is behind the padding of the bits.
inline unsigned bits_from(const std::uint8_t* bits, std::size_t element) noexcept {
  if constexpr (kLanes == 1) return bits[element / 8] >> element % 8 & 1U;
  unsigned result = 0;
  std::memcpy(&result, bits + element / 8, kLanes / 8 + (kLanes < 8 ? 1 : 0));
  return result;
}

constexpr unsigned kAllLanes = (1U << kLanes) - 1;

// Lanes [begin, end) of those from an element on.
inline unsigned bits_between(std::ptrdiff_t begin, std::ptrdiff_t end, std::ptrdiff_t element) noexcept {
  constexpr auto kCount = static_cast<std::ptrdiff_t>(kLanes);
  const std::ptrdiff_t from = begin > element ? begin - element : 0;
  const std::ptrdiff_t to = end < element + kCount ? end - element : kCount;
  return from < to ? (1U << to) - (1U << from) : 0;
}

template <std::size_t fixed_taps>
inline void average_plane(const FloatPlane& plane) noexcept {
  const std::size_t taps = fixed_taps == 0 ? plane.taps : fixed_taps;
  const auto columns = static_cast<std::ptrdiff_t>(plane.columns);
  const std::ptrdiff_t count = static_cast<std::ptrdiff_t>(plane.rows) * columns;
  for (std::ptrdiff_t element = 0; element < count; element += static_cast<std::ptrdiff_t>(kLanes)) {
    const auto place = static_cast<std::size_t>(element);
    Lanes inside[FloatPlane::kMostTaps];
    for (std::size_t j = 0; j < taps; ++j) inside[j] = lanes_of(bits_from(plane.inside + j * plane.tap_bytes, place));
    Floats sum = spread(0.0f);
    for (std::size_t i = 0; i < plane.tap_rows; ++i) {
      const std::ptrdiff_t step = (static_cast<std::ptrdiff_t>(i) - plane.rows_before) * columns;
      const unsigned present = bits_between(-step, count - step, element);
      if (present == 0) continue;
      const float* tap = plane.input + (element + step - plane.columns_before);
      if (present == kAllLanes) {
        for (std::size_t j = 0; j < taps; ++j) sum = sum + load_of(tap + j, inside[j]);
      } else {
        for (std::size_t j = 0; j < taps; ++j) sum = sum + load_of(tap + j, common(inside[j], lanes_of(present)));
      }
    }
    const std::size_t left = static_cast<std::size_t>(count - element), lanes = left < kLanes ? left : kLanes;
    const bool whole = lanes == kLanes;
    const Floats divisors = plane.divisor_repeats ? spread(*plane.divisors)
                            : whole               ? load(plane.divisors + place)
                                                  : load_first(plane.divisors + place, lanes, 1.0f);
    const Floats average = sum / divisors;
    whole ? store(plane.output + place, average) : store_first(plane.output + place, lanes, average);
  }
}

void averages_of_plane(const FloatPlane& operands) noexcept {
  const FloatPlane plane = operands;  // a copy: the output could alias the original
  plane.taps == 3 ? average_plane<3>(plane) : average_plane<0>(plane);
}
