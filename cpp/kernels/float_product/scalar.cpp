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
    const float* b = block.b;
    for (std::size_t run = 0; run < block.runs; ++run) {
      const float* a = block.a + row * block.a_row_stride + run * block.a_run_stride;
      for (std::size_t k = 0; k < block.k; ++k, b += block.b_row_stride) {
        for (std::size_t column = 0; column < block.n; ++column) {
          sums[column] = __builtin_fmaf(a[k], b[column], sums[column]);
        }
      }
    }
  }
}

}  // namespace

constinit const FloatProductKernels scalar::float_product = {.accumulate = accumulate, .panel_columns = 64};

}  // namespace dmlcpu
