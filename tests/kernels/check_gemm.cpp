#include <algorithm>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

enum class Data { random, most_positive, most_negative };

struct Product {
  std::size_t m, n, k, a_gap, c_gap;
  Data data;
};

std::size_t round_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

std::uint8_t draw(Check& check, Data data, bool is_signed) {
  if (data == Data::random) return check.code();
  if (!is_signed) return 255;
  return data == Data::most_positive ? 127 : 128;
}

void check_product(Check& check, const Product& product, Edge edge) {
  const GemmKernels& gemm = *check.table.gemm;
  const std::size_t k = product.k, segments = 1 + check.below(3);
  std::vector<std::size_t> offsets(segments);
  for (std::size_t& offset : offsets) offset = check.below(3 * k);
  const std::size_t a_row = *std::max_element(offsets.begin(), offsets.end()) + k;
  const std::size_t a_stride = k + product.a_gap, columns = round_up(product.n, gemm.nr);
  const std::size_t c_stride = columns + product.c_gap;
  std::vector<std::uint8_t> a(product.m == 0 ? 0 : (product.m - 1) * a_stride + a_row), b(columns * segments * k);
  for (std::uint8_t& code : a) code = draw(check, product.data, false);
  for (std::uint8_t& code : b) code = draw(check, product.data, true);

  const GuardedBuffer<std::uint8_t> guarded_a(a, edge), guarded_b(b, edge);
  const GuardedBuffer<std::int32_t> c(product.m == 0 ? 0 : product.m * c_stride - product.c_gap, edge);
  gemm.multiply({.a = guarded_a.data(),
                 .a_row_stride = a_stride,
                 .a_offsets = offsets.data(),
                 .segments = segments,
                 .b = guarded_b.data(),
                 .c = c.data(),
                 .c_row_stride = c_stride,
                 .m = product.m,
                 .n = product.n,
                 .k = k});

  std::vector<std::int32_t> expected = canaries<std::int32_t>(c.size());
  for (std::size_t row = 0; row < product.m; ++row) {
    for (std::size_t column = 0; column < product.n; ++column) {
      const std::uint8_t* panel = b.data() + column / gemm.nr * gemm.nr * segments * k + column % gemm.nr * 4;
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < segments * k; ++i) {
        sum +=
            a[row * a_stride + offsets[i / k] + i % k] * static_cast<std::int8_t>(panel[i / 4 * gemm.nr * 4 + i % 4]);
      }
      expected[row * c_stride + column] = reference_wrap(sum);
    }
    // The columns up to the panel's end may hold anything.
    for (std::size_t column = product.n; column < columns; ++column) {
      expected[row * c_stride + column] = c.data()[row * c_stride + column];
    }
  }
  check.equal(c, expected);
}

void check_case(Check& check, const Product& product) {
  for (const Edge edge : kEdges) {
    describe_case("gemm m %zu, n %zu, k %zu, gaps %zu and %zu, data %d, edge %d", product.m, product.n, product.k,
                  product.a_gap, product.c_gap, static_cast<int>(product.data), static_cast<int>(edge));
    check_product(check, product, edge);
  }
}

}  // namespace

void check_gemm(Check& check) {
  const GemmKernels& gemm = *check.table.gemm;
  const std::size_t mr = gemm.mr, nr = gemm.nr, kr = gemm.kr;
  describe_case("gemm: sizes of the tile");
  check.expect(mr >= 1 && kr % 4 == 0 && nr * kr % 64 == 0 && nr % 16 == 0);
  {
    for (const std::size_t k : {kr, 2 * kr, 3 * kr, round_up(200, kr)}) {
      for (const std::size_t n : {std::size_t{1}, nr - 1, nr, nr + 1, 2 * nr, 3 * nr + 5}) {
        for (std::size_t m = 0; m <= 2 * mr + 5; ++m) {
          const Data data = check.one_of<Data>({Data::random, Data::random, Data::most_positive, Data::most_negative});
          check_case(check, {m, n, k, check.below(3) * 5, check.below(2) * 16, data});
        }
      }
    }
    // Sums beyond int32: 255 * 128 * k.
    for (const Data data : {Data::most_positive, Data::most_negative}) {
      check_case(check, {mr + 1, nr + 1, round_up(70000, kr), 0, 0, data});
    }
  }
}

}  // namespace dmlcpu::test
