#include "gemm_product.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "reference.h"

namespace dmlcpu::test {
namespace {

// The code of a that makes the largest products.
std::uint8_t extreme_code(bool a_is_signed) { return a_is_signed ? 128 : 255; }

void fill_small(Check& check, std::vector<std::uint8_t>& a) {
  const auto apart = check.one_of<std::size_t>({10, 60, 200, 1000});
  for (std::uint8_t& code : a) {
    code = check.one_in(apart) ? check.one_of<std::uint8_t>({128, 255, static_cast<std::uint8_t>(check.code() | 128)})
                               : check.one_of<std::uint8_t>({127, 127, static_cast<std::uint8_t>(check.below(128))});
  }
}

void fill_left(Check& check, Data data, bool a_is_signed, std::vector<std::uint8_t>& a) {
  if (data == Data::small_left) return fill_small(check, a);
  const bool is_random = data == Data::random;
  const bool is_mixed = data != Data::most_positive && data != Data::most_negative;
  for (std::uint8_t& code : a)
    code = is_random || (is_mixed && check.one_in(2)) ? check.code() : extreme_code(a_is_signed);
}

void fill_quads(Check& check, bool all, std::vector<std::uint8_t>& b) {
  for (std::uint8_t& code : b) {
    const int within = static_cast<int>(check.below(65)) - 32;
    code = static_cast<std::uint8_t>(check.one_of<int>({32, -32, within}));
  }
  for (std::size_t i = 0; !all && b.size() >= 4 && i <= b.size() / 256; ++i) {
    const std::size_t at = 4 * check.below(b.size() / 4);
    b[at] = b[at + 1] = check.one_of<std::uint8_t>({64, static_cast<std::uint8_t>(-64)});
  }
}

// Any codes, or such that are small but for some fours of an eight, whose sums are 258 or 259.
void fill_large_quads(Check& check, std::vector<std::uint8_t>& b) {
  const auto kind = check.below(3);
  for (std::uint8_t& code : b) {
    const int any = kind == 1 ? check.one_of<int>({127, -128, check.code()}) : check.code();
    code = static_cast<std::uint8_t>(kind != 0 ? any : static_cast<int>(check.below(61)) - 30);
  }
  const std::size_t step = 4 * check.table.gemm->nr;
  for (std::size_t i = 0; kind == 0 && i < b.size() / (2 * step); ++i) {
    const std::size_t at = 2 * step * i + 2 * check.below(step / 2);
    const int sign = check.one_of<int>({1, -1});
    b[at] = b[at + 1] = b[at + step] = static_cast<std::uint8_t>(sign * 65);
    b[at + step + 1] = static_cast<std::uint8_t>(sign * check.one_of<int>({63, 63, 64}));
  }
}

// Neighbours that do not fit together, in about one of sixteen lines.
void spoil_pairs(Check& check, std::vector<std::uint8_t>& b) {
  for (std::size_t i = 0; i < b.size() / 1024; ++i) {
    const std::size_t at = 2 * check.below(b.size() / 2);
    b[at] = check.one_of<std::uint8_t>({127, 128, 65});
    b[at + 1] = b[at] == 65 ? 64 : b[at];
  }
}

void fill_right(Check& check, Data data, std::vector<std::uint8_t>& b) {
  if (data == Data::random) {
    for (std::uint8_t& code : b) code = check.code();
  } else if (data == Data::quads || data == Data::quads_but_some || data == Data::quads_but_last) {
    fill_quads(check, data != Data::quads_but_some, b);
  } else if (data == Data::small_left) {
    fill_large_quads(check, b);
  } else if (data == Data::quads_and_others) {
    fill_quads(check, false, b);
    spoil_pairs(check, b);
  } else if (data != Data::pairs && data != Data::pairs_but_one) {
    std::fill(b.begin(), b.end(), data == Data::most_positive ? 127 : 128);
  } else {
    for (std::size_t i = 0; i + 2 <= b.size(); i += 2) {
      b[i] = check.code();
      const int first = static_cast<std::int8_t>(b[i]);
      const int lowest = std::max(-128, -128 - first), highest = std::min(127, 128 - first);
      const int between = lowest + static_cast<int>(check.below(static_cast<std::size_t>(highest - lowest + 1)));
      b[i + 1] = static_cast<std::uint8_t>(check.one_of<int>({lowest, highest, between}));
    }
    if (data == Data::pairs || b.empty()) return;
    const std::size_t at = 2 * check.below(b.size() / 2);
    const bool is_negative = check.one_in(2);
    b[at] = is_negative ? static_cast<std::uint8_t>(-64) : 65;
    b[at + 1] = is_negative ? static_cast<std::uint8_t>(-65) : 64;
  }
}

// What requantization takes, an element a column up to the end of the last panel, and one a row.
struct Parameters {
  std::vector<std::int32_t> offset, filter, activation;
  std::vector<float> multiplier;
  float zero_point;
  std::uint8_t flip;

