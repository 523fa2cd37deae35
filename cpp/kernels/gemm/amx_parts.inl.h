// The products of the AMX kernel's tiles: up to two parts of a by up to two panels of b, or three or four parts by one
// panel, for all terms of k.
// Included inside the unnamed namespace of a kernel file, after constants of the tiles.

// What one call multiplies.
struct Operands {
  const std::uint8_t* const* a;      // of each part
  std::size_t a_row_stride, a_step;  // bytes from row to row, from one step of k to the next
  const std::size_t* a_offsets;      // of the segments; null where these follow each other
  const std::uint8_t* b;
  std::size_t b_panel_stride;
  const std::size_t* b_offsets;
  std::size_t segments, k;
  const std::int32_t* offset;  // whole cache lines
};

// Accumulators that wait to be stored, and where to. Stored at once, they would be waited for, and the loads of the
// next products with them; so they leave one by one, right before these begin.
struct Pending {
  std::int32_t* sums[4] = {};  // of each accumulator; null where it is not used
  std::size_t row_bytes = 0, parts = 0, panels = 0;

  Pending() noexcept = default;
  Pending(std::int32_t* area, AreaSize most, std::size_t of_parts, std::size_t of_panels) noexcept
      : row_bytes(most.columns() * sizeof(std::int32_t)), parts(of_parts), panels(of_panels) {
    for (std::size_t part = 0; part < parts; ++part) {
      for (std::size_t panel = 0; panel < panels; ++panel) {
        sums[part * most.panels + panel] = area + part * kTileRows * most.columns() + panel * kNr;
      }
    }
  }

  bool is_of(std::size_t of_parts, std::size_t of_panels) const noexcept {
    return parts == of_parts && panels == of_panels;
  }

  // Instructions name their tiles, so that no function can be told them.
  __attribute__((always_inline)) void store_0() const noexcept {
    if (sums[0] != nullptr) _tile_stored(0, sums[0], row_bytes);
  }
  __attribute__((always_inline)) void store_1() const noexcept {
    if (sums[1] != nullptr) _tile_stored(1, sums[1], row_bytes);
  }
  __attribute__((always_inline)) void store_2() const noexcept {
    if (sums[2] != nullptr) _tile_stored(2, sums[2], row_bytes);
  }
  __attribute__((always_inline)) void store_3() const noexcept {
    if (sums[3] != nullptr) _tile_stored(3, sums[3], row_bytes);
  }
  void store_all() const noexcept {
    store_0();
    store_1();
    store_2();
    store_3();
  }
};

#define DMLCPU_ADD_PRODUCT(c, a, b) \
  if constexpr (a_is_signed) {      \
    _tile_dpbssd(c, a, b);          \
  } else {                          \
    _tile_dpbusd(c, a, b);          \
  }
#define DMLCPU_LOAD_B(tile, from)            \
  if constexpr (streams_b) {                 \
    _tile_stream_loadd(tile, from, kNr * 4); \
  } else {                                   \
    _tile_loadd(tile, from, kNr * 4);        \
  }

// The vector unit sleeps after some 2300 cycles without a multiplication of 64 bytes, and wakes for some 450 cycles
// when tiles are stored.
__attribute__((always_inline)) inline void keep_vector_unit_awake() noexcept {
#if defined(__AVX512F__)  // in an emulation it is not
  __m512 any_f32x16 = _mm512_setzero_ps();
  __asm__ volatile("vmulps %0, %0, %0" : "+v"(any_f32x16));
#endif
}

// Of products beside which an area can become codes. A whole one is 16 units. The first step stores its tiles; the next
// four take a unit beside each product, or, where there are only three, the first of them two.
constexpr std::size_t kLeastTermsBeside = 4 * kKr;

