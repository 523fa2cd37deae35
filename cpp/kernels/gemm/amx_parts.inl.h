// The products of the AMX kernel's tiles: parts of a by panels of b for some terms of k.
// Included inside the unnamed namespace of a kernel file, after amx_unfinished.inl.h.

// The sums of a part by a pair of panels. A part's sums by the next pair are kMostParts further.
using PartSums = std::int32_t[kTileRows][kColumns];

// What accumulators begin as: a row of offsets, which all rows have, or the sums of the terms before.
struct Beginning {
  const std::int32_t* first;
  std::size_t part_stride, pair_stride;  // elements from part to part, from one pair of panels to the next
  std::size_t row_stride;                // bytes

  static Beginning offsets(const std::int32_t* first) noexcept { return {first, 0, kColumns, 0}; }
  static Beginning sums(const std::int32_t* first) noexcept {
    constexpr std::size_t kPart = kTileRows * kColumns;
    return {first, kPart, kMostParts * kPart, kColumns * sizeof(std::int32_t)};
  }
};

// The tile of accumulators c and one of products. Instructions name their tiles, so that no function can be told them.
#define DMLCPU_ADD_PRODUCT(c, a, b) \
  if constexpr (a_is_signed) {      \
    _tile_dpbssd(c, a, b);          \
  } else {                          \
    _tile_dpbusd(c, a, b);          \
  }
#define DMLCPU_LOAD_TILE(tile, from, stride, is_streamed) \
  if constexpr (is_streamed) {                            \
    _tile_stream_loadd(tile, from, stride);               \
  } else {                                                \
    _tile_loadd(tile, from, stride);                      \
  }

// Up to two parts by up to two panels, up to four parts by one, or one by up to four, from a column of the sums on.
// Beside each product, but those of the first step where there are many, 64 sums of the area before become codes or, if
// `twice`, 128.
template <std::size_t parts, std::size_t panels, Streamed streamed, bool a_is_signed>
void multiply_parts(const GemmBlock& block, const Terms& terms, const std::uint8_t* const* a, const std::uint8_t* b,
                    const Beginning& beginning, bool twice, Unfinished& before, PartSums* sums,
                    std::size_t column) noexcept {
  constexpr std::size_t kGroupStride = kNr * 4, kSumStride = kColumns * 4;
  constexpr bool kStreamsA = streamed == Streamed::a, kStreamsB = streamed == Streamed::b;
  const std::size_t a_stride = block.a_row_stride, b_stride = block.b_panel_stride;
  const auto load_a0 = [&](const std::uint8_t* from)
                           __attribute__((always_inline)) { DMLCPU_LOAD_TILE(4, from, a_stride, kStreamsA) };
  const auto load_a1 = [&](const std::uint8_t* from)
                           __attribute__((always_inline)) { DMLCPU_LOAD_TILE(5, from, a_stride, kStreamsA) };
  const auto load_b0 = [&](const std::uint8_t* from)
                           __attribute__((always_inline)) { DMLCPU_LOAD_TILE(6, from, kGroupStride, kStreamsB) };
  const auto load_b1 = [&](const std::uint8_t* from)
                           __attribute__((always_inline)) { DMLCPU_LOAD_TILE(7, from, kGroupStride, kStreamsB) };
  // Accumulators begin right before their first product: other loads come first that more products wait for.
  const auto beginning_of = [&](std::size_t i) __attribute__((always_inline)) {
    const std::size_t panel = i % panels;
    return beginning.first + i / panels * beginning.part_stride + panel / 2 * beginning.pair_stride + panel % 2 * kNr;
  };
  const std::size_t row_stride = beginning.row_stride;
  const auto begin_0 = [&]() __attribute__((always_inline)) { _tile_loadd(0, beginning_of(0), row_stride); };
  const auto begin_1 = [&]() __attribute__((always_inline)) { _tile_loadd(1, beginning_of(1), row_stride); };
  const auto begin_2 = [&]() __attribute__((always_inline)) { _tile_loadd(2, beginning_of(2), row_stride); };
  const auto begin_3 = [&]() __attribute__((always_inline)) { _tile_loadd(3, beginning_of(3), row_stride); };
  // The products run by themselves while the vector unit does something else. Sums that have just been stored are
  // waited for, and what waits for them would hold up the loads of the steps behind.
  constexpr std::size_t kManySteps = 5;
  Finisher finisher(before);
  bool first = terms.k != 0, waits = terms.segments * terms.k >= kManySteps * kKr;
  const auto meanwhile = [&]() __attribute__((always_inline)) {
    if (!waits) finisher.finish_some(twice);
  };
  if (terms.segments == 0 || !first) {
    begin_0();
    if constexpr (parts * panels > 1) begin_1();
    if constexpr (parts * panels > 2) begin_2();
    if constexpr (parts * panels > 3) begin_3();
  }
  for (std::size_t segment = 0; segment < terms.segments; ++segment) {
    std::size_t at = terms.a_offsets[segment] + terms.first;
    const std::uint8_t* of_b = b + terms.b_offsets[segment] + terms.first * kNr;
    for (const std::size_t end = at + terms.k; at != end; at += kKr, of_b += kKr * kNr) {
      load_b0(of_b);
      load_a0(a[0] + at);
      if (first) begin_0();
      DMLCPU_ADD_PRODUCT(0, 4, 6)
      meanwhile();
      if constexpr (panels > 1) {
        load_b1(of_b + b_stride);
        if (first) begin_1();
        DMLCPU_ADD_PRODUCT(1, 4, 7)
        meanwhile();
      }
      if constexpr (panels == 2 && parts == 2) {
        load_a1(a[1] + at);
        if (first) begin_2();
        DMLCPU_ADD_PRODUCT(2, 5, 6)
        meanwhile();
        if (first) begin_3();
        DMLCPU_ADD_PRODUCT(3, 5, 7)
        meanwhile();
      }
      if constexpr (panels > 2) {
        load_b0(of_b + 2 * b_stride);
        if (first) begin_2();
        DMLCPU_ADD_PRODUCT(2, 4, 6)
        meanwhile();
      }
      if constexpr (panels > 3) {
        load_b1(of_b + 3 * b_stride);
        if (first) begin_3();
        DMLCPU_ADD_PRODUCT(3, 4, 7)
        meanwhile();
      }
      if constexpr (panels == 1 && parts > 1) {
        load_a1(a[1] + at);
        if (first) begin_1();
        DMLCPU_ADD_PRODUCT(1, 5, 6)
        meanwhile();
      }
      if constexpr (panels == 1 && parts > 2) {
        load_a0(a[2] + at);
        if (first) begin_2();
        DMLCPU_ADD_PRODUCT(2, 4, 6)
        meanwhile();
      }
      if constexpr (panels == 1 && parts > 3) {
        load_a1(a[3] + at);
        if (first) begin_3();
        DMLCPU_ADD_PRODUCT(3, 5, 6)
        meanwhile();
      }
      first = waits = false;
    }
  }
  const auto sums_of = [&](std::size_t i) __attribute__((always_inline)) {
    const std::size_t panel = i % panels;
    return sums[i / panels + panel / 2 * kMostParts][0] + column + panel % 2 * kNr;
  };
  _tile_stored(0, sums_of(0), kSumStride);
  meanwhile();
  if constexpr (parts * panels > 1) _tile_stored(1, sums_of(1), kSumStride);
  meanwhile();
  if constexpr (parts * panels > 2) _tile_stored(2, sums_of(2), kSumStride);
  if constexpr (parts * panels > 3) _tile_stored(3, sums_of(3), kSumStride);
  finisher.save_to(before);
}

