// block_product.h in plain C++.
#include <cstring>

#include "kernels/block_product/block_product.h"
#include "kernels/dequantized_product/dequantized_product.h"

namespace dmlcpu {
namespace {

#include "kernels/lanes/scalar.inl.h"
#include "kernels/lanes/steps_of_sixteen.inl.h"

inline void store_codes(Floats whole, std::int8_t* codes) noexcept { *codes = static_cast<std::int8_t>(whole); }

#include "kernels/block_product/quantize.inl.h"

// Of a row and a column, in one block.
template <std::size_t bits>
std::int32_t dot(const BlockProduct& product, const std::int8_t* a, std::size_t block, std::size_t column) noexcept {
  constexpr std::size_t kCodes = 32 / bits;
  const std::uint32_t* words = product.words + block * (product.block / kCodes) * kCodedPanelColumns + column;
  const std::int32_t zero_point = product.zero_point[block * kCodedPanelColumns + column];
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < product.block; ++i) {
    const std::uint32_t word = words[i / kCodes * kCodedPanelColumns];
    const auto code = static_cast<std::int32_t>(word >> code_shift(bits, i % kCodes) & ((1U << bits) - 1));
    sum += a[i] * (code - zero_point);
  }
  return sum;
}

template <std::size_t bits>
void multiply(const BlockProduct& product) noexcept {
  for (std::size_t row = 0; row < product.m; ++row) {
    for (std::size_t column = 0; column < product.n; ++column) {
      float sum = 0.0f;
      for (std::size_t block = 0; block < product.blocks; ++block) {
        const std::size_t of_a = row * product.blocks + block;
        const float scale = product.a_scale[of_a] * product.scale[block * kCodedPanelColumns + column];
        const std::int32_t of_block = dot<bits>(product, product.a + of_a * product.block, block, column);
        sum = fused(static_cast<float>(of_block), scale, sum);
      }
      product.sums[row * product.sums_row_stride + column] = sum;
    }
  }
}

}  // namespace

constinit const BlockProductKernels scalar::block_product = {
    .quantize = quantize, .multiply_4_bits = multiply<4>, .multiply_8_bits = multiply<8>};

}  // namespace dmlcpu
