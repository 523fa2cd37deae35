#include <cmath>

#include "check.h"

namespace dmlcpu::test {
namespace {

constexpr std::size_t kColumns = kCodedPanelColumns;

struct Case {
  std::size_t bits, m, k, n, block;
};

// A panel, and the matrix that it stands for.
class Panel {
 public:
  Panel(Check& check, const Case& test_case, Edge edge)
      : case_(test_case),
        codes_((1U << test_case.bits) - 1),
        words_of_block_((test_case.block * test_case.bits + 31) / 32),
        blocks_((test_case.k + test_case.block - 1) / test_case.block),
        one_zero_point_(check.one_in(2) ? check.below(codes_ + 1) : codes_ + 1),
        words_(drawn<std::uint32_t>(blocks_ * words_of_block_ * kColumns, [&] { return check.word(); }), edge),
        scales_(drawn<float>(blocks_ * kColumns, [&] { return check.scale(); }), edge),
        zero_points_(drawn<std::uint8_t>(blocks_ * kColumns,
                                         [&] {
                                           return static_cast<std::uint8_t>(
                                               one_zero_point_ <= codes_ ? one_zero_point_ : check.below(codes_ + 1));
                                         }),
                     edge) {}

  CodedPanel get() const {
    return {.words = words_.data(),
            .scale = scales_.data(),
            .zero_point = zero_points_.data(),
            .block = case_.block,
            .k = case_.k};
  }

  float value(std::size_t k, std::size_t column) const {
    const std::size_t block = k / case_.block, codes = 32 / case_.bits, word = k % case_.block / codes;
    const std::size_t code_of_word = k % case_.block % codes, bit = code_of_word % 4 * 8 + code_of_word / 4 * 4;
    const std::uint32_t of_codes = words_.data()[(block * words_of_block_ + word) * kColumns + column];
    const int code = static_cast<int>(of_codes >> bit & codes_);
    return static_cast<float>(code - zero_points_.data()[block * kColumns + column]) *
           scales_.data()[block * kColumns + column];
  }

 private:
  template <class Element, class Draw>
  static std::vector<Element> drawn(std::size_t count, Draw draw) {
    std::vector<Element> elements(count);
    for (Element& element : elements) element = draw();
    return elements;
  }

  Case case_;
  std::uint32_t codes_;
  std::size_t words_of_block_, blocks_;
  std::size_t one_zero_point_;  // of all blocks and columns; beyond the codes where there are several
  GuardedBuffer<std::uint32_t> words_;
  GuardedBuffer<float> scales_;
  GuardedBuffer<std::uint8_t> zero_points_;
};

std::vector<float> draw_floats(Check& check, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(check.below(1 << 24)) - 0x1p23f, static_cast<int>(check.below(40)) - 40);
  }
  return values;
}

void check_case(Check& check, const Case& test_case, Edge edge) {
  const Panel panel(check, test_case, edge);
  const DequantizedProductKernels& kernels = *check.table.dequantized_product;
  const DequantizedProductFunctions& functions = test_case.bits == 4 ? kernels.of_4_bits : kernels.of_8_bits;

  std::vector<float> values(test_case.k * kColumns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = panel.value(i / kColumns, i % kColumns);
  const GuardedBuffer<float> dequantized(values.size(), edge);
  functions.dequantize(panel.get(), dequantized.data());
  check.equal(dequantized, values);

  const std::size_t a_stride = test_case.k + check.below(3), stride = test_case.n + check.below(3);
  const std::vector<float> a = draw_floats(check, (test_case.m - 1) * a_stride + test_case.k);
  std::vector<float> expected = draw_floats(check, (test_case.m - 1) * stride + test_case.n);
  const bool begins = check.one_in(2);
  const GuardedBuffer<float> guarded_a(a, edge), sums(expected.size(), edge);
  std::memcpy(sums.data(), expected.data(), expected.size() * sizeof(float));
  functions.accumulate({.a = guarded_a.data(),
                        .a_row_stride = a_stride,
                        .b = panel.get(),
                        .m = test_case.m,
                        .n = test_case.n,
                        .sums = sums.data(),
                        .sums_row_stride = stride,
                        .begins = begins});
  for (std::size_t row = 0; row < test_case.m; ++row) {
    for (std::size_t column = 0; column < test_case.n; ++column) {
      float& sum = expected[row * stride + column];
      if (begins) sum = 0.0f;
      for (std::size_t i = 0; i < test_case.k; ++i)
        sum = std::fma(a[row * a_stride + i], values[i * kColumns + column], sum);
    }
  }
  check.equal(sums, expected);
}

}  // namespace

void check_dequantized_product(Check& check) {
  for (const std::size_t bits : Sizes{4, 8}) {
    for (const std::size_t n : Sizes{1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64}) {
      for (const std::size_t k : Sizes{1, 3, 4, 5, 8, 15, 16, 31, 64, 75}) {
        for (const std::size_t block : Sizes{8, 16, 32, 75}) {
          const Case test_case = {.bits = bits, .m = 1 + check.below(18), .k = k, .n = n, .block = block};
          for (const Edge edge : kEdges) {
            describe_case("dequantized product of %zu bits, m %zu, k %zu, n %zu, blocks of %zu, edge %d", bits,
                          test_case.m, k, n, block, static_cast<int>(edge));
            check_case(check, test_case, edge);
          }
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