#undef DMLCPU_ADD_PRODUCT
#undef DMLCPU_LOAD_TILE

using PartsFunction = void (*)(const GemmBlock& block, const Terms& terms, const std::uint8_t* const* a,
                               const std::uint8_t* b, const Beginning& beginning, bool twice, Unfinished& before,
                               PartSums* sums, std::size_t column) noexcept;

template <Streamed streamed, bool a_is_signed>
struct PartsFunctions {
  // By the parts, for one panel and for two; three or four parts take the second panel afterwards.
  static constexpr PartsFunction kOfParts[2][kMostParts] = {
      {multiply_parts<1, 1, streamed, a_is_signed>, multiply_parts<2, 1, streamed, a_is_signed>,
       multiply_parts<3, 1, streamed, a_is_signed>, multiply_parts<4, 1, streamed, a_is_signed>},
      {multiply_parts<1, 2, streamed, a_is_signed>, multiply_parts<2, 2, streamed, a_is_signed>,
       multiply_parts<3, 1, streamed, a_is_signed>, multiply_parts<4, 1, streamed, a_is_signed>}};
  // One part, by the panels.
  static constexpr PartsFunction kOfPanels[4] = {
      multiply_parts<1, 1, streamed, a_is_signed>, multiply_parts<1, 2, streamed, a_is_signed>,
      multiply_parts<1, 3, streamed, a_is_signed>, multiply_parts<1, 4, streamed, a_is_signed>};
};

// Calls select(functions) with those for a block in an order.
template <class Select>
PartsFunction parts_function(const GemmBlock& block, const Order& order, Select select) noexcept {
  const auto of_signedness = [&]<bool a_is_signed>() {
    switch (order.streamed) {
      case Streamed::a:
        return select(PartsFunctions<Streamed::a, a_is_signed>{});
      case Streamed::b:
        return select(PartsFunctions<Streamed::b, a_is_signed>{});
      default:
        return select(PartsFunctions<Streamed::none, a_is_signed>{});
    }
  };
  return block.a_is_signed ? of_signedness.template operator()<true>() : of_signedness.template operator()<false>();
}
