// How the transposition of at most 4 rows orders what four rows interleaved are.
// Included inside the unnamed namespace of a kernel file.

// Groups of four bytes, of which the first `rows` stay: within a lane of 128 bits four groups become as many elements
// of 32 bits as there are rows, then the lanes move together.
template <std::size_t lanes>
struct FewOrder {
  alignas(16 * lanes) std::uint8_t bytes[16 * lanes];
  alignas(16 * lanes) std::uint32_t elements[4 * lanes];
};

template <std::size_t lanes>
constexpr FewOrder<lanes> few_order(std::size_t rows) noexcept {
  FewOrder<lanes> order{};
  for (std::size_t i = 0; i < 4 * lanes * rows; ++i) {
    order.bytes[i / (4 * rows) * 16 + i % (4 * rows)] = static_cast<std::uint8_t>(i % (4 * rows) / rows * 4 + i % rows);
  }
  for (std::size_t i = 0; i < lanes * rows; ++i)
    order.elements[i] = static_cast<std::uint32_t>(i / rows * 4 + i % rows);
  return order;
}

// By rows - 1.
template <std::size_t lanes>
constexpr FewOrder<lanes> kFewOrders[] = {few_order<lanes>(1), few_order<lanes>(2), few_order<lanes>(3),
                                          few_order<lanes>(4)};
