// The normative product of gemm.h: plain C++, one accumulator at a time, sums modulo 2^32.
#include "kernels/gemm/gemm.h"

namespace dmlcpu {
namespace {

constexpr std::size_t kMr = 1, kNr = 16, kKr = 4;

void add_segment(const std::uint8_t* a, const std::uint8_t* b, std::size_t count, std::uint32_t* sums) noexcept {
  for (std::size_t k = 0; k < count; ++k) {
    const int a_value = static_cast<std::uint8_t>(a[k]);
    const std::uint8_t* group = b + k / 4 * 4 * kNr + k % 4;
    for (std::size_t column = 0; column < kNr; ++column) {
      sums[column] += static_cast<std::uint32_t>(a_value * static_cast<std::int8_t>(group[column * 4]));
    }
  }
}

void multiply(const GemmBlock& block) noexcept {
  for (std::size_t panel = 0; panel < block.n; panel += kNr) {
    const std::uint8_t* b = block.b + block.segments * block.k * panel;
    for (std::size_t row = 0; row < block.m; ++row) {
      std::uint32_t sums[kNr] = {};
      for (std::size_t segment = 0; segment < block.segments; ++segment) {
        add_segment(block.a + row * block.a_row_stride + block.a_offsets[segment], b + segment * block.k * kNr, block.k,
                    sums);
      }
      std::int32_t* c = block.c + row * block.c_row_stride + panel;
      for (std::size_t column = 0; column < kNr; ++column) c[column] = static_cast<std::int32_t>(sums[column]);
    }
  }
}

}  // namespace

constinit const GemmKernels scalar::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 1, .multiply = multiply};

}  // namespace dmlcpu
