// FLOAT_POOLING: tensors input, output, FLOAT32, {N, C, H, W}; attributes function (0: average, 1: maximum),
// include_padding and those of a window. Of graphs alone.
//
// The average is the sum of the taps inside the image, row by row, divided by their number, or with include_padding by
// that of all taps. A window wholly in the padding gives 0 / 0 without include_padding; of maxima it is refused.
//
// The channels of one output element are one run (in chunks, where they are many), which the taps are added to.
#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/operator_table.h"
#include "operators/pooling/pooling_geometry.h"
#include "operators/sizes.h"
#include "operators/staging.h"
#include "operators/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

class FloatPooling final : public CompiledOperator {
 public:
  FloatPooling(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        geometry_(pooling_geometry(desc(), desc().tensor(kInput), desc().tensor(kOutput))),
        maximum_(index_attribute(desc(), "function", 2) == 1) {
    if (desc().tensor(kInput).rank != 4) throw std::invalid_argument(desc().type + ": images have 4 dimensions");
    if (maximum_ && has_empty_window()) {
      throw std::invalid_argument(desc().type + ": a window is wholly in the padding");
    }
  }

  std::string describe() const override {
    return std::string("algorithm: ") + (maximum_ ? "maxima" : "averages") +
           " of runs of channels\nkernel: float_functions\ntasks: " + std::to_string(task_count()) + " of " +
           std::to_string(rows_of_task()) + " output rows each";
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto* input = static_cast<const float*>(tensors[kInput]);
    auto* output = static_cast<float*>(tensors[kOutput]);
    parallel_for(as_size(task_count()), target().num_threads, [&](std::size_t task, int) noexcept {
      const std::int64_t begin = static_cast<std::int64_t>(task) * rows_of_task();
      const std::int64_t end = std::min(begin + rows_of_task(), row_count());
      for (std::int64_t row = begin; row < end; ++row) run_row(input, output, row);
    });
  }

 private:
  bool has_empty_window() const {
    return std::ranges::any_of(geometry_.axes, [](const PoolingAxis& axis) {
      for (std::int64_t i = 0; i < axis.output; ++i) {
        if (axis.taps(i).begin == axis.taps(i).end) return true;
      }
      return false;
    });
  }

  // Of depth there is one, as images have two axes.
  std::int64_t row_count() const { return geometry_.batch * geometry_.axes[1].output; }
  std::int64_t rows_of_task() const {
    std::int64_t work =
        geometry_.channels * geometry_.axes[2].output;  // below 2^63, as a tensor has this many elements
    for (const PoolingAxis& axis : geometry_.axes) {
      work = std::min<std::int64_t>(work, kElementsPerTask) * std::min(axis.window, axis.input);
    }
    return std::max<std::int64_t>(kElementsPerTask / work, 1);
  }
  std::int64_t task_count() const { return divide_up(row_count(), rows_of_task()); }

  void run_row(const float* input, float* output, std::int64_t row) const noexcept {
    const auto& [depth, vertical, horizontal] = geometry_.axes;
    const std::int64_t image = row / vertical.output, y = row % vertical.output;
    input += image * geometry_.input_image_step;
    output += image * geometry_.output_image_step + y * vertical.output_step;
    const IndexRange rows = vertical.taps(y);
    for (std::int64_t x = 0; x < horizontal.output; ++x) {
      const IndexRange columns = horizontal.taps(x);
      const std::int64_t first = vertical.position(y, rows.begin) * vertical.input_step +
                                 horizontal.position(x, columns.begin) * horizontal.input_step;
      for (std::int64_t channel = 0; channel < geometry_.channels; channel += kChunk) {
        const auto count =
            as_size(std::min<std::int64_t>(geometry_.channels - channel, static_cast<std::int64_t>(kChunk)));
        pool(input, first + channel * geometry_.input_channel_step,
             {rows.end - rows.begin, columns.end - columns.begin},
             output + x * horizontal.output_step + channel * geometry_.output_channel_step, count);
      }
    }
  }

  // Of count channels, the taps of rows and columns, if there are any, from element first on.
  void pool(const float* input, std::int64_t first, std::array<std::int64_t, 2> taps, float* output,
            std::size_t count) const noexcept {
    const PackKernels& pack = *target().kernels().pack;
    const auto& functions = target().kernels().float_functions->binary;
    const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
    ChunkBuffer results, staged;
    auto* result = reinterpret_cast<float*>(results.bytes);
    std::fill_n(result, count, maximum_ ? -std::numeric_limits<float>::infinity() : 0.0F);
    const auto combine = [&](FloatBinary function, const float* other, bool repeats) {
      functions[static_cast<std::size_t>(function)](
          {.a = result, .b = other, .a_repeats = false, .b_repeats = repeats, .output = result, .count = count});
    };
    for (std::int64_t i = 0; i < taps[0]; ++i) {
      for (std::int64_t j = 0; j < taps[1]; ++j) {
        const float* tap = input + first + i * vertical.dilation * vertical.input_step +
                           j * horizontal.dilation * horizontal.input_step;
        const void* run = gather(tap, DataType::float32, {1, count, 0, geometry_.input_channel_step}, pack, staged);
        combine(maximum_ ? FloatBinary::maximum : FloatBinary::add, static_cast<const float*>(run), false);
      }
    }
    const float divisor = geometry_.divisor(taps[0] * taps[1]);
    if (!maximum_) combine(FloatBinary::divide, &divisor, true);
    scatter(results, DataType::float32, output, {1, count, 0, geometry_.output_channel_step}, pack);
  }

  static constexpr std::int64_t kElementsPerTask = StridedRuns::kElementsPerTask;

  PoolingGeometry geometry_;
  bool maximum_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_float_pooling(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<FloatPooling>(std::move(desc), target);
}

}  // namespace dmlcpu
