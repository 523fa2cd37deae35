// The normative arithmetic of resample.h in plain C++.
#include <cstring>

#include "kernels/resample/resample.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"
#include "kernels/lanes/scalar.inl.h"
// after the lanes
#include "kernels/resample/columns.inl.h"

void resample_rows(const ResampleRows& run) noexcept {
  for (std::size_t i = 0; i < run.count; ++i) {
    const float value = between(run.top[i], run.bottom[i], run.weight) * run.input_scale;
    run.output[i] = to_code(value / run.output_scale, run.output_zero_point, run.output_flip);
  }
}

}  // namespace

constinit const ResampleKernels scalar::resample = {.columns = resample_columns, .rows = resample_rows};

}  // namespace dmlcpu
