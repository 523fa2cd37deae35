// A row of floats in some vectors, of which the first elements exist: the others are loaded as 0, and not stored.
// Included, after the lanes of an instruction set, inside the unnamed namespace of a kernel file.

template <std::size_t vectors>
inline void load_row(const float* from, std::size_t count, Floats (&row)[vectors]) noexcept {
  for (std::size_t v = 0; v < vectors; ++v, from += kLanes) {
    const std::size_t done = v * kLanes;
    row[v] = count >= done + kLanes ? load(from) : count > done ? load_first(from, count - done, 0.0f) : spread(0.0f);
  }
}

template <std::size_t vectors>
inline void store_row(float* to, std::size_t count, const Floats (&row)[vectors]) noexcept {
  for (std::size_t v = 0; v < vectors && v * kLanes < count; ++v, to += kLanes) {
    const std::size_t left = count - v * kLanes;
    left >= kLanes ? store(to, row[v]) : store_first(to, left, row[v]);
  }
}