  Parameters(Check& check, std::size_t columns, std::size_t rows, Terms terms, std::size_t k, bool a_is_signed)
      : offset(columns),
        filter(columns),
        activation(rows),
        multiplier(columns),
        zero_point(check.zero_point()),
        flip(check.flip()) {
    constexpr std::int32_t kLongest = 1 << 23;
    const bool is_usual = terms != Terms::any, is_short = is_usual || check.one_in(2);
    const bool has_large_multipliers = !is_usual && check.one_in(2);
    for (std::int32_t& value : offset) value = static_cast<std::int32_t>(check.word() >> check.below(20));
    for (std::int32_t& value : filter) value = static_cast<std::int8_t>(check.code());
    for (std::int32_t& value : activation) {
      value = static_cast<std::int32_t>(check.word() >> (is_short ? 9 + check.below(11) : check.below(20)));
      if (is_usual && check.one_in(3)) value = check.one_of<std::int32_t>({0, 1, kLongest - 1, kLongest});
    }
    if (terms == Terms::usual_but_one && rows != 0) {
      activation[check.below(rows)] = check.one_of<std::int32_t>({kLongest + 1, 2 * kLongest, -1});
    }
    // Sums of some thousands should mostly land inside the type.
    for (float& value : multiplier) {
      value = has_large_multipliers && check.one_in(4) ? check.scale() : 0.0001F * static_cast<float>(check.code());
    }
    // At the limits of what converts to an integer, where a product has no terms.
    for (std::size_t column = 0; has_large_multipliers && column < columns; ++column) {
      if (!check.one_in(8)) continue;
      offset[column] = check.one_of<std::int32_t>({INT32_MAX, INT32_MIN});
      multiplier[column] = check.one_of<float>({1.0F, -1.0F, 0x1.fffffep-1F, -0x1.fffffep-1F});
    }
    if (terms == Terms::scaled) scale_sums(check, k, a_is_signed);
  }

 private:
  // Of any sums of k terms, so that some of their codes are inside the type.
  void scale_sums(Check& check, std::size_t k, bool a_is_signed) {
    constexpr std::int32_t kMostOffset = 100000;
    const auto longest = check.one_of<std::int32_t>({1 << 12, 1 << 18, (1 << 23) - 1, 1 << 23});
    const auto within = [&](std::int32_t most) {
      return static_cast<std::int32_t>(check.below(2 * static_cast<std::size_t>(most) + 1)) - most;
    };
    for (std::int32_t& value : offset) value = within(kMostOffset);
    for (std::int32_t& value : activation) {
      value = check.one_in(3) ? check.one_of<std::int32_t>({longest, -longest}) : within(longest);
      if (!a_is_signed) value = std::abs(value);
    }
    const double most = kMostOffset + 255.0 * 128.0 * static_cast<double>(k) + 128.0 * longest;
    for (float& value : multiplier) {
      const double fraction = static_cast<double>(check.below(1001)) / 1000.0;
      value = static_cast<float>(std::ldexp(fraction * 0.9 * (1 << 23) / most, -static_cast<int>(check.below(16))));
      if (check.one_in(3)) value = -value;
    }
  }
};

// The operands of one product, between guard pages. Segments may stand anywhere in a panel of b, some are left out.
struct Operands {
  std::vector<std::size_t> a_offsets, b_offsets;
  std::size_t a_stride, a_run_stride, b_panel_stride, output_stride, output_run_stride, columns;
  std::size_t b_begin;  // of the first panel, behind zeros
  std::vector<std::uint8_t> a, b;
  std::size_t segments_in_order = 0;  // of a panel, or 0 for a product without an order
  bool a_is_signed;

