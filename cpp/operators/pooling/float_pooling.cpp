// FLOAT_POOLING: tensors input, output, FLOAT32, {N, C, H, W}; attributes function (0: average, 1: maximum,
// 2: minimum, 3: sum), include_padding and those of a window. Of graphs alone.
//
// The average is the sum of the taps inside the image divided by their number, or with include_padding by that of all
// taps. Sums of up to 2^10 taps are added one by one, row by row; larger windows are halved, rows first, the first half
// being the smaller one, and the sums of their halves added. So each tap goes through fewer than 2^10 + 54 additions,
// as a window has at most 2^64 taps, and sums of any number of them are within 2^-13.9 of the sum of absolute values. A
// window wholly in the padding gives 0 / 0 without include_padding; of extremes it is refused. A sum is an average
// whose divisor is 1.
//
// Blocks of output elements, columns of a row with their channels, are pooled together: each element sees its own taps
// in their order, whatever the block. Where the block's elements are neighbours in the input, that is a run of windows;
// elsewhere each tap of a block is gathered (pooled_windows.h). Rows of planes are pooled in bands (float_bands.h),
// whole planes each by itself, as averages that are as many as the elements are (plane_averages.h), or, if they are
// small, transposed (plane_windows.h, pixel_pooling.h).
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "operators/attributes.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/pooling/float_bands.h"
#include "operators/pooling/pixel_pooling.h"
#include "operators/pooling/plane_averages.h"
#include "operators/pooling/plane_windows.h"
#include "operators/pooling/pooled_windows.h"
#include "operators/pooling/pooling_geometry.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "operators/task_size.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

FloatPool function_of(const OperatorDesc& desc) { return static_cast<FloatPool>(index_attribute(desc, "function", 4)); }

// Columns that are neighbours in memory become rows, where windows have a tap in one of both directions alone, so that
// the order of their taps stays.
void lay_rows_along_memory(PoolingGeometry& geometry) {
  PoolingAxis &vertical = geometry.axes[1], &horizontal = geometry.axes[2];
  const bool is_turned = vertical.input_step == 1 && vertical.input > 1 && horizontal.input_step > 1;
  if (is_turned && std::min(vertical.window, horizontal.window) == 1) std::swap(vertical, horizontal);
}

// Rows that have a window each become planes, where all of them are equally far apart: planes are pooled together, rows
// of a few columns one by one.
void lay_rows_as_planes(PoolingGeometry& geometry) {
  PoolingAxis &vertical = geometry.axes[1], &horizontal = geometry.axes[2];
  const bool are_separate = vertical.window == 1 && vertical.stride == 1 && vertical.output == vertical.input &&
                            horizontal.output == 1 && horizontal.input_step == 1;
  const bool adjoin =
      geometry.channels == 1 || (geometry.input_channel_step == vertical.input * vertical.input_step &&
                                 geometry.output_channel_step == vertical.output * vertical.output_step);
  if (!are_separate || !adjoin || vertical.output == 1) return;
  geometry.channels *= vertical.output;
  geometry.input_channel_step = vertical.input_step;
  geometry.output_channel_step = vertical.output_step;
  vertical.input = vertical.output = 1;
}

PoolingGeometry plain_geometry(const OperatorDesc& desc) {
  if (desc.tensor(kInput).rank != 4) throw std::invalid_argument(desc.type + ": images have 4 dimensions");
  PoolingGeometry geometry = pooling_geometry(desc, desc.tensor(kInput), desc.tensor(kOutput));
  if (!adds(function_of(desc)) && geometry.has_empty_window()) {
    throw std::invalid_argument(desc.type + ": a window is wholly in the padding");
  }
  if (function_of(desc) == FloatPool::sums) {
    geometry.include_padding = true;
    geometry.divides = false;
  }
  lay_rows_along_memory(geometry);
  lay_rows_as_planes(geometry);
  return geometry;
}

class FloatPooling final : public CompiledOperator {
 public:
  FloatPooling(OperatorDesc&& operator_desc, ExecutionTarget execution_target, const PoolingGeometry& geometry)
      : CompiledOperator(std::move(operator_desc), execution_target),
        function_(function_of(desc())),
        geometry_(with_joined_planes(geometry, function_, target())),
        halves_(averages() && PooledWindows::are_halved(geometry_)),
        transposes_(are_short_planes(geometry_)),
        folds_(!averages() && !transposes_ && are_long_rows(geometry_)),
        plane_averages_(averages() && PlaneAverages::applies(geometry_, target())
                            ? std::optional(PlaneAverages(geometry_, target()))
                            : std::nullopt),
        bands_(geometry_, function_, target()),
        block_(by_planes() ? Block{1, 1} : largest_block()),
        runs_(is_run(block_)),
        windows_(geometry_, function_, target(), layout()),
        band_rows_(pools_bands() ? bands_.rows() : 1) {}

