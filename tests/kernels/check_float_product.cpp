#include <cmath>

#include "check.h"

namespace dmlcpu::test {
namespace {

std::vector<float> draw(Check& check, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(check.below(1 << 24)) - 0x1p23f, static_cast<int>(check.below(40)) - 40);
  }
  return values;
}

// In panels of so many columns, each so far behind the one before. The last one is filled up with NaN, but its last row
// ends with the last column: none is read beyond.
std::vector<float> in_panels(const std::vector<float>& b, std::size_t b_stride, std::size_t rows, std::size_t n,
                             std::size_t columns, std::size_t panel_stride) {
  const std::size_t panels = (n + columns - 1) / columns;
  std::vector<float> packed((panels - 1) * panel_stride + (rows - 1) * columns + n - (panels - 1) * columns, NAN);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      packed[column / columns * panel_stride + row * columns + column % columns] = b[row * b_stride + column];
    }
  }
  return packed;
}

void check_block(Check& check, std::size_t m, std::size_t runs, std::size_t k, std::size_t n, Edge edge) {
  const std::size_t a_stride = k + check.below(3), b_stride = n + check.below(3), stride = n + check.below(3);
  const std::size_t run_stride = check.below(2 * a_stride);  // runs may overlap, as rows do
  const std::vector<float> a = draw(check, (m - 1) * a_stride + (runs - 1) * run_stride + k);
  const std::vector<float> b = draw(check, (runs * k - 1) * b_stride + n);
  const bool begins = check.one_in(2), has_bias = check.one_in(2);
  const GuardedBuffer<float> bias(draw(check, n), edge);
  std::vector<float> expected = draw(check, (m - 1) * stride + n);
  const std::size_t columns = check.table.float_product->panel_columns;
  const std::size_t panel_stride = check.one_in(2) ? 0 : runs * k * columns + check.below(2) * columns;
  const GuardedBuffer<float> guarded_b(
      panel_stride == 0 ? b : in_panels(b, b_stride, runs * k, n, columns, panel_stride), edge);
  const GuardedBuffer<float> guarded_a(a, edge), sums(expected.size(), edge);
  std::memcpy(sums.data(), expected.data(), expected.size() * sizeof(float));
  check.table.float_product->accumulate({.a = guarded_a.data(),
                                         .a_row_stride = a_stride,
                                         .runs = runs,
                                         .a_run_stride = run_stride,
                                         .b = guarded_b.data(),
                                         .b_row_stride = panel_stride == 0 ? b_stride : columns,
                                         .m = m,
                                         .k = k,
                                         .n = n,
                                         .sums = sums.data(),
                                         .sums_row_stride = stride,
                                         .begins = begins,
                                         .bias = has_bias ? bias.data() : nullptr,
                                         .b_panel_stride = panel_stride,
                                         .b_is_near = check.one_in(2)});
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      float& sum = expected[row * stride + column];
      if (begins) sum = has_bias ? bias.data()[column] : 0.0f;
      for (std::size_t i = 0; i < runs * k; ++i) {
        sum = std::fma(a[row * a_stride + i / k * run_stride + i % k], b[i * b_stride + column], sum);
      }
    }
  }
  check.equal(sums, expected);
}

}  // namespace

void check_float_product(Check& check) {
  const auto check_sizes = [&](std::size_t m, std::size_t k, std::size_t n) {
    for (const Edge edge : kEdges) {
      const std::size_t runs = check.one_in(2) ? 1 : 1 + check.below(4);
      describe_case("float product m %zu, runs %zu, k %zu, n %zu, edge %d", m, runs, k, n, static_cast<int>(edge));
      check_block(check, m, runs, k, n, edge);
    }
  };
  // Columns so few that the lanes of a sum are rows.
  for (const std::size_t n : Sizes{1, 2, 3, 4, 5}) {
    for (const std::size_t m : Sizes{7, 8, 9, 15, 16, 17, 31, 32, 33, 50}) {
      for (const std::size_t k : Sizes{1, 3, 4, 5, 16, 35}) check_sizes(m, k, n);
    }
  }
  // Rows so long that b is read in long runs.
  for (const std::size_t n : Sizes{511, 512, 519, 528, 1023}) {
    for (const std::size_t m : Sizes{1, 2, 3, 4}) {
      for (const std::size_t k : Sizes{7, 8, 9, 17}) check_sizes(m, k, n);
    }
  }
  // Columns of few vectors, whose tiles have more rows.
  for (const std::size_t n : Sizes{8, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 80, 127, 128, 145}) {
    for (const std::size_t m : Sizes{4, 5, 11, 12, 13, 23, 24, 25, 40}) {
      for (const std::size_t k : Sizes{1, 9}) check_sizes(m, k, n);
    }
  }
  // Panels and rows that are left over: of tiles, and of panels side by side.
  for (const std::size_t n : Sizes{15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 80, 96, 97, 112, 128, 129, 145}) {
    for (std::size_t m = 1; m <= 13; ++m) check_sizes(m, 1 + check.below(9), n);
  }
  for (const std::size_t n : run_lengths()) {
    if (n == 0) continue;
    for (const std::size_t k : Sizes{1, 2, 9}) {
      check_sizes(1 + check.below(9), k, n);
    }
  }
}

}  // namespace dmlcpu::test
