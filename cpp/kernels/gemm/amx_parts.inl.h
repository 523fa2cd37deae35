// The products of the AMX kernel's tiles: up to two parts of a by up to two panels of b, or three or four parts by one
// panel, for all terms of k.
// Included inside the unnamed namespace of a kernel file, after amx_areas.inl.h.

// What one call multiplies.
struct Operands {
  const std::uint8_t* const* a;      // of each part
  std::size_t a_row_stride, a_step;  // bytes from row to row, from one step of k to the next
  const std::size_t* a_offsets;      // of the segments; null where these follow each other
  const std::uint8_t* b;
  std::size_t b_panel_stride;
  const std::size_t* b_offsets;
  std::size_t segments, k;
  const std::int32_t* offset;       // whole cache lines
  const std::int32_t* row_offsets;  // a line for each row of the parts, in products of planes
};

// The codes of a and b. What has b of unsigned ones are products of planes.
enum class Codes { unsigned_by_signed, signed_by_signed, signed_by_unsigned };
constexpr bool are_of_planes(Codes codes) noexcept { return codes == Codes::signed_by_unsigned; }
// Bytes from a row's offsets to the next one's: all rows have the same, but those of planes a line each.
constexpr std::size_t offset_stride(Codes codes) noexcept {
  return are_of_planes(codes) ? kNr * sizeof(std::int32_t) : 0;
}

