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

// Where products read: the rows of each part of a and a panel of b, within a segment of k.
template <std::size_t parts>
struct ReadingPlace {
  const Operands& operands;
  const std::size_t a_row_stride = operands.a_row_stride, a_step = operands.a_step;
  const std::size_t b_panel_stride = operands.b_panel_stride;
  const std::uint8_t *a[parts] = {}, *b = nullptr, *end = nullptr;
  std::size_t segment = 0;

  __attribute__((always_inline)) void begin_segment() noexcept {
    if (operands.a_offsets != nullptr) {
      for (std::size_t part = 0; part < parts; ++part) a[part] = operands.a[part] + operands.a_offsets[segment];
    }
    b = operands.b + operands.b_offsets[segment];
    end = b + operands.k * kNr;
  }

  __attribute__((always_inline)) void advance() noexcept {
    for (std::size_t part = 0; part < parts; ++part) a[part] += a_step;
    b += kKr * kNr;
  }

  // Fetches a quarter of the tile of b after the next one.
  __attribute__((always_inline)) void fetch(std::size_t quarter) const noexcept {
    constexpr std::size_t kTileBytes = kKr * kNr;
    const std::uint8_t* line = b + 2 * kTileBytes + quarter * (kTileBytes / 4);
    for (std::size_t i = 0; i < kTileBytes / 4; i += kLine) {
      _mm_prefetch(reinterpret_cast<const char*>(line + i), _MM_HINT_T0);
    }
  }
};

// The accumulators of an area of so many parts and panels. Each begins as offsets right before its first product, when
// the sums of the area before have left it.
template <std::size_t parts, std::size_t panels, Codes codes>
struct Accumulators {
  static constexpr bool kIsTall = parts > 2, kIsSquare = parts * panels == 4 && !kIsTall;
  static constexpr bool kUses1 = panels == 2 || kIsTall, kUses2 = parts > 1, kUses3 = kIsSquare || parts == 4;
  static constexpr std::size_t kOffsetStride = offset_stride(codes);
  const Operands& operands;
  const WaitingArea& in_tiles;

  __attribute__((always_inline)) const std::int32_t* offset_of(std::size_t part, std::size_t of_panel) const noexcept {
    return are_of_planes(codes) ? operands.row_offsets + part * kTileRows * kNr : operands.offset + of_panel * kNr;
  }
  __attribute__((always_inline)) void begin_0() const noexcept {
    in_tiles.store_0();
    _tile_loadd(0, offset_of(0, 0), kOffsetStride);
  }
  __attribute__((always_inline)) void begin_1() const noexcept {
    in_tiles.store_1();
    _tile_loadd(1, offset_of(kIsTall ? 1 : 0, kIsTall ? 0 : 1), kOffsetStride);
  }
  __attribute__((always_inline)) void begin_2() const noexcept {
    in_tiles.store_2();
    _tile_loadd(2, offset_of(kIsTall ? 2 : 1, 0), kOffsetStride);
  }
  __attribute__((always_inline)) void begin_3() const noexcept {
    in_tiles.store_3();
    _tile_loadd(3, offset_of(kIsTall ? 3 : 1, kIsTall ? 0 : 1), kOffsetStride);
  }
  __attribute__((always_inline)) void store_unused() const noexcept {
    if constexpr (!kUses1) in_tiles.store_1();
    if constexpr (!kUses2) in_tiles.store_2();
    if constexpr (!kUses3) in_tiles.store_3();
  }
  __attribute__((always_inline)) void begin_all() const noexcept {
    begin_0();
    if constexpr (kUses1) begin_1();
    if constexpr (kUses2) begin_2();
    if constexpr (kUses3) begin_3();
  }
};

// A step of three or four parts by one panel; the first one begins the accumulators.
template <bool first, bool streams_b, std::size_t parts, Codes codes>
__attribute__((always_inline)) inline void multiply_step_of_tall(const ReadingPlace<parts>& place,
                                                                 const Accumulators<parts, 1, codes>& sums) noexcept {
  const std::size_t a_stride = place.a_row_stride;
  DMLCPU_LOAD_B(6, place.b)
  place.fetch(0);
  _tile_loadd(4, place.a[0], a_stride);
  if constexpr (first) sums.begin_0();
  DMLCPU_ADD_PRODUCT(0, 4, 6)
  place.fetch(1);
  _tile_loadd(5, place.a[1], a_stride);
  if constexpr (first) sums.begin_1();
  DMLCPU_ADD_PRODUCT(1, 5, 6)
  place.fetch(2);
  _tile_loadd(4, place.a[2], a_stride);
  if constexpr (first) sums.begin_2();
  DMLCPU_ADD_PRODUCT(2, 4, 6)
  place.fetch(3);
  if constexpr (parts == 4) {
    _tile_loadd(5, place.a[3], a_stride);
    if constexpr (first) sums.begin_3();
    DMLCPU_ADD_PRODUCT(3, 5, 6)
  }
}

// A step of up to two parts by up to two panels.
template <bool first, bool streams_b, std::size_t parts, std::size_t panels, Codes codes>
__attribute__((always_inline)) inline void multiply_step(const ReadingPlace<parts>& place,
                                                         const Accumulators<parts, panels, codes>& sums) noexcept {
  const std::size_t a_stride = place.a_row_stride;
  DMLCPU_LOAD_B(6, place.b)
  _tile_loadd(4, place.a[0], a_stride);
  if constexpr (first) sums.begin_0();
  DMLCPU_ADD_PRODUCT(0, 4, 6)
  if constexpr (panels == 2) {
    DMLCPU_LOAD_B(7, place.b + place.b_panel_stride)
    if constexpr (first) sums.begin_1();
    DMLCPU_ADD_PRODUCT(1, 4, 7)
  }
  if constexpr (parts == 2) {
    _tile_loadd(5, place.a[1], a_stride);
    if constexpr (first) sums.begin_2();
    DMLCPU_ADD_PRODUCT(2, 5, 6)
  }
  if constexpr (parts == 2 && panels == 2) {
    if constexpr (first) sums.begin_3();
    DMLCPU_ADD_PRODUCT(3, 5, 7)
  }
}

// Multiplies an area, of which the sums stay in the accumulators, while those of the one before leave these.
template <std::size_t parts, std::size_t panels, bool streams_b, Codes codes>
void multiply_parts(const Operands& operands, const WaitingArea& in_tiles) noexcept {
  const Accumulators<parts, panels, codes> sums{operands, in_tiles};
  ReadingPlace<parts> place{operands};
  const auto step = [&]<bool first>() __attribute__((always_inline)) {
    if constexpr (parts > 2) {
      multiply_step_of_tall<first, streams_b>(place, sums);
    } else {
      multiply_step<first, streams_b>(place, sums);
    }
    place.advance();
  };
  for (std::size_t part = 0; part < parts; ++part) place.a[part] = operands.a[part];
  sums.store_unused();
  if (operands.segments == 0 || operands.k == 0) return sums.begin_all();
  place.begin_segment();
  step.template operator()<true>();
  multiply_rest(operands.segments, place.segment, place.b, place.end, step,
                [&]() __attribute__((always_inline)) { place.begin_segment(); });
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
