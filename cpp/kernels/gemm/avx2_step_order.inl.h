// The order of the steps of a filter for avx2.cpp, exact by vpmaddubsw: of small codes, or by small activations.
// Included inside the unnamed namespace of that file, behind kNr, load_codes and codes/pair_sums_avx2.inl.h.

// The steps of a panel in the order in which it is multiplied: a sum may take its terms in any order, and one loop for
// each kind of step has no branches to mispredict.
//
// vpmaddubsw adds the products of two neighbours in k in 16 bits, which is exact where these pairs fit (PairSums). Of
// eight k whose pairs fit even two by two, those sums are added in 16 bits before they are widened. Of four k with a
// pair that does not fit, the even and the odd ones are multiplied apart.
//
// Steps are numbered by fours of k, those of a block's segments one after the other.
struct StepRange {
  const std::uint16_t *first, *last;
  const std::uint16_t* begin() const noexcept { return first; }
  const std::uint16_t* end() const noexcept { return last; }
  std::size_t count() const noexcept { return static_cast<std::size_t>(last - first); }
};
struct StepOrder {
  StepRange eights, fours, splits;  // none where widening all terms is faster
  bool is_of_clipped = false;       // whether it is for activations up to 127: then there are no splits

  bool is_empty() const noexcept { return eights.count() + fours.count() + splits.count() == 0; }
  // Whether all steps are of four k: then they need no order.
  bool are_fours() const noexcept { return eights.count() + splits.count() == 0; }
};

// As packed filters keep it.
inline StepOrder kept_order(const std::uint16_t* order) noexcept {
  const std::uint16_t* steps = order + kOrderCounts;
  const std::uint16_t *fours = steps + order[0], *splits = fours + order[1];
  return {{steps, fours}, {fours, splits}, {splits, splits + order[2]}, order[3] != 0};
}

// A split takes twice the time of others, and widening all of them 1.3 times: one step of so many may be split, and
// some more at the beginning of a panel.
constexpr std::size_t kMostSteps = 2560, kStepsOfSplit = 5, kLeastSteps = 32;

// Where more would be split, activations are clipped instead (avx2_clipped_terms.inl.h), a tile's in a buffer that
// holds so many steps.
constexpr std::size_t kMostClippedSteps = 1152;

// Finds the order of a panel's steps.
class PanelSteps {
 public:
  // For activations of any codes, or up to 127: then pairs always fit, and sums of eights may be twice as large.
  explicit PanelSteps(bool is_of_clipped = false) noexcept
      : is_of_clipped_(is_of_clipped), most_(is_of_clipped ? kMostOfClipped : PairSums::kMost) {}

  // Segments begin at b_offsets in the panel, or follow each other if that is null. Steps that are too many for the
  // lists are not ordered: then all have to be of four k.
  StepOrder order(const std::uint8_t* panel, const std::size_t* b_offsets, std::size_t segments,
                  std::size_t k) noexcept {
    eights_ = fours_ = splits_ = 0;
    const auto segment_at = [&](std::size_t segment) {
      return panel + (b_offsets == nullptr ? segment * k * kNr : b_offsets[segment]);
    };
    if (segments * k > 4 * kMostSteps) {
      for (std::size_t segment = 0; segment < segments; ++segment) {
        if (!fits_by_pairs(segment_at(segment), k)) return {};
      }
      inner_[fours_++] = 0;  // stands for all
      return found();
    }
    std::uint16_t step = 0;
    for (std::size_t segment = 0; segment < segments; ++segment) {
      const std::uint8_t* b = segment_at(segment);
      for (std::size_t eight = 0; eight < k / 8; ++eight, step += 2, b += 8 * kNr) {
        take_eight(step, b);
        if (kStepsOfSplit * splits_ > step + 2 + kLeastSteps) return {};
      }
      if (k % 8 != 0) take_four(step++, !(all_fit(pair_sums(b).larger()) && all_fit(pair_sums(b + 32).larger())));
    }
    if (8U * eights_ <= step / 2U) take_eights_as_fours();
    return kStepsOfSplit * splits_ <= step ? found() : StepOrder{};
  }

