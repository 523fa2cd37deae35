#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

// Pairs of b are neighbours in k whose sum is within +-128, all or all but one: what vpmaddubsw multiplies exactly. The
// sum of four codes, positive or negative, is within +-128 in quads, or in all but some of them, which are pairs.
// One pair alone, in the last four k of each panel's second half, is beyond in quads_but_last.
enum class Data { random, most_positive, most_negative, pairs, pairs_but_one, quads, quads_but_some, quads_but_last };

// Multipliers and activation sums: of any size, or as networks have them (below 1, and up to 2^23, the most that a
// kernel may take a quick way with), or all but one sum so, or with multipliers that keep scaled sums below 2^23.
enum class Terms { any, usual, usual_but_one, scaled };

struct Product {
  std::size_t runs, m, n, k, a_gap, output_gap, rows_apart;  // the last between runs, 0 for any distance
  Data data;
  bool has_filter, ends_in_sums, accumulates;
  std::size_t segments = SIZE_MAX;  // SIZE_MAX for any number
  Terms terms = Terms::any;
  std::size_t offset_step = 1;  // what segments of a begin at multiples of
  std::size_t padding = 0;      // of the only segment
  bool is_of_planes = false;
};

std::size_t round_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// The code of a that makes the largest products.
std::uint8_t extreme_code(bool a_is_signed) { return a_is_signed ? 128 : 255; }