  std::string describe() const override {
    const std::string blocks =
        by_planes()   ? "whole planes, one by one"
        : transposes_ ? "whole planes, " + std::to_string(block_.channels) + " at a time, transposed"
                      : "runs of " + counted(block_.columns, "column") + " of " + counted(block_.channels, "channel");
    const bool joins = geometry_.channels < desc().tensor(kInput).sizes[1];
    const bool splits = geometry_.channels > desc().tensor(kInput).sizes[1];
    return std::string("algorithm: ") + pool_words(function_) + " of " + blocks +
           (band_rows_ > 1 ? ", in bands of " + std::to_string(band_rows_) + " rows" : "") +
           (joins    ? ", of all planes as one"
            : splits ? ", of rows as planes"
                     : "") +
           "\nkernel: " + kernel_words(target(), folds_ || transposes_ || runs_ ? "float_pool" : "float_functions") +
           "\ntasks: " + std::to_string(task_count()) + " of " + std::to_string(rows_of_task()) + " output rows each";
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto* input = static_cast<const float*>(tensors[kInput]);
    auto* output = static_cast<float*>(tensors[kOutput]);
    parallel_for(as_size(task_count()), target().num_threads, [&](std::size_t task, int) noexcept {
      const std::int64_t begin = static_cast<std::int64_t>(task) * rows_of_task();
      const std::int64_t end = std::min(begin + rows_of_task(), row_count());
      for (std::int64_t row = begin, rows = 1; row < end; row += rows) {
        rows = std::min({band_rows_, end - row, geometry_.axes[1].output - row % geometry_.axes[1].output});
        if (by_planes()) {
          rows = geometry_.axes[1].output;
          pool_plane(input, output, row / rows);
        } else {
          band_rows_ > 1 ? run_band(input, output, row, rows) : run_row(input, output, row);
        }
      }
    });
  }

 private:
  PooledWindows::Layout layout() const {
    if (transposes_) return PooledWindows::Layout::transposed;
    return runs_ ? PooledWindows::Layout::runs : PooledWindows::Layout::gathered;
  }
  std::int64_t plane_taps() const { return geometry_.axes[1].window * geometry_.axes[2].window; }
  // Whether planes are pooled one by one.
  bool by_planes() const { return folds_ || plane_averages_; }
  bool averages() const { return adds(function_); }
  // Planes are pooled one after the other, as few rows of each would leave a level-1 cache until the next ones are
  // read: unless their elements are neighbours in the output, and more than one each.
  std::int64_t planes() const {
    return by_planes() || (block_.channels == 1 && geometry_.output_channel_step != 1) ? geometry_.channels : 1;
  }
  bool pools_bands() const {
    return runs_ && !halves_ && !plane_averages_ && block_.channels == 1 &&
           block_.columns == geometry_.axes[2].output && (planes() > 1 || geometry_.channels == 1);
  }
  // Of depth there is one, as images have two axes.
  std::int64_t row_count() const { return geometry_.batch * planes() * geometry_.axes[1].output; }
  std::int64_t rows_of_task() const {
    std::int64_t work =
        geometry_.channels / planes() * geometry_.axes[2].output;  // below 2^63, as a tensor has this many elements
    for (const PoolingAxis& axis : geometry_.axes) {
      work = std::min<std::int64_t>(work, kMostElementsOfTask) * std::min(axis.window, axis.input);
    }
    const std::int64_t rows =
        static_cast<std::int64_t>(dmlcpu::rows_of_task(as_number(row_count()), as_number(work), target().num_threads));
    const std::int64_t whole = geometry_.axes[1].output;
    return plane_averages_ ? divide_up(rows, whole) * whole : rows;
  }
  std::int64_t task_count() const { return divide_up(row_count(), rows_of_task()); }

  // Columns and channels that make one run.
  struct Block {
    std::int64_t columns, channels;
  };

