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

void check_row(Check& check, std::size_t k, std::size_t n, Edge edge) {
  const std::size_t stride = n + check.below(3);
  const std::vector<float> a = draw(check, k), b = draw(check, (k - 1) * stride + n);
  std::vector<float> expected = draw(check, n);
  const GuardedBuffer<float> guarded_a(a, edge), guarded_b(b, edge), sums(n, edge);
  std::memcpy(sums.data(), expected.data(), n * sizeof(float));
  check.table.float_product->accumulate(
      {.a = guarded_a.data(), .b = guarded_b.data(), .b_row_stride = stride, .k = k, .n = n, .sums = sums.data()});
  for (std::size_t column = 0; column < n; ++column) {
    for (std::size_t i = 0; i < k; ++i) expected[column] = std::fma(a[i], b[i * stride + column], expected[column]);
  }
  check.equal(sums, expected);
}

}  // namespace

void check_float_product(Check& check) {
  for (const std::size_t n : run_lengths()) {
    if (n == 0) continue;
    for (const std::size_t k : {1, 2, 9}) {
      for (const Edge edge : kEdges) {
        describe_case("float product k %zu, n %zu, edge %d", k, n, static_cast<int>(edge));
        check_row(check, k, n, edge);
      }
    }
  }
}

}  // namespace dmlcpu::test
