// dequantized_product.h in plain C++.
#include "kernels/dequantized_product/dequantized_product.h"

namespace dmlcpu {
namespace {

template <std::size_t bits>
float value_at(const CodedPanel& panel, std::size_t k, std::size_t column) noexcept {
  constexpr std::size_t kCodes = 32 / bits;
  const std::size_t block = k / panel.block, in_block = k % panel.block;
  const std::size_t words_of_block = (panel.block + kCodes - 1) / kCodes;
  const std::size_t word = (block * words_of_block + in_block / kCodes) * kCodedPanelColumns + column;
  const std::uint32_t code = panel.words[word] >> code_shift(bits, in_block % kCodes) & ((1U << bits) - 1);
  const std::size_t parameter = block * kCodedPanelColumns + column;
  return (static_cast<float>(code) - static_cast<float>(panel.zero_point[parameter])) * panel.scale[parameter];
}

template <std::size_t bits>
void dequantize(const CodedPanel& panel, float* values) noexcept {
  for (std::size_t k = 0; k < panel.k; ++k) {
    for (std::size_t column = 0; column < kCodedPanelColumns; ++column) {
      values[k * kCodedPanelColumns + column] = value_at<bits>(panel, k, column);
    }
  }
}

template <std::size_t bits>
void accumulate(const DequantizedProductBlock& block) noexcept {
  for (std::size_t column = 0; column < block.n; ++column) {
    for (std::size_t row = 0; block.begins && row < block.m; ++row) {
      block.sums[row * block.sums_row_stride + column] = 0.0f;
    }
    for (std::size_t k = 0; k < block.b.k; ++k) {
      const float value = value_at<bits>(block.b, k, column);
      for (std::size_t row = 0; row < block.m; ++row) {
        float& sum = block.sums[row * block.sums_row_stride + column];
        sum = __builtin_fmaf(block.a[row * block.a_row_stride + k], value, sum);
      }
    }
  }
}

template <std::size_t bits>
constexpr DequantizedProductFunctions kFunctions = {accumulate<bits>, dequantize<bits>};

}  // namespace

constinit const DequantizedProductKernels scalar::dequantized_product = {.of_4_bits = kFunctions<4>,
                                                                         .of_8_bits = kFunctions<8>};

}  // namespace dmlcpu