  Operands(Check& check, const GemmKernels& gemm, const Product& product)
      : a_offsets(product.segments == SIZE_MAX ? check.below(5) : product.segments),
        b_offsets(a_offsets.size()),
        a_is_signed(product.is_of_planes || (gemm.multiplies_signed && check.one_in(2))) {
    const bool has_order = gemm.order_steps != nullptr && check.one_in(2), has_all = has_order && check.one_in(2);
    const std::size_t k = product.k,
                      of_panel = has_all ? std::max<std::size_t>(a_offsets.size(), 1) : 1 + check.below(5);
    for (std::size_t& offset : a_offsets) offset = product.offset_step * check.below(3 * k / product.offset_step + 1);
    for (std::size_t i = 0; i < b_offsets.size(); ++i)
      b_offsets[i] = (has_all ? i : check.below(of_panel)) * k * gemm.nr;
    b_panel_stride = of_panel * k * gemm.nr;
    const std::size_t a_row =
        a_offsets.empty() ? k : *std::max_element(a_offsets.begin(), a_offsets.end()) + k - product.padding;
    a_stride = k - product.padding + product.a_gap;
    a_run_stride = product.rows_apart != 0 ? product.rows_apart * a_stride : check.below(2 * product.m * a_stride + 1);
    output_stride = product.n + product.output_gap;
    output_run_stride = product.m * output_stride + product.output_gap;
    columns = round_up(product.n, gemm.nr);
    const bool empty = product.runs == 0 || product.m == 0;
    a.resize(empty ? 0 : (product.runs - 1) * a_run_stride + (product.m - 1) * a_stride + a_row);
    b_begin = round_up(product.padding, 4) * gemm.nr;
    b.resize(b_begin + columns / gemm.nr * b_panel_stride);
    fill_left(check, product.data, a_is_signed, a);
    fill_right(check, product.data, b);
    for (std::size_t panel = 0; product.data == Data::quads_but_last && panel < columns / gemm.nr; ++panel) {
      const std::size_t column = gemm.nr / 2 + check.below(gemm.nr / 2);
      std::uint8_t* last =
          b.data() + b_begin + panel * b_panel_stride + b_offsets.back() + (k / 4 - 1) * gemm.nr * 4 + column * 4;
      last[0] = last[1] = 127;
    }
    if (product.padding != 0) clear_padding(gemm, product);
    if (has_order && of_panel * k / 4 <= kMostOrderedSteps) segments_in_order = of_panel;
  }

  std::size_t order_stride(const Product& product) const { return kOrderCounts + segments_in_order * product.k / 4; }
  std::size_t order_size(const GemmKernels& gemm, const Product& product) const {
    return segments_in_order == 0 ? 0 : columns / gemm.nr * order_stride(product);
  }
  // Writes the order of all panels' steps, of b as the kernel sees it.
  void write_order(const GemmKernels& gemm, const Product& product, const std::uint8_t* panels,
                   std::uint16_t* order) const {
    for (std::size_t panel = 0; segments_in_order != 0 && panel < columns / gemm.nr; ++panel) {
      gemm.order_steps(panels + panel * b_panel_stride, segments_in_order, product.k,
                       order + panel * order_stride(product));
    }
  }

