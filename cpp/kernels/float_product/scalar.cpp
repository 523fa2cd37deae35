// The normative arithmetic of float_product.h in plain C++.
#include "kernels/float_product/float_product.h"

namespace dmlcpu {
namespace {

void accumulate(const FloatProductBlock& block) noexcept {
  for (std::size_t row = 0; row < block.m; ++row) {
    float* sums = block.sums + row * block.sums_row_stride;
    for (std::size_t column = 0; block.begins && column < block.n; ++column) {
      sums[column] = block.bias == nullptr ? 0.0f : block.bias[column];
    }
    for (std::size_t k = 0; k < block.runs * block.k; ++k) {
      const float* run = block.a + row * block.a_row_stride + k / block.k * block.a_run_stride;
      const float a = run[k % block.k], *b = block.b + k * block.b_row_stride;
      for (std::size_t column = 0; column < block.n; ++column) {
        sums[column] = __builtin_fmaf(a, b[column], sums[column]);
      }
    }
  }
}

}  // namespace

constinit const FloatProductKernels scalar::float_product = {.accumulate = accumulate};

}  // namespace dmlcpu
