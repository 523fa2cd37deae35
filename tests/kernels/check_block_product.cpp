#include <cmath>
#include <limits>

#include "check.h"

namespace dmlcpu::test {
namespace {

constexpr std::size_t kColumns = kCodedPanelColumns;

struct Case {
  std::size_t bits, m, k, n, block;

  std::size_t blocks() const { return (k + block - 1) / block; }
};

template <class Element, class Draw>
std::vector<Element> drawn(std::size_t count, Draw draw) {
  std::vector<Element> elements(count);
  for (Element& element : elements) element = static_cast<Element>(draw());
  return elements;
}

// Blocks of ordinary numbers, of halves that tie, of zeros, of tiny numbers, or with one that is not finite.
std::vector<float> draw_row(Check& check, const Case& test_case) {
  std::vector<float> row(test_case.k);
  for (std::size_t first = 0; first < test_case.k; first += test_case.block) {
    const std::size_t kind = check.below(8), count = std::min(test_case.block, test_case.k - first);
    for (std::size_t i = 0; i < count; ++i) {
      float& x = row[first + i];
      x = kind == 0   ? 0.0f
          : kind == 1 ? std::ldexp(static_cast<float>(check.below(255)) - 127.0f, -130)
          : kind == 2 ? (static_cast<float>(check.below(509)) - 254.0f) / 2
                      : check.number();
      if (kind > 3 && !(std::fabs(x) < 0x1p100f)) x = 1.0f;
    }
    if (kind == 2) row[first] = 127.0f;
  }
  return row;
}

struct Quantized {
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
  std::vector<std::int32_t> negative_sums;
};

void quantize_row(const Case& test_case, const std::vector<float>& row, Quantized& quantized) {
  for (std::size_t first = 0; first < test_case.k; first += test_case.block) {
    float most = 0.0f;
    bool finite = true;
    const std::size_t end = std::min(first + test_case.block, test_case.k);
    for (std::size_t i = first; i < end; ++i) {
      finite = finite && std::isfinite(row[i]);
      most = std::max(most, std::fabs(row[i]));
    }
    const bool has_codes = finite && most >= 0x1p-120f;
    const float inverse = has_codes ? 127.0f / most : 0.0f;
    std::int32_t sum = 0;
    for (std::size_t i = first; i < first + test_case.block; ++i) {
      const float scaled = i < end && has_codes ? row[i] * inverse : 0.0f;
      const auto code = static_cast<std::int8_t>(std::nearbyint(scaled));
      sum += code;
      quantized.codes.push_back(code);
    }
    quantized.scales.push_back(finite ? most / 127.0f : std::numeric_limits<float>::quiet_NaN());
    quantized.negative_sums.push_back(-sum & 0xffff);
  }
}

void check_quantize(Check& check, const Case& test_case, Edge edge) {
  const std::vector<float> row = draw_row(check, test_case);
  Quantized expected;
  quantize_row(test_case, row, expected);
  const GuardedBuffer<float> a(row, edge), scales(test_case.blocks(), edge);
  const GuardedBuffer<std::int8_t> codes(test_case.blocks() * test_case.block, edge);
  const GuardedBuffer<std::int32_t> negative_sums(test_case.blocks(), edge);
  check.table.block_product->quantize({.a = a.data(),
                                       .k = test_case.k,
                                       .block = test_case.block,
                                       .codes = codes.data(),
                                       .scale = scales.data(),
                                       .negative_sum = negative_sums.data()});
  check.equal(codes, expected.codes);
  check.equal(negative_sums, expected.negative_sums);
  for (std::size_t i = 0; i < test_case.blocks(); ++i) {  // one NaN is as good as another
    if (std::isnan(scales.data()[i]) && std::isnan(expected.scales[i])) scales.data()[i] = expected.scales[i];
  }
  check.equal(scales, expected.scales);
}

// What a product reads, and how far its rows of sums are apart.
struct Operands {
  Operands(Check& check, const Case& test_case) {
    const std::size_t blocks = test_case.blocks(), words_of_block = test_case.block * test_case.bits / 32;
    // Finite: which NaN comes of another is not said.
    const auto draw_scale = [&] {
      return std::ldexp(check.one_in(2) ? 1.0 : -1.7, static_cast<int>(check.below(60)) - 40);
    };
    const bool saturated = check.one_in(4);  // the largest sums
    const std::uint32_t most = (1U << test_case.bits) - 1;
    a = drawn<std::int8_t>(test_case.m * blocks * test_case.block,
                           [&] { return saturated ? 127 : static_cast<int>(check.below(255)) - 127; });
    a_scales = drawn<float>(test_case.m * blocks, draw_scale);
    words = drawn<std::uint32_t>(blocks * words_of_block * kColumns, [&] { return saturated ? ~0U : check.word(); });
    scales = drawn<float>(blocks * kColumns, draw_scale);
    points = drawn<std::uint8_t>(blocks * kColumns, [&] { return saturated ? 0 : check.below(most + 1); });
    stride = test_case.n + check.below(3);
    for (std::size_t first = 0; first < a.size(); first += test_case.block) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < test_case.block; ++i) sum += a[first + i];
      negative_sums.push_back(-sum & 0xffff);
    }
  }

