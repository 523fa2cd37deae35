// How the areas of an AMX product are multiplied, and those before them finished.
// Included inside the unnamed namespace of a kernel file, after amx_squares.inl.h.

using FinishFunction = void (*)(const GemmBlock& block, const WaitingArea& area) noexcept;
using SquaresFunction = void (*)(const Operands& operands, const GemmBlock& block, ResultRows& rows, std::size_t panel,
                                 std::size_t end_panel, WaitingAreas& waiting) noexcept;

// What is chosen once for a block.
class AreaFunctions {
 public:
  AreaFunctions(const GemmBlock& block, bool streams_b) noexcept
      : alone_{&parts_functions(false, block.a_is_signed), &parts_functions(streams_b, block.a_is_signed)} {
    if (!rounds_by_adding(block)) return;
    if (block.filter_zero_point == nullptr) {
      block.flip == 0 ? choose<false, false>(block) : choose<false, true>(block);
    } else {
      block.flip == 0 ? choose<true, false>(block) : choose<true, true>(block);
    }
  }

  bool factors_activation_sums() const noexcept { return factors_; }

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
                        std::size_t end_panel, WaitingAreas& waiting) const noexcept {
    ResultRows& of_stored = *waiting.stored().rows;
    ResultRows& of_tiles = *waiting.in_tiles().rows;
    const bool are_regular =
        of_stored.are_regular_square() && of_tiles.are_regular_square() && rows.are_regular_square();
    if (!are_regular) {
      of_stored.list();
      of_tiles.list();
      rows.list();
    }
    (are_regular ? squares_of_regular_ : squares_)(operands, block, rows, panel, end_panel, waiting);
  }

 private:
  template <bool has_zero_points, bool is_signed>
  void choose(const GemmBlock& block) noexcept {
    factors_ = has_zero_points;
    of_whole_ = finish_by_adding<2, true, has_zero_points, is_signed>;
    of_two_panels_ = finish_by_adding<2, false, has_zero_points, is_signed>;
    of_one_panel_ = finish_by_adding<4, false, has_zero_points, is_signed>;
    if (terms_of(block) == 0 || terms_of(block) * block.n > kMostFilter) return;
    block.a_is_signed ? choose_squares<true, has_zero_points, is_signed>(terms_of(block) / kKr)
                      : choose_squares<false, has_zero_points, is_signed>(terms_of(block) / kKr);
  }

  template <bool a_is_signed, bool has_zero_points, bool is_signed>
  void choose_squares(std::size_t steps) noexcept {
    using OfRegular = FinishByAdding<RegularRows<kSquare.columns()>, 2, true, has_zero_points, is_signed>;
    using OfListed = FinishByAdding<ListedRows, 2, true, has_zero_points, is_signed>;
    static constexpr SquaresFunction kOfRegular[] = {
        multiply_squares_of<1, a_is_signed, OfRegular>, multiply_squares_of<2, a_is_signed, OfRegular>,
        multiply_squares_of<3, a_is_signed, OfRegular>, multiply_squares_of<kManySteps, a_is_signed, OfRegular>};
    static constexpr SquaresFunction kOfListed[] = {
        multiply_squares_of<1, a_is_signed, OfListed>, multiply_squares_of<2, a_is_signed, OfListed>,
        multiply_squares_of<3, a_is_signed, OfListed>, multiply_squares_of<kManySteps, a_is_signed, OfListed>};
    const std::size_t number = (steps < kManySteps ? steps : kManySteps) - 1;
    squares_of_regular_ = kOfRegular[number];
    squares_ = kOfListed[number];
  }

  bool factors_ = false;
  const PartsFunctions* alone_[2];                                    // of the first rows, and of all others
  SquaresFunction squares_ = nullptr, squares_of_regular_ = nullptr;  // of whole panels
  FinishFunction of_whole_ = finish_otherwise, of_two_panels_ = finish_otherwise, of_one_panel_ = finish_otherwise;
};
