// The normative arithmetic of float_product.h in plain C++.
#include "kernels/float_product/float_product.h"

namespace dmlcpu {
namespace {

void accumulate(const FloatProductRow& row) noexcept {
  for (std::size_t k = 0; k < row.k; ++k) {
    const float* b = row.b + k * row.b_row_stride;
    for (std::size_t column = 0; column < row.n; ++column) {
      row.sums[column] = __builtin_fmaf(row.a[k], b[column], row.sums[column]);
    }
  }
}

}  // namespace

constinit const FloatProductKernels scalar::float_product = {.accumulate = accumulate};

}  // namespace dmlcpu
