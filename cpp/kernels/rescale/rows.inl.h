// rescale.h on the lanes of codes and of masked_floats, and as many sums.
// Included inside the unnamed namespace of a kernel file.

using Whole = std::integral_constant<std::size_t, kLanes>;

inline std::size_t lanes_of(std::size_t columns) noexcept { return columns < kLanes ? columns : kLanes; }

// Calls step for each vector of columns, with the first one and their number: that of whole ones is Whole.
template <class Step>
inline void for_vectors(std::size_t columns, Step step) noexcept {
  std::size_t column = 0;
  for (; column + kLanes <= columns; column += kLanes) step(column, Whole{});
  if (column < columns) step(column, lanes_of(columns - column));
}

template <class Element>
inline auto load_first(const Element* values, Whole) noexcept {
  return load(values);
}
template <class Element>
inline auto load_first(const Element* values, std::size_t count) noexcept {
  return load(values, first_lanes(count));
}
template <class Element, class Vector>
inline void store_first(Element* values, Whole, Vector vector) noexcept {
  store(values, vector);
}
template <class Element, class Vector>
inline void store_first(Element* values, std::size_t count, Vector vector) noexcept {
  store(values, first_lanes(count), vector);
}

class Row {
 public:
  Row(const RescaleBlock& block, std::size_t row) noexcept
      : sums_(block.sums + row * block.sums_row_stride),
        column_sum_(block.row_zero_point == nullptr ? nullptr : block.column_sum),
        zero_point_(spread(block.row_zero_point == nullptr ? 0 : block.row_zero_point[row])) {}

  template <class Count>
  Sums total(std::size_t column, Count count) const noexcept {
    const Sums sum = load_first(sums_ + column, count);
    return column_sum_ == nullptr ? sum : less_product(sum, zero_point_, load_first(column_sum_ + column, count));
  }

 private:
  const std::int32_t *sums_, *column_sum_;
  Sums zero_point_;
};

void to_sums(const RescaleBlock& block) noexcept {
  for (std::size_t r = 0; r < block.m; ++r) {
    const Row row(block, r);
    std::int32_t* output = static_cast<std::int32_t*>(block.output) + r * block.output_row_stride;
    for_vectors(block.n,
                [&](std::size_t column, auto count) { store_first(output + column, count, row.total(column, count)); });
  }
}

void to_codes(const RescaleBlock& block) noexcept {
  const Sums flip = spread_bytes(block.flip);
  for (std::size_t r = 0; r < block.m; ++r) {
    const Row row(block, r);
    const Floats row_multiplier = spread(block.row_multiplier[r]);
    const Sums zero_point = spread(static_cast<std::int32_t>(block.row_output_zero_point[r]));
    std::uint8_t* output = static_cast<std::uint8_t*>(block.output) + r * block.output_row_stride;
    const auto unsaturated = [&](std::size_t column, auto count) {
      const Floats multiplier = row_multiplier * load_first(block.column_multiplier + column, count);
      return to_unsaturated(bounded(to_float(row.total(column, count)) * multiplier), zero_point);
    };
    std::size_t column = 0;
    for (; column + 4 * kLanes <= block.n; column += 4 * kLanes) {
      const auto vector = [&](std::size_t v) { return unsaturated(column + v * kLanes, Whole{}); };
      store_codes(output + column, saturate_in_order(vector(0), vector(1), vector(2), vector(3)), flip);
    }
    for (; column < block.n; column += kLanes) {
      const std::size_t count = lanes_of(block.n - column);
      store_codes(output + column, count, unsaturated(column, count), flip);
    }
  }
}

