#include "operators/convolution/product/product_estimates.h"

#include <algorithm>

#include "operators/sizes.h"
#include "runtime/aligned_buffer.h"
#include "runtime/cpu_features.h"

namespace dmlcpu {
namespace {

double output_columns(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  return static_cast<double>(round_up(as_size(geometry.group_output_channels()), kernels.nr)) *
         as_number(geometry.groups);
}

}  // namespace

double cycles_of_rows(const GemmKernels& kernels, std::size_t k, std::int64_t columns, std::size_t copied_lines) {
  constexpr double kLineCycles = 3.5;
  constexpr std::int64_t kColumns = 16;
  const double products = kEstimatedRows * kColumns * static_cast<double>(k) / kernels.products_per_cycle;
  return kernels.cycles_of_rows + kEstimatedRows * kLineCycles * static_cast<double>(copied_lines) +
         static_cast<double>(divide_up(columns, kColumns)) * (kernels.cycles_of_area + products);
}

double rows_in_time(const GemmKernels& kernels, std::int64_t m) {
  const auto mr = static_cast<std::int64_t>(kernels.mr);
  return std::max(static_cast<double>(m), static_cast<double>(divide_up(m, mr)) * static_cast<double>(mr) / 2.0);
}

double cycles_of_runs(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::int64_t runs,
                      std::int64_t m, double k) {
  return static_cast<double>(runs) * rows_in_time(kernels, m) * k * output_columns(geometry, kernels) /
         kernels.products_per_cycle;
}

double cycles_of_fetching(const ConvolutionGeometry& geometry, const GemmKernels& kernels, double filter_k, double k) {
  constexpr double kBytesPerCycle = 8.0;  // of a level-3 cache
  const double columns = output_columns(geometry, kernels);
  return filter_k * columns > static_cast<double>(cache_sizes().level_2) / 2.0 ? k * columns / kBytesPerCycle : 0.0;
}

double cycles_of_gathering(double of_stretches, double k) {
  constexpr double kCodesPerCycle = 16.0;
  return of_stretches + k / kCodesPerCycle;
}

double cycles_of_gathering(const ConvolutionGeometry& geometry, double of_stretches, double k) {
  return as_number(geometry.image_pixels()) * as_number(geometry.groups) * cycles_of_gathering(of_stretches, k);
}

}  // namespace dmlcpu