  // Whether the elements of a block are neighbours in the input, or two apart. Columns of pixels at a stride may be,
  // where they overlap: but what is beside the row then is the neighbours of some, and the kernel would take it for
  // padding.
  bool is_run(const Block& block) const {
    constexpr std::int64_t kLongSkipping = 24;  // columns of which by themselves few are in vectors of edges
    const PoolingAxis& axis = geometry_.axes[2];
    const bool every_second =
        axis.stride == 2 && block.channels == 1 && (axis.output >= kLongSkipping || bands_.rows() > 1);
    return (block.columns == 1 || ((axis.stride == 1 || every_second) && axis.input_step == block.channels)) &&
           (block.channels == 1 || geometry_.input_channel_step == 1);
  }

  // As many as a chunk holds, and better a run: columns of one channel where channels lie apart, else whole pixels, one
  // by one where they have gaps and are not too small to be a run each.
  Block largest_block() const {
    constexpr std::int64_t kRun = 8, kStagedRun = 128, kPixel = 8, kLanes = 16;
    const std::int64_t most = halves_ ? PooledWindows::kMostHalved : static_cast<std::int64_t>(kChunk);
    if (transposes_) return {1, std::min(geometry_.channels, most / plane_taps() / kLanes * kLanes)};
    const std::int64_t columns = geometry_.axes[2].output, channels = geometry_.channels;
    const Block of_channel = {std::min(columns, most), 1}, pixel = {1, std::min(channels, most)};
    if (geometry_.input_channel_step != 1 && columns >= std::min(channels, is_run(of_channel) ? kRun : kStagedRun)) {
      return of_channel;
    }
    if (channels >= most) return pixel;
    const Block pixels = {std::min(columns, most / channels), channels};
    return is_run(pixels) || channels < kPixel ? pixels : pixel;
  }

  void run_band(const float* input, float* output, std::int64_t row, std::int64_t rows) const noexcept {
    const std::int64_t plane = row / geometry_.axes[1].output, y = row % geometry_.axes[1].output;
    const std::int64_t image = plane / planes(), channel = plane % planes();
    bands_.run(input + image * geometry_.input_image_step + channel * geometry_.input_channel_step,
               output + image * geometry_.output_image_step + channel * geometry_.output_channel_step, y, rows);
  }

  void pool_plane(const float* input, float* output, std::int64_t plane) const noexcept {
    const std::int64_t image = plane / geometry_.channels, channel = plane % geometry_.channels;
    input += image * geometry_.input_image_step + channel * geometry_.input_channel_step;
    output += image * geometry_.output_image_step + channel * geometry_.output_channel_step;
    if (plane_averages_) return plane_averages_->run(input, output);
    *output = extreme_of_plane(geometry_, function_, target(), input);
  }

  void run_row(const float* input, float* output, std::int64_t row) const noexcept {
    const auto& [depth, vertical, horizontal] = geometry_.axes;
    const std::int64_t plane = row / vertical.output, y = row % vertical.output;
    const std::int64_t image = plane / planes(), first = plane % planes();
    const std::int64_t end = planes() == 1 ? geometry_.channels : first + 1;
    input += image * geometry_.input_image_step;
    output += image * geometry_.output_image_step + y * vertical.output_step;
    for (std::int64_t x = 0; x < horizontal.output; x += block_.columns) {
      const IndexRange columns = {x, std::min(x + block_.columns, horizontal.output)};
      // The last column's first tap is the first of all inside, the first column's last one the last.
      const PooledWindows::Taps taps = {vertical.taps(y),
                                        {horizontal.taps(columns.end - 1).begin, horizontal.taps(columns.begin).end}};
      for (std::int64_t channel = first; channel < end; channel += block_.channels) {
        windows_.pool({.input = input + channel * geometry_.input_channel_step,
                       .y = y,
                       .columns = columns,
                       .channels = as_size(std::min(end - channel, block_.channels)),
                       .inside = taps},
                      output + x * horizontal.output_step + channel * geometry_.output_channel_step);
      }
    }
  }

  FloatPool function_;
  PoolingGeometry geometry_;
  bool halves_, transposes_, folds_;
  std::optional<PlaneAverages> plane_averages_;
  FloatBands bands_;
  Block block_;
  bool runs_;
  PooledWindows windows_;
  std::int64_t band_rows_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_float_pooling(OperatorDesc desc, ExecutionTarget target) {
  const PoolingGeometry geometry = plain_geometry(desc);
  const FloatPool function = function_of(desc);
  if (are_pixels(geometry, function, target)) return compile_pixel_pooling(std::move(desc), target, geometry, function);
  return std::make_unique<FloatPooling>(std::move(desc), target, geometry);
}

}  // namespace dmlcpu
