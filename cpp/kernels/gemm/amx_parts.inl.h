// The products of the AMX kernel's tiles: up to two parts of a by up to two panels of b for all terms of k.
// Included inside the unnamed namespace of a kernel file, after constants of the tiles.

// What one call multiplies.
struct Operands {
  const std::uint8_t* a[kMostParts];
  std::size_t a_row_stride, a_step;  // bytes from row to row, from one step of k to the next
  const std::size_t* a_offsets;      // of the segments; null where these follow each other
  const std::uint8_t* b;
  std::size_t b_panel_stride;
  const std::size_t* b_offsets;
  std::size_t segments, k;
  const std::int32_t* offset;  // whole cache lines
};

// Accumulators that wait to be stored, and where to: a row of them has kSumColumns elements. Stored at once, they would
// be waited for, and the loads of the next products with them; so they leave one by one, right before these begin.
struct Pending {
  std::int32_t* sums = nullptr;
  bool has_second_panel = false, has_second_part = false;

  // Instructions name their tiles, so that no function can be told them.
  __attribute__((always_inline)) void store_0() const noexcept {
    if (sums != nullptr) _tile_stored(0, sums, kSumColumns * 4);
  }
  __attribute__((always_inline)) void store_1() const noexcept {
    if (has_second_panel) _tile_stored(1, sums + kNr, kSumColumns * 4);
  }
  __attribute__((always_inline)) void store_2() const noexcept {
    if (has_second_part) _tile_stored(2, sums + kTileRows * kSumColumns, kSumColumns * 4);
  }
  __attribute__((always_inline)) void store_3() const noexcept {
    if (has_second_panel && has_second_part) _tile_stored(3, sums + kTileRows * kSumColumns + kNr, kSumColumns * 4);
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

// The sums stay in the accumulators. A branch that is not foreseen costs hundreds of cycles here, as what the tile unit
// was given after it has to leave first; processors foresee the end of loops of some 30 rounds. So long ones take four
// steps at a time.
template <std::size_t parts, std::size_t panels, bool streams_b, bool a_is_signed>
void multiply_parts(const Operands& operands, const Pending& pending) noexcept {
  const std::size_t a_stride = operands.a_row_stride, b_stride = operands.b_panel_stride, a_step = operands.a_step;
  const std::int32_t* const offset = operands.offset;
  // Accumulators begin as a row of offsets, which all rows have, right before their first product.
  const auto begin_0 = [&]() __attribute__((always_inline)) {
    pending.store_0();
    _tile_loadd(0, offset, 0);
  };
  const auto begin_1 = [&]() __attribute__((always_inline)) {
    pending.store_1();
    _tile_loadd(1, offset + kNr, 0);
  };
  const auto begin_2 = [&]() __attribute__((always_inline)) {
    pending.store_2();
    _tile_loadd(2, offset, 0);
  };
  const auto begin_3 = [&]() __attribute__((always_inline)) {
    pending.store_3();
    _tile_loadd(3, offset + kNr, 0);
  };
  const std::uint8_t *a0 = operands.a[0], *a1 = operands.a[parts - 1], *b = nullptr, *end = nullptr;
  const auto step = [&]<bool first>() __attribute__((always_inline)) {
    DMLCPU_LOAD_B(6, b)
    _tile_loadd(4, a0, a_stride);
    if constexpr (first) begin_0();
    DMLCPU_ADD_PRODUCT(0, 4, 6)
    if constexpr (panels == 2) {
      DMLCPU_LOAD_B(7, b + b_stride)
      if constexpr (first) begin_1();
      DMLCPU_ADD_PRODUCT(1, 4, 7)
    }
    if constexpr (parts == 2) {
      _tile_loadd(5, a1, a_stride);
      if constexpr (first) begin_2();
      DMLCPU_ADD_PRODUCT(2, 5, 6)
    }
    if constexpr (parts * panels == 4) {
      if constexpr (first) begin_3();
      DMLCPU_ADD_PRODUCT(3, 5, 7)
    }
    a0 += a_step;
    a1 += a_step;
    b += kKr * kNr;
  };
  const auto begin_segment = [&](std::size_t segment) __attribute__((always_inline)) {
    if (operands.a_offsets != nullptr) {
      a0 = operands.a[0] + operands.a_offsets[segment];
      a1 = operands.a[parts - 1] + operands.a_offsets[segment];
    }
    b = operands.b + operands.b_offsets[segment];
    end = b + operands.k * kNr;
  };
  // Tiles that are not used here.
  if constexpr (panels == 1) pending.store_1();
  if constexpr (parts == 1) pending.store_2();
  if constexpr (parts * panels < 4) pending.store_3();
  if (operands.segments == 0 || operands.k == 0) {
    begin_0();
    if constexpr (panels == 2) begin_1();
    if constexpr (parts == 2) begin_2();
    if constexpr (parts * panels == 4) begin_3();
    return;
  }
  begin_segment(0);
  step.template operator()<true>();
  for (std::size_t segment = 0;;) {
    constexpr std::ptrdiff_t kStep = kKr * kNr;
    keep_vector_unit_awake();
    while (end - b >= 4 * kStep) {
      keep_vector_unit_awake();
      step.template operator()<false>();
      step.template operator()<false>();
      step.template operator()<false>();
      step.template operator()<false>();
    }
    while (b != end) step.template operator()<false>();
    if (++segment == operands.segments) break;
    begin_segment(segment);
  }
}

#undef DMLCPU_ADD_PRODUCT
#undef DMLCPU_LOAD_B

using PartsFunction = void (*)(const Operands& operands, const Pending& pending) noexcept;

// By the panels and the parts, less one each.
using PartsFunctions = PartsFunction[2][kMostParts];
template <bool streams_b, bool a_is_signed>
constexpr PartsFunctions kOfParts = {
    {multiply_parts<1, 1, streams_b, a_is_signed>, multiply_parts<2, 1, streams_b, a_is_signed>},
    {multiply_parts<1, 2, streams_b, a_is_signed>, multiply_parts<2, 2, streams_b, a_is_signed>}};

const PartsFunctions& parts_functions(bool streams_b, bool a_is_signed) noexcept {
  if (a_is_signed) return streams_b ? kOfParts<true, true> : kOfParts<false, true>;
  return streams_b ? kOfParts<true, false> : kOfParts<false, false>;
}