void fill_left(Check& check, Data data, bool a_is_signed, std::vector<std::uint8_t>& a) {
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

void fill_right(Check& check, Data data, std::vector<std::uint8_t>& b) {
  if (data == Data::random) {
    for (std::uint8_t& code : b) code = check.code();
  } else if (data == Data::quads || data == Data::quads_but_some || data == Data::quads_but_last) {
    fill_quads(check, data != Data::quads_but_some, b);
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
  bool a_is_signed;

  Operands(Check& check, const GemmKernels& gemm, const Product& product)
      : a_offsets(product.segments == SIZE_MAX ? check.below(5) : product.segments),
        b_offsets(a_offsets.size()),
        a_is_signed(product.is_of_planes || (gemm.multiplies_signed && check.one_in(2))) {
    const std::size_t k = product.k, of_panel = 1 + check.below(5);
    for (std::size_t& offset : a_offsets) offset = product.offset_step * check.below(3 * k / product.offset_step + 1);
    for (std::size_t& offset : b_offsets) offset = check.below(of_panel) * k * gemm.nr;
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

  std::int64_t sum(const GemmKernels& gemm, const Product& product, std::size_t run, std::size_t row,
                   std::size_t column) const {
    const std::uint8_t* panel = b.data() + b_begin + column / gemm.nr * b_panel_stride + column % gemm.nr * 4;
    std::int64_t sum = 0;
    for (std::size_t segment = 0; segment < a_offsets.size(); ++segment) {
      const std::uint8_t* codes = a.data() + run * a_run_stride + row * a_stride + a_offsets[segment];
      const std::uint8_t* filter = panel + b_offsets[segment];
      for (std::size_t term = 0; term < product.k - product.padding; ++term) {
        const int code = a_is_signed ? static_cast<std::int8_t>(codes[term]) : codes[term];
        const std::uint8_t other = filter[term / 4 * gemm.nr * 4 + term % 4];
        sum += code * (product.is_of_planes ? other : static_cast<std::int8_t>(other));
      }
    }
    return sum;
  }
};

// Codes, or sums where the product ends in these, of which one of the two vectors has room.
void compute_expected(const GemmKernels& gemm, const Product& product, const Operands& operands,
                      const Parameters& parameters, std::vector<std::uint8_t>& expected,
                      std::vector<std::int32_t>& expected_sums) {
  for (std::size_t run = 0; run < product.runs; ++run) {
    for (std::size_t row = 0; row < product.m; ++row) {
      for (std::size_t column = 0; column < product.n; ++column) {
        const std::size_t of_row = run * product.m + row, own = product.is_of_planes ? of_row : column;
        std::int64_t sum = operands.sum(gemm, product, run, row, column) + parameters.offset[own];
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

void check_product(Check& check, const Product& product, Edge edge) {
  const GemmKernels& gemm = *check.table.gemm;
  Operands operands(check, gemm, product);
  if (product.padding != 0) operands.clear_padding(gemm, product);
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

void check_case(Check& check, const Product& product) {
  for (const Edge edge : kEdges) {
    describe_case(
        "gemm runs %zu, m %zu, n %zu, segments %zd, k %zu, gaps %zu and %zu, rows apart %zu, data %d, filter zero "
        "points %d, sums %d, accumulates %d, terms %d, offset step %zu, padding %zu, planes %d, edge %d",
        product.runs, product.m, product.n, static_cast<std::ptrdiff_t>(product.segments), product.k, product.a_gap,
        product.output_gap, product.rows_apart, static_cast<int>(product.data), product.has_filter,
        product.ends_in_sums, product.accumulates, static_cast<int>(product.terms), product.offset_step,
        product.padding, product.is_of_planes, static_cast<int>(edge));
    check_product(check, product, edge);
  }
}

// Around the sizes of a tile.
void check_tiles(Check& check) {
  const std::size_t mr = check.table.gemm->mr, nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const std::size_t k : Sizes{kr, 2 * kr, 3 * kr, round_up(200, kr)}) {
    for (const std::size_t n : Sizes{std::size_t{1}, nr - 1, nr, nr + 1, 2 * nr, 3 * nr + 5}) {
      for (std::size_t m = 0; m <= 2 * mr + 5; ++m) {
        const Data data = check.one_of<Data>({Data::random, Data::random, Data::most_positive, Data::most_negative});
        check_case(check, {check.below(4), m, n, k, check.below(3) * 5, check.below(3), 0, data, check.one_in(2),
                           check.one_in(3), check.one_in(2)});
      }
    }
  }
}

// Sums beyond int32: 255 * 128 * k.
void check_overflow(Check& check) {
  const std::size_t mr = check.table.gemm->mr, nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const Data data : {Data::most_positive, Data::most_negative}) {
    for (const bool sums : {false, true}) {
      check_case(check, {2, mr + 1, nr + 1, round_up(70000, kr), 0, 0, 0, data, true, sums, sums});
    }
  }
}

void check_random(Check& check, std::size_t runs, std::size_t m, std::size_t n, std::size_t k, std::size_t rows_apart,
                  std::size_t segments = SIZE_MAX) {
  const std::size_t kr = check.table.gemm->kr;
  check_case(check, {runs, m, n, k, check.below(2) * kr, check.below(3), rows_apart, Data::random, check.one_in(2),
                     check.one_in(3), check.one_in(2), segments});
}

// Pairs of b that some kernels multiply otherwise.
void check_pairs_of_right(Check& check) {
  const std::size_t mr = check.table.gemm->mr, nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const Data data : {Data::pairs, Data::pairs_but_one, Data::quads, Data::quads_but_some}) {
    for (const std::size_t k : Sizes{kr, round_up(70, kr), round_up(700, kr)}) {
      for (const std::size_t m : Sizes{std::size_t{1}, mr - 1, mr, 2 * mr + 1, std::size_t{40}}) {
        for (const std::size_t n : Sizes{nr / 2, nr, 3 * nr - 3}) {
          check_case(check, {1 + check.below(4), m, n, k, check.below(2) * 5, check.below(2), 0, data, check.one_in(3),
                             check.one_in(4), check.one_in(2)});
        }
      }
    }
  }
}

// Zero points of filters, codes, and what a kernel may finish in other ways.
void check_terms(Check& check) {
  const std::size_t mr = check.table.gemm->mr, nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const Terms terms : {Terms::usual, Terms::usual_but_one, Terms::scaled}) {
    for (const std::size_t m : Sizes{std::size_t{1}, std::size_t{2}, 2 * mr + 1, 2 * mr + 2, 2 * mr + 3, 2 * mr + 5,
                                     std::size_t{40}, std::size_t{57}}) {
      for (const std::size_t n : Sizes{1, 16, 17, 31, 33, 48, 53, 64}) {
        check_case(check, {1, m, n, kr * (1 + check.below(3)), 0, 0, 0, Data::random, true, false, false, 1, terms});
        if (terms == Terms::scaled) {
          check_case(check, {2, m, n, kr * (1 + check.below(3)), 0, 0, 0, Data::random, false, false, false, 1, terms});
        }
      }
    }
    for (const std::size_t k : Sizes{round_up(700, kr), round_up(1500, kr)}) {
      for (const std::size_t m : Sizes{std::size_t{49}, std::size_t{64}, std::size_t{196}}) {
        check_case(check, {1, m, 5 * nr + 9, k, 0, 0, 0, Data::random, true, false, false, 1, terms});
      }
    }
  }
}

// Short runs at a regular distance.
void check_short_runs(Check& check) {
  const std::size_t nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (std::size_t m = 1; m <= 12; ++m) {
    for (const std::size_t rows_apart : Sizes{m, m + 1, m + 2, 2 * m, 2 * m + 1}) {
      for (const std::size_t runs : Sizes{std::size_t{2}, m, std::size_t{13}}) {
        check_random(check, runs, m, 1 + check.below(3 * nr), kr * (1 + check.below(3)), rows_apart);
      }
    }
  }
}

// Operands that fit no cache, or one of them.
void check_large_operands(Check& check) {
  const std::size_t nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const std::size_t k : Sizes{round_up(400, kr), round_up(900, kr), round_up(1500, kr)}) {
    for (const std::size_t n : Sizes{nr + 1, 5 * nr, 7 * nr - 1}) {
      for (const std::size_t m : Sizes{std::size_t{7}, std::size_t{14}, std::size_t{49}, std::size_t{75}}) {
        check_random(check, 1 + check.below(6), m, n, k, check.below(2) * (m + 2));
      }
    }
  }
  check_random(check, 5, 14, 300, round_up(1400, kr), 16);
  // Quads in more words than one, and in more segments than are looked at.
  for (const std::size_t segments : Sizes{3, 64, 65, 70}) {
    check_case(check, {1, 30, nr + 3, round_up(segments < 10 ? 1100 : 40, kr), 0, 0, 0, Data::quads_but_some, true,
                       false, false, segments});
  }
  for (const std::size_t k : Sizes{round_up(4, kr), round_up(12, kr), round_up(700, kr)}) {
    check_case(check, {1, 30, 2 * nr, k, 0, 0, 0, Data::quads_but_last, false, false, false, 1});
  }
  // No terms: sums are offsets.
  for (const std::size_t n : Sizes{nr, 4 * nr + 1}) {
    for (const std::size_t m : Sizes{1, 6, 30}) {
      for (const std::size_t segments : Sizes{0, 1, 2}) {
        check_case(check, {1, m, n, segments == 0 ? kr : 0, 0, 0, 0, Data::random, false, false, false, segments});
      }
    }
  }
}

// Rows that begin at whole cache lines, which kernels may read where they stand.
void check_rows_in_place(Check& check) {
  const std::size_t kr = check.table.gemm->kr, line = 64;
  for (const Terms terms : {Terms::scaled, Terms::any}) {
    // Products of several steps and of one, some rows at a time: others may be finished beside them.
    for (const std::size_t steps : Sizes{1, 3, 4, 5, 6, 9, 17}) {
      for (const std::size_t m : Sizes{33, 64, 70, 90}) {
        const std::size_t segments = steps % 3 == 0 ? 3 : 1, k = round_up(line * steps / segments, kr);
        check_case(check, {1, m, 96 + 16 * check.below(3) + check.below(2), k, 0, check.below(2), m, Data::random,
                           check.one_in(2), check.one_in(8), false, segments, terms, line});
      }
      check_case(check, {9, 7, 64, round_up(line * steps, kr), 0, 0, 9, Data::random, check.one_in(2), false, false, 1,
                         terms, line});
    }
    // Few rows, and a right operand that level 2 may not hold.
    for (const std::size_t m : Sizes{33, 49, 64}) {
      check_case(check, {1, m, 832 + check.below(2) * 9, round_up(640, kr), 0, 0, m, Data::random, check.one_in(2),
                         check.one_in(4), check.one_in(2), 1, terms, line});
    }
    check_case(check, {7, 7, 833, round_up(320, kr), 0, 0, 9, Data::random, check.one_in(2), check.one_in(4), false, 2,
                       terms, line});
  }
}

// Codes that are made beside the products of other rows: of exactly as many terms as that takes, in one segment and in
// several, by a right operand that is taken in parts, and by one that is not streamed.
void check_codes_among_products(Check& check) {
  const GemmKernels& gemm = *check.table.gemm;
  const std::size_t kr = gemm.kr, line = 64;
  for (const bool has_filter : {false, true}) {
    const auto check_scaled = [&](std::size_t m, std::size_t n, std::size_t k, std::size_t segments) {
      check_case(check, {1, m, n, round_up(k, kr), 0, 0, m, Data::random, has_filter, false, false, segments,
                         Terms::scaled, line});
    };
    for (const std::size_t segments : Sizes{1, 2, 4}) check_scaled(64, 96, 256 / segments, segments);
    check_scaled(64, 64, 256, 1);
    check_scaled(70, 600, 2048, 1);
    check_scaled(33, 832, 640, 1);
  }
}

// Rows that end amid a step, at all places of a line and in all classes of these, and of whole lines with a further
// step.
void check_exact_rows(Check& check) {
  const GemmKernels& gemm = *check.table.gemm;
  const auto check_rows = [&](std::size_t m, std::size_t n, std::size_t terms, std::size_t k, std::size_t a_gap) {
    check_case(check, {1, m, n, k, a_gap, check.below(2) * 3, m, Data::random, check.one_in(4), check.one_in(4),
                       check.one_in(2), 1, check.one_of<Terms>({Terms::scaled, Terms::any}),
                       check.one_of<std::size_t>({1, 16, 64}), k - terms});
  };
  for (const std::size_t terms : Sizes{1, 4, 16, 24, 32, 48, 63, 65, 96, 112, 144, 240, 304, 672}) {
    const std::size_t k = round_up(terms, gemm.kr);
    if (terms > gemm.most_exact_terms) continue;
    for (const std::size_t m : Sizes{1, 17, 97, 193, 199}) {
      check_rows(m, 1 + check.below(140), terms, k, 0);
      check_rows(m, 1 + check.below(140), terms, round_up(terms + 48, gemm.kr), check.below(2) * 16);
    }
    check_rows(50, 300, terms, k, 0);
  }
  // Several segments and runs, as those of images, some of which are too far apart to be cut as one.
  for (const std::size_t terms : Sizes{33, 96, 160, 288}) {
    const std::size_t k = round_up(terms + 48, gemm.kr), step = 32;
    if (3 * k > gemm.most_exact_terms) continue;
    for (const std::size_t m : Sizes{1, 2, 7, 28, 33, 56}) {
      const std::size_t runs = 1 + 150 / m, gap = round_up(terms, step) - terms + check.below(2) * step;
      check_case(check, {runs, m, 1 + check.below(200), k, gap, check.below(2), m + m % 2 + check.below(2) * 2,
                         Data::random, check.one_in(3), check.one_in(4), false, 3, Terms::scaled,
                         check.one_of<std::size_t>({32, 64}), k - terms});
    }
  }
  for (const std::size_t terms : Sizes{64, 192, 576, 1536, 2048}) {
    if (gemm.most_exact_terms == 0) continue;
    for (const std::size_t m : Sizes{5, 40, 70})
      check_rows(m, 20 + check.below(60), terms, terms + gemm.kr, check.below(2) * 64);
  }
}

// Filters by planes: around the sizes of tiles, areas and steps, by rows that stand in lines or anywhere.
void check_planes(Check& check) {
  const GemmKernels& gemm = *check.table.gemm;
  if (!gemm.multiplies_planes) return;
  const auto check_sizes = [&](std::size_t m, std::size_t n, std::size_t steps, Data data, Terms terms) {
    const std::size_t segments = check.one_in(3) ? steps : 1, k = gemm.kr * steps / segments;
    check_case(check, {1, m, n, k, check.below(2) * 64, check.below(2) * 7, 0, data, check.one_in(2), check.one_in(4),
                       check.one_in(2), segments, terms, check.one_of<std::size_t>({1, 64, 64}), 0, true});
  };
  for (const std::size_t m : Sizes{1, 2, 15, 16, 17, 31, 32, 33, 48, 49, 64, 65, 70, 96, 130}) {
    for (const std::size_t n : Sizes{1, 15, 16, 17, 31, 32, 33, 49, 64, 96, 131}) {
      check_sizes(m, n, 1 + check.below(6), Data::random, check.one_of<Terms>({Terms::scaled, Terms::any}));
    }
  }
  for (const Terms terms : {Terms::usual, Terms::usual_but_one, Terms::scaled}) {
    for (const std::size_t steps : Sizes{1, 2, 3, 4, 5, 9, 17}) {
      for (const std::size_t n : Sizes{64, 80, 97}) check_sizes(70 + check.below(60), n, steps, Data::random, terms);
    }
  }
  for (const Data data : {Data::most_positive, Data::most_negative}) check_sizes(40, 70, 1100, data, Terms::any);
  check_sizes(64, 832, 20, Data::random, Terms::scaled);
  check_sizes(130, 600, 32, Data::random, Terms::scaled);
}

// More segments and more panels than a kernel may take at a time.
void check_many_segments(Check& check) {
  const std::size_t nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const std::size_t segments :
       Sizes{std::size_t{31}, std::size_t{32}, std::size_t{33}, std::size_t{64}, std::size_t{65}, std::size_t{129}}) {
    for (const std::size_t k : Sizes{kr, 5 * kr}) check_random(check, 2, 7, nr + 9, k, 0, segments);
  }
  for (const std::size_t panels :
       Sizes{std::size_t{15}, std::size_t{16}, std::size_t{17}, std::size_t{32}, std::size_t{33}}) {
    check_random(check, 2, 8, panels * nr, kr, 0, 1);
    check_random(check, 2, 8, panels * nr + 9, kr, 0, 2);
  }
}

// Rows too long for the level-1 cache, in one segment.
void check_long_rows(Check& check) {
  const std::size_t nr = check.table.gemm->nr, kr = check.table.gemm->kr;
  for (const std::size_t m : Sizes{std::size_t{1}, std::size_t{20}, std::size_t{49}, std::size_t{75}}) {
    for (const std::size_t n : Sizes{nr, 2 * nr, 3 * nr + 1, 7 * nr - 1}) {
      check_random(check, 1, m, n, round_up(2100 + check.below(300), kr), 0, 1);
    }
  }
  // The same for a few panels more, which a kernel may multiply by ranges of k: of a segment, or of some.
  for (const std::size_t m : Sizes{std::size_t{33}, std::size_t{70}}) {
    for (const std::size_t panels : Sizes{std::size_t{9}, std::size_t{10}, std::size_t{11}, std::size_t{12}}) {
      check_random(check, 1, m, panels * nr - check.below(nr), round_up(1200 + check.below(300), kr), 0, 1);
      check_random(check, 1, m, panels * nr - check.below(nr), round_up(400 + check.below(100), kr), 0, 3);
      check_random(check, 1, m, panels * nr - check.below(nr), kr * (1 + check.below(2)), 0, 17);
    }
  }
}

}  // namespace

void check_gemm(Check& check) {
  const GemmKernels& gemm = *check.table.gemm;
  describe_case("gemm: sizes of the tile");
  check.expect(gemm.mr >= 1 && gemm.kr % 4 == 0 && gemm.nr * gemm.kr % 64 == 0 && gemm.nr % 16 == 0);
  check_tiles(check);
  check_overflow(check);
  check_pairs_of_right(check);
  check_terms(check);
  check_short_runs(check);
  check_large_operands(check);
  check_rows_in_place(check);
  check_exact_rows(check);
  check_codes_among_products(check);
  check_planes(check);
  check_many_segments(check);
  check_long_rows(check);
}

}  // namespace dmlcpu::test