  float sum(const Case& test_case, std::size_t row, std::size_t column) const {
    const std::size_t bits = test_case.bits, blocks = test_case.blocks(), codes_of_word = 32 / bits;
    float sum = 0.0f;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::int8_t* of_block = &a[(row * blocks + block) * test_case.block];
      std::int32_t dot = 0;
      for (std::size_t i = 0; i < test_case.block; ++i) {
        const std::size_t in_word = i % codes_of_word, bit = in_word % 4 * 8 + in_word / 4 * 4;
        const std::size_t row_of_words = block * (test_case.block / codes_of_word) + i / codes_of_word;
        const std::uint32_t code = words[row_of_words * kColumns + column] >> bit & ((1U << bits) - 1);
        dot += of_block[i] * (static_cast<int>(code) - points[block * kColumns + column]);
      }
      const float scale = a_scales[row * blocks + block] * scales[block * kColumns + column];
      sum = std::fma(static_cast<float>(dot), scale, sum);
    }
    return sum;
  }

  std::vector<std::int8_t> a;
  std::vector<std::int32_t> negative_sums;
  std::vector<std::uint32_t> words;
  std::vector<std::uint8_t> points;
  std::vector<float> a_scales, scales;
  std::size_t stride;
};

void check_multiply(Check& check, const Case& test_case, Edge edge) {
  const Operands operands(check, test_case);
  std::vector<float> expected((test_case.m - 1) * operands.stride + test_case.n, 0.5f);
  for (std::size_t row = 0; row < test_case.m; ++row) {
    for (std::size_t column = 0; column < test_case.n; ++column) {
      expected[row * operands.stride + column] = operands.sum(test_case, row, column);
    }
  }
  const GuardedBuffer<std::int8_t> a(operands.a, edge);
  const GuardedBuffer<float> a_scales(operands.a_scales, edge), scales(operands.scales, edge);
  const GuardedBuffer<std::int32_t> negative_sums(operands.negative_sums, edge);
  const GuardedBuffer<std::uint32_t> words(operands.words, edge);
  const GuardedBuffer<std::uint8_t> points(operands.points, edge);
  const GuardedBuffer<float> sums(expected.size(), edge);
  std::fill_n(sums.data(), expected.size(), 0.5f);
  const auto multiply =
      test_case.bits == 4 ? check.table.block_product->multiply_4_bits : check.table.block_product->multiply_8_bits;
  multiply({.a = a.data(),
            .a_scale = a_scales.data(),
            .a_negative_sum = negative_sums.data(),
            .words = words.data(),
            .scale = scales.data(),
            .zero_point = points.data(),
            .m = test_case.m,
            .n = test_case.n,
            .blocks = test_case.blocks(),
            .block = test_case.block,
            .sums = sums.data(),
            .sums_row_stride = operands.stride});
  check.equal(sums, expected);
}

}  // namespace

void check_block_product(Check& check) {
  for (const std::size_t block : Sizes{16, 32, 48, 128, kMostBlockTerms}) {
    for (const std::size_t k : Sizes{1, 9, 16, 17, 64, 75, 256, 300}) {
      for (const std::size_t n : Sizes{1, 8, 15, 17, 31, 33, 47, 64}) {
        const Case test_case = {
            .bits = check.one_in(2) ? 4U : 8U, .m = 1 + check.below(9), .k = k, .n = n, .block = block};
        for (const Edge edge : kEdges) {
          describe_case("block product of %zu bits, m %zu, k %zu, n %zu, blocks of %zu, edge %d", test_case.bits,
                        test_case.m, k, n, block, static_cast<int>(edge));
          check_quantize(check, test_case, edge);
          check_multiply(check, test_case, edge);
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
