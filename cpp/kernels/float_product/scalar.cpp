// The normative arithmetic of float_product.h in plain C++.
#include "kernels/float_product/float_product.h"

namespace dmlcpu {
namespace {

constexpr std::size_t kPanelColumns = 64;

void write_one_panel(const FloatProductBlock& block) noexcept {
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

void accumulate(const FloatProductBlock& block) noexcept {
  if (block.b_panel_stride == 0) return write_one_panel(block);
  FloatProductBlock panel = block;
  for (std::size_t column = 0; column < block.n; column += kPanelColumns) {
    panel.n = block.n - column < kPanelColumns ? block.n - column : kPanelColumns;
    write_one_panel(panel);
    panel.b += block.b_panel_stride;
    panel.sums += kPanelColumns;
    if (panel.bias != nullptr) panel.bias += kPanelColumns;
  }
}

}  // namespace

constinit const FloatProductKernels scalar::float_product = {.accumulate = accumulate, .panel_columns = kPanelColumns};

}  // namespace dmlcpu