// Multiplies an area, while its sums stay in the accumulators, and finishes the one before, of whole rows, unless told
// to finish nothing. A branch that is not foreseen costs hundreds of cycles here, as what the tile unit was given after
// it has to leave first; processors foresee the end of loops of some 30 rounds. So long ones take four steps at a time.
template <std::size_t parts, std::size_t panels, bool streams_b, bool a_is_signed, class Finisher>
void multiply_parts(const Operands& operands, const Pending& pending, const GemmBlock& block,
                    const Finished& finished) noexcept {
  const Finisher finish(block, finished);
  std::size_t unit = 0;
  const std::size_t a_stride = operands.a_row_stride, b_stride = operands.b_panel_stride, a_step = operands.a_step;
  const std::int32_t* const offset = operands.offset;
  constexpr bool is_tall = parts > 2, is_square = parts * panels == 4 && !is_tall;
  // Accumulators begin as a row of offsets, which all rows have, right before their first product.
  const auto begin_0 = [&]() __attribute__((always_inline)) {
    pending.store_0();
    _tile_loadd(0, offset, 0);
  };
  const auto begin_1 = [&]() __attribute__((always_inline)) {
    pending.store_1();
    _tile_loadd(1, is_tall ? offset : offset + kNr, 0);
  };
  const auto begin_2 = [&]() __attribute__((always_inline)) {
    pending.store_2();
    _tile_loadd(2, offset, 0);
  };
  const auto begin_3 = [&]() __attribute__((always_inline)) {
    pending.store_3();
    _tile_loadd(3, is_tall ? offset : offset + kNr, 0);
  };
  const std::uint8_t *a[parts], *b = nullptr, *end = nullptr;
  // Fetches a quarter of the tile of b after the next one.
  const auto fetch = [&](std::size_t quarter) __attribute__((always_inline)) {
    constexpr std::size_t kTileBytes = kKr * kNr, kLine = 64;
    const std::uint8_t* line = b + 2 * kTileBytes + quarter * (kTileBytes / 4);
    for (std::size_t i = 0; i < kTileBytes / 4; i += kLine) {
      _mm_prefetch(reinterpret_cast<const char*>(line + i), _MM_HINT_T0);
    }
  };
  const auto step_of_tall = [&]<bool first>() __attribute__((always_inline)) {
    DMLCPU_LOAD_B(6, b)
    fetch(0);
    _tile_loadd(4, a[0], a_stride);
    if constexpr (first) begin_0();
    DMLCPU_ADD_PRODUCT(0, 4, 6)
    fetch(1);
    _tile_loadd(5, a[1], a_stride);
    if constexpr (first) begin_1();
    DMLCPU_ADD_PRODUCT(1, 5, 6)
    fetch(2);
    _tile_loadd(4, a[2], a_stride);
    if constexpr (first) begin_2();
    DMLCPU_ADD_PRODUCT(2, 4, 6)
    fetch(3);
    if constexpr (parts == 4) {
      _tile_loadd(5, a[3], a_stride);
      if constexpr (first) begin_3();
      DMLCPU_ADD_PRODUCT(3, 5, 6)
    }
  };
  const auto step = [&]<bool first, int finishes>() __attribute__((always_inline)) {
    if constexpr (is_tall) {
      step_of_tall.template operator()<first>();
    } else {
      DMLCPU_LOAD_B(6, b)
      _tile_loadd(4, a[0], a_stride);
      if constexpr (first) begin_0();
      DMLCPU_ADD_PRODUCT(0, 4, 6)
      for (int i = 0; i != finishes; ++i) finish(unit++);
      if constexpr (panels == 2) {
        DMLCPU_LOAD_B(7, b + b_stride)
        if constexpr (first) begin_1();
        DMLCPU_ADD_PRODUCT(1, 4, 7)
        for (int i = 0; i != finishes; ++i) finish(unit++);
      }
      if constexpr (parts == 2) {
        _tile_loadd(5, a[1], a_stride);
        if constexpr (first) begin_2();
        DMLCPU_ADD_PRODUCT(2, 5, 6)
        for (int i = 0; i != finishes; ++i) finish(unit++);
      }
      if constexpr (is_square) {
        if constexpr (first) begin_3();
        DMLCPU_ADD_PRODUCT(3, 5, 7)
        for (int i = 0; i != finishes; ++i) finish(unit++);
      }
    }
    for (std::size_t part = 0; part < parts; ++part) a[part] += a_step;
    b += kKr * kNr;
  };
  const auto begin_segment = [&](std::size_t segment) __attribute__((always_inline)) {
    if (operands.a_offsets != nullptr) {
      for (std::size_t part = 0; part < parts; ++part) a[part] = operands.a[part] + operands.a_offsets[segment];
    }
    b = operands.b + operands.b_offsets[segment];
    end = b + operands.k * kNr;
  };
  for (std::size_t part = 0; part < parts; ++part) a[part] = operands.a[part];
  constexpr bool uses_1 = panels == 2 || is_tall, uses_2 = parts > 1, uses_3 = is_square || parts == 4;
  if constexpr (!uses_1) pending.store_1();
  if constexpr (!uses_2) pending.store_2();
  if constexpr (!uses_3) pending.store_3();
  if (operands.segments == 0 || operands.k == 0) {
    begin_0();
    if constexpr (uses_1) begin_1();
    if constexpr (uses_2) begin_2();
    if constexpr (uses_3) begin_3();
    return;
  }
  begin_segment(0);
  std::size_t segment = 0;
  step.template operator()<true, 0>();
  if constexpr (Finisher::kFinishes) {
    const auto next_step = [&]<int finishes>() __attribute__((always_inline)) {
      if (b == end) begin_segment(++segment);
      step.template operator()<false, finishes>();
    };
    if (operands.segments * operands.k == kLeastTermsBeside) {
      next_step.template operator()<2>();
    } else {
      next_step.template operator()<1>();
      next_step.template operator()<1>();
    }
    next_step.template operator()<1>();
    next_step.template operator()<1>();
  }
  for (;;) {
    constexpr std::ptrdiff_t kStep = kKr * kNr;
    keep_vector_unit_awake();
    while (end - b >= 4 * kStep) {
      keep_vector_unit_awake();
      step.template operator()<false, 0>();
      step.template operator()<false, 0>();
      step.template operator()<false, 0>();
      step.template operator()<false, 0>();
    }
    while (b != end) step.template operator()<false, 0>();
    if (++segment == operands.segments) break;
    begin_segment(segment);
  }
}