 private:
  // 127 * 258 fits 16 bits; pairs have 256 at most.
  static constexpr short kMostOfClipped = 258;

  // Of the pairs in four k of 8 columns.
  static PairSums pair_sums(const std::uint8_t* b) noexcept { return PairSums(load_codes(b)); }
  bool all_fit(__m256i larger_i16x16) const noexcept { return all_at_most(larger_i16x16, most_); }

  static bool fits_by_pairs(const std::uint8_t* b, std::size_t k) noexcept {
    for (const std::uint8_t* end = b + k * kNr; b != end; b += 4 * kNr) {
      if (!(pair_sums(b).fit() && pair_sums(b + 32).fit())) return false;
    }
    return true;
  }

  StepOrder found() const noexcept {
    return {{outer_, outer_ + eights_},
            {inner_, inner_ + fours_},
            {outer_ + (kMostSteps - splits_), outer_ + kMostSteps},
            is_of_clipped_};
  }

  void take_eight(std::uint16_t step, const std::uint8_t* b) noexcept {
    const PairSums first[2] = {pair_sums(b), pair_sums(b + 32)};
    const PairSums second[2] = {pair_sums(b + 4 * kNr), pair_sums(b + 4 * kNr + 32)};
    const bool fit_by_two =
        all_fit(_mm256_max_epi16(PairSums(first[0], second[0]).larger(), PairSums(first[1], second[1]).larger()));
    outer_[eights_] = step;
    eights_ += fit_by_two ? 1 : 0;
    if (fit_by_two) return;
    take_four(step, !all_fit(_mm256_max_epi16(first[0].larger(), first[1].larger())));
    take_four(next(step), !all_fit(_mm256_max_epi16(second[0].larger(), second[1].larger())));
  }

  static std::uint16_t next(std::uint16_t step) noexcept { return static_cast<std::uint16_t>(step + 1); }

  void take_four(std::uint16_t step, bool is_split) noexcept {
    if (is_split) {
      outer_[kMostSteps - ++splits_] = step;
    } else {
      inner_[fours_++] = step;
    }
  }

  void take_eights_as_fours() noexcept {
    for (std::size_t i = 0; i < eights_; ++i) {
      take_four(outer_[i], false);
      take_four(next(outer_[i]), false);
    }
    eights_ = 0;
  }

  // Eights from the beginning and splits from the end, which together are no more than steps; fours.
  std::uint16_t outer_[kMostSteps], inner_[kMostSteps];
  std::size_t eights_, fours_, splits_;
  bool is_of_clipped_;
  short most_;
};

void write_order(const StepOrder& steps, std::size_t count, std::uint16_t* order) noexcept {
  const StepRange ranges[] = {steps.eights, steps.fours, steps.splits};
  std::uint16_t* next = order + kOrderCounts;
  for (std::size_t i = 0; i < 3; ++i) {
    order[i] = static_cast<std::uint16_t>(ranges[i].count());
    for (const std::uint16_t step : ranges[i]) *next++ = step;
  }
  order[3] = steps.is_of_clipped ? 1 : 0;
  const std::uint16_t* const end = order + kOrderCounts + count;
  while (next != end) *next++ = 0;
}

// Writes the order of a panel for blocks that have all of its segments.
void order_steps(const std::uint8_t* panel, std::size_t segments, std::size_t k, std::uint16_t* order) noexcept {
  const std::size_t count = segments * k / 4;
  PanelSteps steps;
  const StepOrder found = steps.order(panel, nullptr, segments, k);
  if (!found.is_empty() || count > kMostClippedSteps) return write_order(found, count, order);
  PanelSteps of_clipped(true);
  write_order(of_clipped.order(panel, nullptr, segments, k), count, order);
}
