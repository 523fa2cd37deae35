// The products of the AMX kernel's tiles where areas of two parts by two panels follow each other: those before them
// become codes meanwhile.
// Included inside the unnamed namespace of a kernel file, after amx_finish.inl.h and amx_parts.inl.h.
//
// Three areas are under way at a time:
//
//   multiplied   a 0, a 1 by b 0, b 1, into the accumulators
//   in tiles     the one before: each accumulator is stored right before its next sums begin
//   stored       the one before that: 16 units become codes, some before and some behind each product
//
// A processor looks only some hundred instructions ahead, and an instruction of tiles is up to 16 stores or loads: so
// units stand evenly among these, or the vector unit has nothing to do while tiles move.

// Steps of k that a function is made for; from kManySteps on they are as many as the block has.
constexpr std::size_t kManySteps = 4;

// Lines of b that are fetched into the level-2 cache, one beside each product: b may come from beyond it, and they are
// multiplied soon.
struct LinesAhead {
  const std::uint8_t *next, *end;
};

// Multiplies a group of two parts by panels of b, two at a time, which are streamed whatever their size (no slower from
// L1). The stored area has two whole panels. That in the tiles may have less, if this is told to multiply by two panels
// alone: what it does not use is stored beside it.
template <std::size_t steps, Codes codes, class Finisher>
void multiply_squares_of(const Operands& operands, const GemmBlock& block, ResultRows& rows, std::size_t panel,
                         std::size_t end_panel, WaitingAreas& waiting, LinesAhead& ahead) noexcept {
  const std::size_t a_stride = operands.a_row_stride, b_stride = operands.b_panel_stride, a_step = operands.a_step;
  constexpr bool is_of_planes = are_of_planes(codes);
  constexpr std::size_t kOffsetStride = offset_stride(codes);
  constexpr std::size_t kNextOffsets = is_of_planes ? 0 : kNr;
  for (; panel < end_panel; panel += kSquare.columns()) {
    Finisher finish(block, waiting.stored());
    std::int32_t* const sums = waiting.in_tiles().sums();
    const std::int32_t* const offset_0 = is_of_planes ? operands.row_offsets : block.offset + panel;
    const std::int32_t* const offset_1 = is_of_planes ? offset_0 + kTileRows * kNr : offset_0;
    const std::uint8_t *a_0 = operands.a[0], *a_1 = operands.a[1], *b = nullptr, *end = nullptr;
    std::size_t segment = 0;
    const auto begin_segment = [&]() __attribute__((always_inline)) {
      if (operands.a_offsets != nullptr) {
        a_0 = operands.a[0] + operands.a_offsets[segment];
        a_1 = operands.a[1] + operands.a_offsets[segment];
      }
      b = block.b + panel / kNr * b_stride + operands.b_offsets[segment];
      end = b + operands.k * kNr;
    };
    const auto pass_segment = [&]() __attribute__((always_inline)) {
      if (b != end) return;
      ++segment;
      begin_segment();
    };
    // Beside products of few steps codes are made, and no line is fetched. Where none is left, one at hand is fetched:
    // a branch would take longer. The last area may pass the end, which does no harm.
    const bool has_lines = ahead.next < ahead.end;
    const std::uint8_t* line = has_lines ? ahead.next : reinterpret_cast<const std::uint8_t*>(sums);
    const std::size_t next_line = has_lines ? kLine : 0;
    const auto fetch = [&]() __attribute__((always_inline)) {
      if constexpr (steps < kManySteps) return;
      _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T1);
      line += next_line;
    };
    // So many units stand before each product, and behind it.
    const auto step = [&]<bool is_first, int before = 0, int after = 0>() __attribute__((always_inline)) {
      constexpr std::size_t kRowBytes = kSquare.columns() * sizeof(std::int32_t), kRowsBelow = kSquare.part_sums();
      _tile_stream_loadd(6, b, kNr * 4);
      _tile_loadd(4, a_0, a_stride);
      if constexpr (is_first) {
        _tile_stored(0, sums, kRowBytes);
        _tile_loadd(0, offset_0, kOffsetStride);
      }
      finish.template finish_units<before>();
      DMLCPU_ADD_PRODUCT(0, 4, 6)
      fetch();
      finish.template finish_units<after>();
      _tile_stream_loadd(7, b + b_stride, kNr * 4);
      if constexpr (is_first) {
        _tile_stored(1, sums + kNr, kRowBytes);
        _tile_loadd(1, offset_0 + kNextOffsets, kOffsetStride);
      }
      finish.template finish_units<before>();
      DMLCPU_ADD_PRODUCT(1, 4, 7)
      fetch();
      finish.template finish_units<after>();
      _tile_loadd(5, a_1, a_stride);
      if constexpr (is_first) {
        _tile_stored(2, sums + kRowsBelow, kRowBytes);
        _tile_loadd(2, offset_1, kOffsetStride);
      }
      finish.template finish_units<before>();
      DMLCPU_ADD_PRODUCT(2, 5, 6)
      fetch();
      finish.template finish_units<after>();
      if constexpr (is_first) {
        _tile_stored(3, sums + kRowsBelow + kNr, kRowBytes);
        _tile_loadd(3, offset_1 + kNextOffsets, kOffsetStride);
      }
      finish.template finish_units<before>();
      DMLCPU_ADD_PRODUCT(3, 5, 7)
      fetch();
      finish.template finish_units<after>();
      a_0 += a_step;
      a_1 += a_step;
      b += kKr * kNr;
    };
    begin_segment();
    if constexpr (steps == 1) {
      step.template operator()<true, 2, 2>();
    } else if constexpr (steps < kManySteps) {
      step.template operator()<true, 1, 1>();
      pass_segment();
      step.template operator()<false, 1, 1>();
      if constexpr (steps == 3) {
        pass_segment();
        step.template operator()<false>();
      }
    } else {
      step.template operator()<true, 0, 1>();
      pass_segment();
      step.template operator()<false, 0, 1>();
      pass_segment();
      step.template operator()<false, 0, 1>();
      pass_segment();
      step.template operator()<false, 0, 1>();
      multiply_rest(operands.segments, segment, b, end, step, begin_segment);
    }
    if (has_lines) ahead.next = line;
    waiting.pass().take(rows, kSquare.parts, panel, kSquare.columns());
  }
}

#undef DMLCPU_ADD_PRODUCT
