// The runs of range.h in the lanes of an instruction set: four vectors a step, each with a pair of extremes of its own,
// since minimum and maximum have a latency of four cycles. Bound by loads.
// Included inside the unnamed namespace of a kernel file, after the lanes and their halves.
//
// smaller and larger are their second operand if either is NaN: with the extreme as that one, NaN is skipped.

struct Extremes {
  Floats lowest, highest;

  void take(Floats values) noexcept {
    lowest = smaller(values, lowest);
    highest = larger(values, highest);
  }
};

template <class Input>
void extend(const void* input, std::size_t count, Range& range) noexcept {
  const Input* values = static_cast<const Input*>(input);
  const Extremes start = {spread(range.lowest), spread(range.highest)};
  Extremes extremes[4] = {start, start, start, start};
  if (count < kLanes) {
    extremes[0].take(load_first(values, count, __builtin_nanf("")));
  } else {
    // Both ends, so that vectors in between are aligned, and none is cut off.
    extremes[0].take(load(values));
    extremes[1].take(load(values + count - kLanes));
    std::size_t i = (0 - reinterpret_cast<std::uintptr_t>(input)) % (kLanes * sizeof(Input)) / sizeof(Input);
    for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
      for (std::size_t j = 0; j < 4; ++j) extremes[j].take(load(values + i + kLanes * j));
    }
    for (; i + kLanes <= count; i += kLanes) extremes[0].take(load(values + i));
  }
  range.lowest = -largest(negated(
      smaller(smaller(extremes[0].lowest, extremes[1].lowest), smaller(extremes[2].lowest, extremes[3].lowest))));
  range.highest = largest(
      larger(larger(extremes[0].highest, extremes[1].highest), larger(extremes[2].highest, extremes[3].highest)));
}