  // What padded segments meet, behind each and before the first one.
  void clear_padding(const GemmKernels& gemm, const Product& product) {
    std::fill_n(b.begin(), b_begin, std::uint8_t{0});
    for (std::size_t panel = 0; panel < columns / gemm.nr; ++panel) {
      for (std::size_t offset = 0; offset < b_panel_stride; offset += product.k * gemm.nr) {
        std::uint8_t* segment = b.data() + b_begin + panel * b_panel_stride + offset;
        for (std::size_t term = product.k - product.padding; term < product.k; ++term) {
          for (std::size_t column = 0; column < gemm.nr; ++column)
            segment[term / 4 * gemm.nr * 4 + column * 4 + term % 4] = 0;
        }
      }
    }
  }

  // The sums of one row, an element a column up to the end of the last panel.
  void add_products(const GemmKernels& gemm, const Product& product, std::size_t run, std::size_t row,
                    std::vector<std::int64_t>& sums) const {
    const std::size_t terms = product.k - product.padding;
    for (std::size_t segment = 0; segment < a_offsets.size(); ++segment) {
      const std::uint8_t* codes = a.data() + run * a_run_stride + row * a_stride + a_offsets[segment];
      for (std::size_t term = 0; term < terms; term += 4) {
        int quad[4] = {};
        for (std::size_t i = term; i < std::min(term + 4, terms); ++i)
          quad[i - term] = a_is_signed ? static_cast<std::int8_t>(codes[i]) : codes[i];
        for (std::size_t column = 0; column < columns; column += gemm.nr) {
          const std::uint8_t* filters =
              b.data() + b_begin + column / gemm.nr * b_panel_stride + b_offsets[segment] + term * gemm.nr;
          for (std::size_t i = 0; i < gemm.nr; ++i) {
            sums[column + i] += product.is_of_planes ? product_of_quads<std::uint8_t>(quad, filters + 4 * i)
                                                     : product_of_quads<std::int8_t>(quad, filters + 4 * i);
          }
        }
      }
    }
  }

