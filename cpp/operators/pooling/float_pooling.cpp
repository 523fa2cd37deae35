// FLOAT_POOLING: tensors input, output, FLOAT32, {N, C, H, W}; attributes function (0: average, 1: maximum),
// include_padding and those of a window. Of graphs alone.
//
// The average is the sum of the taps inside the image, row by row, divided by their number, or with include_padding by
// that of all taps. A window wholly in the padding gives 0 / 0 without include_padding; of maxima it is refused.
//
// Blocks of output elements, columns of a row with their channels, are pooled together: each element sees its own taps
// in their order, whatever the block. Where the block's elements are neighbours in the input, that is a run of windows;
// elsewhere each tap of a block is gathered.
#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"
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
        maximum_(index_attribute(desc(), "function", 2) == 1),
        block_(largest_block()),
        runs_(is_run(block_)) {
    if (desc().tensor(kInput).rank != 4) throw std::invalid_argument(desc().type + ": images have 4 dimensions");
    if (maximum_ && has_empty_window()) {
      throw std::invalid_argument(desc().type + ": a window is wholly in the padding");
    }
  }

  std::string describe() const override {
    return std::string("algorithm: ") + (maximum_ ? "maxima" : "averages") + " of runs of " +
           counted(block_.columns, "column") + " of " + counted(block_.channels, "channel") +
           "\nkernel: " + kernel_words(target(), runs_ ? "float_pool" : "float_functions") +
           "\ntasks: " + std::to_string(task_count()) + " of " + std::to_string(rows_of_task()) + " output rows each";
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

  // Columns and channels that make one run.
  struct Block {
    std::int64_t columns, channels;
  };

  // Whether the elements of a block are neighbours in the input. Columns at a stride may be, where they overlap: but
  // what is beside the row then is the neighbours of some, and the kernel would take it for padding.
  bool is_run(const Block& block) const {
    const PoolingAxis& axis = geometry_.axes[2];
    return (block.columns == 1 || (axis.stride == 1 && axis.input_step == block.channels)) &&
           (block.channels == 1 || geometry_.input_channel_step == 1);
  }

  // As many as a chunk holds, and better a run: columns of one channel where channels lie apart, else whole pixels, one
  // by one where they have gaps and are not too small to be a run each.
  Block largest_block() const {
    constexpr std::int64_t kMost = kChunk, kRun = 16, kStagedRun = 128, kPixel = 8;
    const std::int64_t columns = geometry_.axes[2].output, channels = geometry_.channels;
    const Block of_channel = {std::min(columns, kMost), 1}, pixel = {1, std::min(channels, kMost)};
    if (geometry_.input_channel_step != 1 && columns >= std::min(channels, is_run(of_channel) ? kRun : kStagedRun)) {
      return of_channel;
    }
    if (channels >= kMost) return pixel;
    const Block pixels = {std::min(columns, kMost / channels), channels};
    return is_run(pixels) || channels < kPixel ? pixels : pixel;
  }

  void run_row(const float* input, float* output, std::int64_t row) const noexcept {
    const auto& [depth, vertical, horizontal] = geometry_.axes;
    const std::int64_t image = row / vertical.output, y = row % vertical.output;
    const IndexRange rows = vertical.taps(y);
    input += image * geometry_.input_image_step + vertical.position(y, rows.begin) * vertical.input_step;
    output += image * geometry_.output_image_step + y * vertical.output_step;
    for (std::int64_t x = 0; x < horizontal.output; x += block_.columns) {
      const IndexRange columns = {x, std::min(x + block_.columns, horizontal.output)};
      for (std::int64_t channel = 0; channel < geometry_.channels; channel += block_.channels) {
        pool(input + channel * geometry_.input_channel_step, rows.end - rows.begin, columns,
             output + x * horizontal.output_step + channel * geometry_.output_channel_step,
             as_size(std::min(geometry_.channels - channel, block_.channels)));
      }
    }
  }

  // The output columns of some channels; input is column 0 of the first of so many rows.
  void pool(const float* input, std::int64_t rows, IndexRange columns, float* output,
            std::size_t channels) const noexcept {
    const PoolingAxis& axis = geometry_.axes[2];
    const Rows target_rows = {as_size(columns.end - columns.begin), channels, axis.output_step,
                              geometry_.output_channel_step};
    // The last column's first tap is the first of all inside, the first column's last one the last.
    const IndexRange taps = {axis.taps(columns.end - 1).begin, axis.taps(columns.begin).end};
    ChunkBuffer buffer;
    auto* results = target_rows.contiguous() ? output : reinterpret_cast<float*>(buffer.bytes);
    runs_ ? pool_run(input, rows, columns, taps, results, channels)
          : pool_staged(input, rows, columns, taps, results, channels);
    if (!maximum_) divide(results, rows, columns, channels);
    if (!target_rows.contiguous()) {
      scatter(buffer, DataType::float32, output, target_rows, *target().kernels().pack);
    }
  }

  void pool_run(const float* input, std::int64_t rows, IndexRange columns, IndexRange taps, float* results,
                std::size_t channels) const noexcept {
    const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
    const FloatPoolKernels& kernels = *target().kernels().float_pool;
    (maximum_ ? kernels.maxima : kernels.sums)(
        {.input = input,
         .rows = as_size(rows),
         .row_step = vertical.dilation * vertical.input_step,
         .length = (horizontal.input - 1) * horizontal.input_step + static_cast<std::int64_t>(channels),
         .first = horizontal.position(columns.begin, taps.begin) * horizontal.input_step,
         .taps = as_size(taps.end - taps.begin),
         .tap_step = horizontal.dilation * horizontal.input_step,
         .count = as_size(columns.end - columns.begin) * channels,
         .output = results});
  }

  // Each tap of all columns is gathered.
  void pool_staged(const float* input, std::int64_t rows, IndexRange columns, IndexRange taps, float* results,
                   std::size_t channels) const noexcept {
    const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
    const FloatBinaryFunction combine = function(maximum_ ? FloatBinary::maximum : FloatBinary::add);
    std::fill_n(results, as_size(columns.end - columns.begin) * channels,
                maximum_ ? -std::numeric_limits<float>::infinity() : 0.0F);
    ChunkBuffer staged;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = taps.begin; j < taps.end; ++j) {
        const IndexRange reached = inside(columns, j);
        if (reached.begin == reached.end) continue;
        const float* tap = input + i * vertical.dilation * vertical.input_step +
                           horizontal.position(reached.begin, j) * horizontal.input_step;
        const Rows tap_rows = {as_size(reached.end - reached.begin), channels,
                               horizontal.stride * horizontal.input_step, geometry_.input_channel_step};
        const void* values = gather(tap, DataType::float32, tap_rows, *target().kernels().pack, staged);
        float* reached_results = results + as_size(reached.begin - columns.begin) * channels;
        combine({.a = reached_results,
                 .b = static_cast<const float*>(values),
                 .a_repeats = false,
                 .b_repeats = false,
                 .output = reached_results,
                 .count = tap_rows.rows * channels});
      }
    }
  }

  FloatBinaryFunction function(FloatBinary binary) const noexcept {
    return target().kernels().float_functions->binary[static_cast<std::size_t>(binary)];
  }

  // The columns whose tap is inside of the image.
  IndexRange inside(IndexRange columns, std::int64_t tap) const noexcept {
    const PoolingAxis& axis = geometry_.axes[2];
    const std::int64_t first = axis.position(columns.begin, tap), last = axis.position(columns.end - 1, tap);
    if (first >= 0 && last < axis.input) return columns;
    const IndexRange found = indices_inside(first, axis.stride, axis.input, columns.end - columns.begin);
    return {columns.begin + found.begin, columns.begin + found.end};
  }

  // Sums by the numbers of their taps, of which there are so many rows.
  void divide(float* sums, std::int64_t rows, IndexRange columns, std::size_t channels) const noexcept {
    const PoolingAxis& axis = geometry_.axes[2];
    const IndexRange whole = axis.whole_windows();
    const auto begin = std::clamp(whole.begin, columns.begin, columns.end);
    const auto end = std::clamp(whole.end, begin, columns.end);
    const std::size_t count = as_size(columns.end - columns.begin) * channels;
    const bool repeats = geometry_.include_padding || end - begin == columns.end - columns.begin;
    ChunkBuffer buffer;
    auto* divisors = reinterpret_cast<float*>(buffer.bytes);
    std::fill_n(divisors, repeats ? 1 : count, geometry_.divisor(rows * axis.window));
    const auto fill_cut = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t x = from; x < to; ++x) {
        const IndexRange taps = axis.taps(x);
        std::fill_n(divisors + as_size(x - columns.begin) * channels, channels,
                    geometry_.divisor(rows * (taps.end - taps.begin)));
      }
    };
    if (!repeats) fill_cut(columns.begin, begin);
    if (!repeats) fill_cut(end, columns.end);
    function(FloatBinary::divide)(
        {.a = sums, .b = divisors, .a_repeats = false, .b_repeats = repeats, .output = sums, .count = count});
  }

  static constexpr std::int64_t kElementsPerTask = StridedRuns::kElementsPerTask;

  PoolingGeometry geometry_;
  bool maximum_;
  Block block_;
  bool runs_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_float_pooling(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<FloatPooling>(std::move(desc), target);
}

}  // namespace dmlcpu