#undef DMLCPU_ADD_PRODUCT
#undef DMLCPU_LOAD_B

using PartsFunction = void (*)(const Operands& operands, const Pending& pending, const GemmBlock& block,
                               const Finished& finished) noexcept;

// Two parts by two panels, while an area of the same size becomes codes.
template <class Finisher>
PartsFunction parts_function_beside(bool streams_b, bool a_is_signed) noexcept {
  if (a_is_signed) {
    return streams_b ? multiply_parts<2, 2, true, true, Finisher> : multiply_parts<2, 2, false, true, Finisher>;
  }
  return streams_b ? multiply_parts<2, 2, true, false, Finisher> : multiply_parts<2, 2, false, false, Finisher>;
}

// In place of a finisher where no area waits.
struct FinishNothing {
  static constexpr bool kFinishes = false;

  FinishNothing(const GemmBlock&, const Finished&) noexcept {}
  void operator()(std::size_t) const noexcept {}
};

// By the panels and the parts, less one each; null for what no area has. Three and four parts are all rows of a block,
// which do not stream b.
using PartsFunctions = PartsFunction[2][kMostParts];
template <bool streams_b, bool a_is_signed>
constexpr PartsFunctions kOfParts = {{multiply_parts<1, 1, streams_b, a_is_signed, FinishNothing>,
                                      multiply_parts<2, 1, streams_b, a_is_signed, FinishNothing>,
                                      streams_b ? nullptr : multiply_parts<3, 1, false, a_is_signed, FinishNothing>,
                                      streams_b ? nullptr : multiply_parts<4, 1, false, a_is_signed, FinishNothing>},
                                     {multiply_parts<1, 2, streams_b, a_is_signed, FinishNothing>,
                                      multiply_parts<2, 2, streams_b, a_is_signed, FinishNothing>}};

const PartsFunctions& parts_functions(bool streams_b, bool a_is_signed) noexcept {
  if (a_is_signed) return streams_b ? kOfParts<true, true> : kOfParts<false, true>;
  return streams_b ? kOfParts<true, false> : kOfParts<false, false>;
}
