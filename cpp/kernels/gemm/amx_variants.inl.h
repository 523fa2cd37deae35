// How the areas of an AMX product are multiplied, and those before them finished.
// Included inside the unnamed namespace of a kernel file, after amx_finish.inl.h and amx_parts.inl.h.

using FinishFunction = void (*)(const GemmBlock& block, const Finished& finished) noexcept;

// What is chosen once for a block.
class AreaFunctions {
 public:
  AreaFunctions(const GemmBlock& block, bool streams_b) noexcept
      : alone_{&parts_functions(false, block.a_is_signed), &parts_functions(streams_b, block.a_is_signed)} {
    if (!rounds_by_adding(block)) return;
    if (block.filter_zero_point == nullptr) {
      block.flip == 0 ? choose<false, false>(block, streams_b) : choose<false, true>(block, streams_b);
    } else {
      block.flip == 0 ? choose<true, false>(block, streams_b) : choose<true, true>(block, streams_b);
    }
  }

  bool factors_activation_sums() const noexcept { return factors_; }

  // Products of an area of the first rows or of others. The area that waits becomes codes beside them or behind them.
  void multiply(const Operands& operands, std::size_t parts, std::size_t panels, bool is_first, const Pending& pending,
                const GemmBlock& block, const Finished& waiting) const noexcept {
    if (!is_first && beside_ != nullptr && parts == 2 && panels == 2 && waiting.columns == 2 * kNr) {
      beside_(operands, pending, block, waiting);
    } else {
      (*alone_[is_first ? 0 : 1])[panels - 1][parts - 1](operands, pending, block, waiting);
      finish(block, waiting);
    }
  }

  void finish(const GemmBlock& block, const Finished& waiting) const noexcept {
    if (waiting.columns == 0) return;
    (waiting.columns == 2 * kNr ? of_whole_ : waiting.columns > kNr ? of_two_panels_ : of_one_panel_)(block, waiting);
  }

 private:
  template <bool has_zero_points, bool is_signed>
  void choose(const GemmBlock& block, bool streams_b) noexcept {
    factors_ = has_zero_points;
    of_whole_ = finish_by_adding<2, true, has_zero_points, is_signed>;
    of_two_panels_ = finish_by_adding<2, false, has_zero_points, is_signed>;
    of_one_panel_ = finish_by_adding<4, false, has_zero_points, is_signed>;
    if (finishes_beside(block)) {
      beside_ =
          parts_function_beside<FinishByAdding<2, true, has_zero_points, is_signed>>(streams_b, block.a_is_signed);
    }
  }

  // Where products follow each other so closely that the processor has lowered its clock for them. Where they are few
  // or wait for b, it would do so, by an eighth, for the vector unit's work among them.
  static bool finishes_beside(const GemmBlock& block) noexcept {
    const std::size_t terms = terms_of(block);
    return terms >= kLeastTermsBeside && terms * block.n <= kMostFilter;
  }

  bool factors_ = false;
  const PartsFunctions* alone_[2];  // of the first rows, and of all others
  PartsFunction beside_ = nullptr;  // of all others
  FinishFunction of_whole_ = finish_otherwise, of_two_panels_ = finish_otherwise, of_one_panel_ = finish_otherwise;
};
