// How the areas of an AMX product are multiplied, and those before them finished.
// Included inside the unnamed namespace of a kernel file, after amx_squares.inl.h.

using FinishFunction = void (*)(const GemmBlock& block, const WaitingArea& area) noexcept;
using SquaresFunction = void (*)(const Operands& operands, const GemmBlock& block, ResultRows& rows, std::size_t panel,
                                 std::size_t end_panel, WaitingAreas& waiting, LinesAhead& ahead) noexcept;

// What is chosen once for a block.
class AreaFunctions {
 public:
  AreaFunctions(const GemmBlock& block, bool streams_b) noexcept
      : alone_{&parts_functions(block, false), &parts_functions(block, streams_b)} {
    if (!rounds_by_adding(block)) return;
    block.is_of_planes ? choose_codes<true>(block) : choose_codes<false>(block);
  }

  RowTerms row_terms() const noexcept { return row_terms_; }

  // Products of an area of the first rows or of others, while an area's sums leave the tiles.
  void multiply(const Operands& operands, std::size_t parts, std::size_t panels, bool is_first,
                const WaitingArea& in_tiles) const noexcept {
    (*alone_[is_first ? 0 : 1])[panels - 1][parts - 1](operands, in_tiles);
  }

  void finish(const GemmBlock& block, const WaitingArea& area) const noexcept {
    if (area.columns == 0) return;
    (area.columns == 2 * kNr ? of_whole_ : area.columns > kNr ? of_two_panels_ : of_one_panel_)(block, area);
  }

  // Whether areas of two parts by two panels can be multiplied while others become codes.
  bool has_squares() const noexcept { return squares_ != nullptr; }

  void multiply_squares(const Operands& operands, const GemmBlock& block, ResultRows& rows, std::size_t panel,
                        std::size_t end_panel, WaitingAreas& waiting, LinesAhead& ahead) const noexcept {
    ResultRows& of_stored = *waiting.stored().rows;
    ResultRows& of_tiles = *waiting.in_tiles().rows;
    const bool are_regular =
        of_stored.are_regular_square() && of_tiles.are_regular_square() && rows.are_regular_square();
    if (!are_regular) {
      of_stored.list();
      of_tiles.list();
      rows.list();
    }
    (are_regular ? squares_of_regular_ : squares_)(operands, block, rows, panel, end_panel, waiting, ahead);
  }

 private:
  template <bool is_of_planes>
  void choose_codes(const GemmBlock& block) noexcept {
    if (block.filter_zero_point == nullptr) {
      block.flip == 0 ? choose<CodesKind{is_of_planes, false, false}>(block)
                      : choose<CodesKind{is_of_planes, false, true}>(block);
    } else {
      row_terms_ = is_of_planes ? RowTerms::factored_zero_points : RowTerms::factored_sums;
      block.flip == 0 ? choose<CodesKind{is_of_planes, true, false}>(block)
                      : choose<CodesKind{is_of_planes, true, true}>(block);
    }
  }

  template <CodesKind kind>
  void choose(const GemmBlock& block) noexcept {
    of_whole_ = finish_by_adding<2, true, kind>;
    of_two_panels_ = finish_by_adding<2, false, kind>;
    of_one_panel_ = finish_by_adding<4, false, kind>;
    if (terms_of(block) == 0) return;
    const std::size_t steps = terms_of(block) / kKr;
    if constexpr (kind.is_of_planes) {
      choose_squares<Codes::signed_by_unsigned, kind>(steps);
    } else {
      block.a_is_signed ? choose_squares<Codes::signed_by_signed, kind>(steps)
                        : choose_squares<Codes::unsigned_by_signed, kind>(steps);
    }
  }

  template <Codes codes, CodesKind kind>
  void choose_squares(std::size_t steps) noexcept {
    using OfRegular = FinishByAdding<RegularRows<kSquare.columns()>, 2, true, kind>;
    using OfListed = FinishByAdding<ListedRows, 2, true, kind>;
    static constexpr SquaresFunction kOfRegular[] = {
        multiply_squares_of<1, codes, OfRegular>, multiply_squares_of<2, codes, OfRegular>,
        multiply_squares_of<3, codes, OfRegular>, multiply_squares_of<kManySteps, codes, OfRegular>};
    static constexpr SquaresFunction kOfListed[] = {
        multiply_squares_of<1, codes, OfListed>, multiply_squares_of<2, codes, OfListed>,
        multiply_squares_of<3, codes, OfListed>, multiply_squares_of<kManySteps, codes, OfListed>};
    const std::size_t number = (steps < kManySteps ? steps : kManySteps) - 1;
    squares_of_regular_ = kOfRegular[number];
    squares_ = kOfListed[number];
  }

  RowTerms row_terms_ = RowTerms::as_they_are;
  const PartsFunctions* alone_[2];                                    // of the first rows, and of all others
  SquaresFunction squares_ = nullptr, squares_of_regular_ = nullptr;  // of whole panels
  FinishFunction of_whole_ = finish_otherwise, of_two_panels_ = finish_otherwise, of_one_panel_ = finish_otherwise;
};
