// Rows in steps of 16 elements, whatever the number of lanes: element i belongs to lane i % 16 of a step.
// Included, after the lanes of an instruction set, inside the unnamed namespace of a kernel file.

constexpr std::size_t kStep = 16, kVectors = kStep / kLanes;

// Calls body(first element, vector of the step, count) for every vector; count is below kLanes in the last one only.
template <class Body>
inline void for_each_vector(std::size_t count, const Body& body) noexcept {
  std::size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (std::size_t v = 0; v < kVectors; ++v) body(i + v * kLanes, v, kLanes);
  }
  for (std::size_t v = 0; i < count; ++v, i += kLanes) body(i, v, count - i < kLanes ? count - i : kLanes);
}