 private:
  template <class Filter>
  static int product_of_quads(const int (&quad)[4], const std::uint8_t* filters) {
    return quad[0] * static_cast<Filter>(filters[0]) + quad[1] * static_cast<Filter>(filters[1]) +
           quad[2] * static_cast<Filter>(filters[2]) + quad[3] * static_cast<Filter>(filters[3]);
  }
};

// Codes, or sums where the product ends in these, of which one of the two vectors has room.
void compute_expected(const GemmKernels& gemm, const Product& product, const Operands& operands,
                      const Parameters& parameters, std::vector<std::uint8_t>& expected,
                      std::vector<std::int32_t>& expected_sums) {
  for (std::size_t run = 0; run < product.runs; ++run) {
    for (std::size_t row = 0; row < product.m; ++row) {
      std::vector<std::int64_t> products(operands.columns);
      operands.add_products(gemm, product, run, row, products);
      for (std::size_t column = 0; column < product.n; ++column) {
        const std::size_t of_row = run * product.m + row, own = product.is_of_planes ? of_row : column;
        std::int64_t sum = products[column] + parameters.offset[own];
        if (product.has_filter) {
          sum -= std::int64_t{parameters.filter[own]} * parameters.activation[product.is_of_planes ? column : of_row];
        }
        const std::size_t place = run * operands.output_run_stride + row * operands.output_stride + column;
        if (product.ends_in_sums) {
          if (product.accumulates) sum += expected_sums[place];
          expected_sums[place] = reference_wrap(sum);
          continue;
        }
        const float scaled = static_cast<float>(reference_wrap(sum)) * parameters.multiplier[own];
        expected[place] = reference_code(scaled, parameters.zero_point, parameters.flip);
      }
    }
  }
}

void check_product_at(Edge edge, Check& check, const Product& product) {
  const GemmKernels& gemm = *check.table.gemm;
  Operands operands(check, gemm, product);
  const std::size_t rows = product.runs * product.m;
  const Parameters parameters(check, product.is_of_planes ? rows : operands.columns,
                              product.is_of_planes ? operands.columns : rows, product.terms,
                              operands.a_offsets.size() * product.k, operands.a_is_signed && !product.is_of_planes);
  const bool empty = product.runs == 0 || product.m == 0;
  const std::size_t results =
      empty ? 0
            : (product.runs - 1) * operands.output_run_stride + (product.m - 1) * operands.output_stride + product.n;
  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(product.ends_in_sums ? 0 : results);
  std::vector<std::int32_t> expected_sums = canaries<std::int32_t>(product.ends_in_sums ? results : 0);

  const GuardedBuffer<std::uint8_t> a(operands.a, edge), b(operands.b, edge), output(expected.size(), edge);
  const GuardedBuffer<std::uint16_t> order(operands.order_size(gemm, product), edge);
  operands.write_order(gemm, product, b.data() + operands.b_begin, order.data());
  std::vector<std::uint16_t> same_order(order.size());  // whatever is in memory before
  operands.write_order(gemm, product, b.data() + operands.b_begin, same_order.data());
  check.equal(order, same_order);
  const GuardedBuffer<std::int32_t> sums(expected_sums.size(), edge);
  // Offsets need not begin at a cache line.
  const std::size_t shift = check.below(16);
  std::vector<std::int32_t> shifted_offset(shift);
  shifted_offset.insert(shifted_offset.end(), parameters.offset.begin(), parameters.offset.end());
  const GuardedBuffer<std::int32_t> offset(shifted_offset, edge), filter(parameters.filter, edge),
      activation(parameters.activation, edge);
  const GuardedBuffer<float> multiplier(parameters.multiplier, edge);
  gemm.multiply({.a = a.data(),
                 .a_row_stride = operands.a_stride,
                 .a_run_stride = operands.a_run_stride,
                 .a_offsets = operands.a_offsets.data(),
                 .segments = operands.a_offsets.size(),
                 .b = b.data() + operands.b_begin,
                 .b_offsets = operands.b_offsets.data(),
                 .b_panel_stride = operands.b_panel_stride,
                 .b_order = operands.segments_in_order == 0 ? nullptr : order.data(),
                 .b_order_stride = operands.order_stride(product),
                 .runs = product.runs,
                 .m = product.m,
                 .n = product.n,
                 .k = product.k,
                 .offset = offset.data() + shift,
                 .multiplier = product.ends_in_sums ? nullptr : multiplier.data(),
                 .filter_zero_point = product.has_filter ? filter.data() : nullptr,
                 .activation_sum = product.has_filter ? activation.data() : nullptr,
                 .output_zero_point = parameters.zero_point,
                 .flip = parameters.flip,
                 .output = product.ends_in_sums ? nullptr : output.data(),
                 .output_row_stride = operands.output_stride,
                 .output_run_stride = operands.output_run_stride,
                 .sums = product.ends_in_sums ? sums.data() : nullptr,
                 .accumulates = product.accumulates,
                 .a_is_signed = operands.a_is_signed,
                 .padding = product.padding,
                 .next_rows = check.below(3) * product.m,
                 .is_of_planes = product.is_of_planes});

  compute_expected(gemm, product, operands, parameters, expected, expected_sums);
  check.equal(output, expected);
  check.equal(sums, expected_sums);
}

}  // namespace

void check_product(Check& check, const Product& product) {
  for (const Edge edge : kEdges) {
    describe_case(
        "gemm runs %zu, m %zu, n %zu, segments %zd, k %zu, gaps %zu and %zu, rows apart %zu, data %d, filter zero "
        "points %d, sums %d, accumulates %d, terms %d, offset step %zu, padding %zu, planes %d, edge %d",
        product.runs, product.m, product.n, static_cast<std::ptrdiff_t>(product.segments), product.k, product.a_gap,
        product.output_gap, product.rows_apart, static_cast<int>(product.data), product.has_filter,
        product.ends_in_sums, product.accumulates, static_cast<int>(product.terms), product.offset_step,
        product.padding, product.is_of_planes, static_cast<int>(edge));
    check_product_at(edge, check, product);
  }
}

}  // namespace dmlcpu::test
