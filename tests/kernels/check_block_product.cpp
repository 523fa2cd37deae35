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
std::vector<float> draw_row(Check& check, const Case& of) {
  std::vector<float> row(of.k);
  for (std::size_t first = 0; first < of.k; first += of.block) {
    const std::size_t kind = check.below(8), count = std::min(of.block, of.k - first);
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

void quantize_row(const Case& of, const std::vector<float>& row, Quantized& quantized) {
  for (std::size_t first = 0; first < of.k; first += of.block) {
    float most = 0.0f;
    bool finite = true;
    const std::size_t end = std::min(first + of.block, of.k);
    for (std::size_t i = first; i < end; ++i) {
      finite = finite && std::isfinite(row[i]);
      most = std::max(most, std::fabs(row[i]));
    }
    const bool has_codes = finite && most >= 0x1p-120f;
    const float inverse = has_codes ? 127.0f / most : 0.0f;
    std::int32_t sum = 0;
    for (std::size_t i = first; i < first + of.block; ++i) {
      const float scaled = i < end && has_codes ? row[i] * inverse : 0.0f;
      const auto code = static_cast<std::int8_t>(std::nearbyint(scaled));
      sum += code;
      quantized.codes.push_back(code);
    }
    quantized.scales.push_back(finite ? most / 127.0f : std::numeric_limits<float>::quiet_NaN());
    quantized.negative_sums.push_back(-sum & 0xffff);
  }
}

void check_quantize(Check& check, const Case& of, Edge edge) {
  const std::vector<float> row = draw_row(check, of);
  Quantized expected;
  quantize_row(of, row, expected);
  const GuardedBuffer<float> a(row, edge), scales(of.blocks(), edge);
  const GuardedBuffer<std::int8_t> codes(of.blocks() * of.block, edge);
  const GuardedBuffer<std::int32_t> negative_sums(of.blocks(), edge);
  check.table.block_product->quantize({.a = a.data(),
                                       .k = of.k,
                                       .block = of.block,
                                       .codes = codes.data(),
                                       .scale = scales.data(),
                                       .negative_sum = negative_sums.data()});
  check.equal(codes, expected.codes);
  check.equal(negative_sums, expected.negative_sums);
  for (std::size_t i = 0; i < of.blocks(); ++i) {  // one NaN is as good as another
    if (std::isnan(scales.data()[i]) && std::isnan(expected.scales[i])) scales.data()[i] = expected.scales[i];
  }
  check.equal(scales, expected.scales);
}

void check_multiply(Check& check, const Case& of, Edge edge) {
  const std::size_t blocks = of.blocks(), words_of_block = of.block * of.bits / 32;
  // Finite: which NaN comes of another is not said.
  const auto draw_scale = [&] {
    return std::ldexp(check.one_in(2) ? 1.0 : -1.7, static_cast<int>(check.below(60)) - 40);
  };
  const bool saturated = check.one_in(4);  // the largest sums
  const std::uint32_t most = (1U << of.bits) - 1;
  const auto codes = drawn<std::int8_t>(of.m * blocks * of.block,
                                        [&] { return saturated ? 127 : static_cast<int>(check.below(255)) - 127; });
  const auto a_scales = drawn<float>(of.m * blocks, draw_scale);
  const auto words =
      drawn<std::uint32_t>(blocks * words_of_block * kColumns, [&] { return saturated ? ~0U : check.word(); });
  const auto scales = drawn<float>(blocks * kColumns, draw_scale);
  const auto points = drawn<std::uint8_t>(blocks * kColumns, [&] { return saturated ? 0 : check.below(most + 1); });
  const std::size_t stride = of.n + check.below(3);
  std::vector<std::int32_t> negative_sums;
  std::vector<float> expected((of.m - 1) * stride + of.n, 0.5f);
  for (std::size_t row = 0; row < of.m; ++row) {
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::int8_t* a = &codes[(row * blocks + block) * of.block];
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < of.block; ++i) sum += a[i];
      negative_sums.push_back(-sum & 0xffff);
    }
    for (std::size_t column = 0; column < of.n; ++column) {
      float& sum = expected[row * stride + column] = 0.0f;
      for (std::size_t block = 0; block < blocks; ++block) {
        const std::int8_t* a = &codes[(row * blocks + block) * of.block];
        std::int32_t dot = 0;
        for (std::size_t i = 0; i < of.block; ++i) {
          const std::size_t in_word = i % (32 / of.bits), bit = in_word % 4 * 8 + in_word / 4 * 4;
          const std::uint32_t word = words[(block * words_of_block + i / (32 / of.bits)) * kColumns + column];
          dot += a[i] * (static_cast<int>(word >> bit & most) - points[block * kColumns + column]);
        }
        const float scale = a_scales[row * blocks + block] * scales[block * kColumns + column];
        sum = std::fma(static_cast<float>(dot), scale, sum);
      }
    }
  }
  const GuardedBuffer<std::int8_t> guarded_a(codes, edge);
  const GuardedBuffer<float> guarded_a_scales(a_scales, edge), guarded_scales(scales, edge);
  const GuardedBuffer<std::int32_t> guarded_sums(negative_sums, edge);
  const GuardedBuffer<std::uint32_t> guarded_words(words, edge);
  const GuardedBuffer<std::uint8_t> guarded_points(points, edge);
  const GuardedBuffer<float> sums(expected.size(), edge);
  std::fill_n(sums.data(), expected.size(), 0.5f);
  const auto multiply =
      of.bits == 4 ? check.table.block_product->multiply_4_bits : check.table.block_product->multiply_8_bits;
  multiply({.a = guarded_a.data(),
            .a_scale = guarded_a_scales.data(),
            .a_negative_sum = guarded_sums.data(),
            .words = guarded_words.data(),
            .scale = guarded_scales.data(),
            .zero_point = guarded_points.data(),
            .m = of.m,
            .n = of.n,
            .blocks = blocks,
            .block = of.block,
            .sums = sums.data(),
            .sums_row_stride = stride});
  check.equal(sums, expected);
}

}  // namespace

void check_block_product(Check& check) {
  for (const std::size_t block : Sizes{16, 32, 48, 128, kMostBlockTerms}) {
    for (const std::size_t k : Sizes{1, 9, 16, 17, 64, 75, 256, 300}) {
      for (const std::size_t n : Sizes{1, 8, 15, 17, 31, 33, 47, 64}) {
        const Case of = {.bits = check.one_in(2) ? 4U : 8U, .m = 1 + check.below(9), .k = k, .n = n, .block = block};
        for (const Edge edge : kEdges) {
          describe_case("block product of %zu bits, m %zu, k %zu, n %zu, blocks of %zu, edge %d", of.bits, of.m, k, n,
                        block, static_cast<int>(edge));
          check_quantize(check, of, edge);
          check_multiply(check, of, edge);
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