#define DMLCPU_ADD_PRODUCT(c, a, b)                        \
  if constexpr (codes == Codes::unsigned_by_signed) {      \
    _tile_dpbusd(c, a, b);                                 \
  } else if constexpr (codes == Codes::signed_by_signed) { \
    _tile_dpbssd(c, a, b);                                 \
  } else {                                                 \
    _tile_dpbsud(c, a, b);                                 \
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

// The steps from b to the end of its segment, and those of the segments behind it. A branch that is not foreseen costs
// hundreds of cycles here, as what the tile unit was given after it has to leave first; processors foresee the end of
// loops of some 30 rounds. So long ones take four steps at a time.
template <class Step, class BeginSegment>
__attribute__((always_inline)) inline void multiply_rest(std::size_t segments, std::size_t& segment,
                                                         const std::uint8_t*& b, const std::uint8_t*& end, Step step,
                                                         BeginSegment begin_segment) noexcept {
  constexpr std::ptrdiff_t kStep = kKr * kNr;
  for (;;) {
    keep_vector_unit_awake();
    while (end - b >= 4 * kStep) {
      keep_vector_unit_awake();
      step.template operator()<false>();
      step.template operator()<false>();
      step.template operator()<false>();
      step.template operator()<false>();
    }
    while (b != end) step.template operator()<false>();
    if (++segment == segments) break;
    begin_segment();
  }
}

// Multiplies an area, of which the sums stay in the accumulators, while those of the one before leave these.
template <std::size_t parts, std::size_t panels, bool streams_b, Codes codes>
void multiply_parts(const Operands& operands, const WaitingArea& in_tiles) noexcept {
  const std::size_t a_stride = operands.a_row_stride, b_stride = operands.b_panel_stride, a_step = operands.a_step;
  constexpr bool is_tall = parts > 2, is_square = parts * panels == 4 && !is_tall;
  // Accumulators begin as offsets, right before their first product.
  constexpr std::size_t kOffsetStride = offset_stride(codes);
  const auto offset_of = [&](std::size_t part, std::size_t of_panel) __attribute__((always_inline)) {
    return are_of_planes(codes) ? operands.row_offsets + part * kTileRows * kNr : operands.offset + of_panel * kNr;
  };
  const auto begin_0 = [&]() __attribute__((always_inline)) {
    in_tiles.store_0();
    _tile_loadd(0, offset_of(0, 0), kOffsetStride);
  };
  const auto begin_1 = [&]() __attribute__((always_inline)) {
    in_tiles.store_1();
    _tile_loadd(1, offset_of(is_tall ? 1 : 0, is_tall ? 0 : 1), kOffsetStride);
  };
  const auto begin_2 = [&]() __attribute__((always_inline)) {
    in_tiles.store_2();
    _tile_loadd(2, offset_of(is_tall ? 2 : 1, 0), kOffsetStride);
  };
  const auto begin_3 = [&]() __attribute__((always_inline)) {
    in_tiles.store_3();
    _tile_loadd(3, offset_of(is_tall ? 3 : 1, is_tall ? 0 : 1), kOffsetStride);
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
  const auto step = [&]<bool first>() __attribute__((always_inline)) {
    if constexpr (is_tall) {
      step_of_tall.template operator()<first>();
    } else {
      DMLCPU_LOAD_B(6, b)
      _tile_loadd(4, a[0], a_stride);
      if constexpr (first) begin_0();
      DMLCPU_ADD_PRODUCT(0, 4, 6)
      if constexpr (panels == 2) {
        DMLCPU_LOAD_B(7, b + b_stride)
        if constexpr (first) begin_1();
        DMLCPU_ADD_PRODUCT(1, 4, 7)
      }
      if constexpr (parts == 2) {
        _tile_loadd(5, a[1], a_stride);
        if constexpr (first) begin_2();
        DMLCPU_ADD_PRODUCT(2, 5, 6)
      }
      if constexpr (is_square) {
        if constexpr (first) begin_3();
        DMLCPU_ADD_PRODUCT(3, 5, 7)
      }
    }
    for (std::size_t part = 0; part < parts; ++part) a[part] += a_step;
    b += kKr * kNr;
  };
  std::size_t segment = 0;
  const auto begin_segment = [&]() __attribute__((always_inline)) {
    if (operands.a_offsets != nullptr) {
      for (std::size_t part = 0; part < parts; ++part) a[part] = operands.a[part] + operands.a_offsets[segment];
    }
    b = operands.b + operands.b_offsets[segment];
    end = b + operands.k * kNr;
  };
  for (std::size_t part = 0; part < parts; ++part) a[part] = operands.a[part];
  constexpr bool uses_1 = panels == 2 || is_tall, uses_2 = parts > 1, uses_3 = is_square || parts == 4;
  if constexpr (!uses_1) in_tiles.store_1();
  if constexpr (!uses_2) in_tiles.store_2();
  if constexpr (!uses_3) in_tiles.store_3();
  if (operands.segments == 0 || operands.k == 0) {
    begin_0();
    if constexpr (uses_1) begin_1();
    if constexpr (uses_2) begin_2();
    if constexpr (uses_3) begin_3();
    return;
  }
  begin_segment();
  step.template operator()<true>();
  multiply_rest(operands.segments, segment, b, end, step, begin_segment);
}

#undef DMLCPU_LOAD_B

using PartsFunction = void (*)(const Operands& operands, const WaitingArea& in_tiles) noexcept;

// By the panels and the parts, less one each; null for what no area has. Three and four parts are all rows of a block,
// which do not stream b.
using PartsFunctions = PartsFunction[2][kMostParts];
template <bool streams_b, Codes codes>
constexpr PartsFunctions kOfParts = {{multiply_parts<1, 1, streams_b, codes>, multiply_parts<2, 1, streams_b, codes>,
                                      streams_b ? nullptr : multiply_parts<3, 1, false, codes>,
                                      streams_b ? nullptr : multiply_parts<4, 1, false, codes>},
                                     {multiply_parts<1, 2, streams_b, codes>, multiply_parts<2, 2, streams_b, codes>}};

template <Codes codes>
const PartsFunctions& parts_functions(bool streams_b) noexcept {
  return streams_b ? kOfParts<true, codes> : kOfParts<false, codes>;
}

const PartsFunctions& parts_functions(const GemmBlock& block, bool streams_b) noexcept {
  if (block.is_of_planes) return parts_functions<Codes::signed_by_unsigned>(streams_b);
  return block.a_is_signed ? parts_functions<Codes::signed_by_signed>(streams_b)
                           : parts_functions<Codes::unsigned_by_signed>(streams_b);
}