template <class Output, bool has_bias>
void to_floats(const RescaleBlock& block) noexcept {
  for (std::size_t r = 0; r < block.m; ++r) {
    const Row row(block, r);
    const Floats row_multiplier = spread(block.row_multiplier[r]);
    const Output* bias = has_bias ? static_cast<const Output*>(block.bias) + r * block.bias_row_stride : nullptr;
    Output* output = static_cast<Output*>(block.output) + r * block.output_row_stride;
    for_vectors(block.n, [&](std::size_t column, auto count) {
      const Floats multiplier = row_multiplier * load_first(block.column_multiplier + column, count);
      const Floats total = to_float(row.total(column, count));
      const Floats scaled = has_bias ? fused(total, multiplier, load_first(bias + column, count)) : total * multiplier;
      store_first(output + column, count, with_one_nan(scaled));
    });
  }
}

template <class Output>
void with_or_without_bias(const RescaleBlock& block) noexcept {
  (block.bias != nullptr ? to_floats<Output, true> : to_floats<Output, false>)(block);
}

template <bool has_bias, class Count>
inline void scale_vector(const std::int32_t* sums, Floats multiplier, Floats bias, Count count,
                         float* output) noexcept {
  const Floats scaled = to_float(load_first(sums, count)) * multiplier;
  store_first(output, count, has_bias ? scaled + bias : scaled);
}

// A load waits for a store under a mask whose lanes reach into it, and those at the end of a row reach into the next:
// so columns of some rows come one after the other, not rows.
template <bool has_bias>
void scale_rows(const ScaleColumnsBlock& block, std::size_t run) noexcept {
  constexpr std::size_t kRowsAtOnce = 8;
  const std::int32_t* sums = block.sums + run * block.sums_run_stride;
  float* output = block.output + run * block.output_run_stride;
  for (std::size_t first = 0; first < block.m; first += kRowsAtOnce) {
    const std::size_t end = block.m - first < kRowsAtOnce ? block.m : first + kRowsAtOnce;
    for_vectors(block.n, [&](std::size_t column, auto count) {
      const Floats multiplier = load_first(block.multiplier + column, count);
      const Floats bias = has_bias ? load_first(block.bias + column, count) : zeros();
      for (std::size_t row = first; row < end; ++row) {
        scale_vector<has_bias>(sums + row * block.sums_row_stride + column, multiplier, bias, count,
                               output + row * block.output_row_stride + column);
      }
    });
  }
}

// Of rows without gaps that are shorter than this, multiplier and bias repeat after as many of them as there are lanes.
constexpr std::size_t kShortRow = 16;

template <bool has_bias>
void scale_short_rows(const ScaleColumnsBlock& block) noexcept {
  float multiplier[(kShortRow - 1) * kLanes], bias[(kShortRow - 1) * kLanes];
  const std::size_t period = block.n * kLanes, count = block.m * block.n;
  for (std::size_t i = 0; i < (count < period ? count : period); i += block.n) {
    for (std::size_t column = 0; column < block.n; ++column) {
      multiplier[i + column] = block.multiplier[column];
      if (has_bias) bias[i + column] = block.bias[column];
    }
  }
  for (std::size_t run = 0; run < block.runs; ++run) {
    const std::int32_t* sums = block.sums + run * block.sums_run_stride;
    float* output = block.output + run * block.output_run_stride;
    std::size_t place = 0;
    for_vectors(count, [&](std::size_t i, auto lanes) {
      scale_vector<has_bias>(sums + i, load_first(multiplier + place, lanes),
                             has_bias ? load_first(bias + place, lanes) : zeros(), lanes, output + i);
      place = place + kLanes == period ? 0 : place + kLanes;
    });
  }
}

void scale_columns(const ScaleColumnsBlock& block) noexcept {
  constexpr std::size_t kLeastRows = 4;  // of which repeated multipliers pay
  const bool are_short = block.n < kShortRow && block.m >= kLeastRows && block.sums_row_stride == block.n &&
                         block.output_row_stride == block.n;
  if (are_short) return (block.bias != nullptr ? scale_short_rows<true> : scale_short_rows<false>)(block);
  for (std::size_t run = 0; run < block.runs; ++run) {
    (block.bias != nullptr ? scale_rows<true> : scale_rows<false>)(block, run);
  }
}
