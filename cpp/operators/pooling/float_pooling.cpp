// FLOAT_POOLING: tensors input, output, FLOAT32, {N, C, H, W}; attributes function (0: average, 1: maximum,
// 2: minimum), include_padding and those of a window. Of graphs alone.
//
// The average is the sum of the taps inside the image divided by their number, or with include_padding by that of all
// taps. Sums of up to 2^10 taps are added one by one, row by row; larger windows are halved, rows first, the first half
// being the smaller one, and the sums of their halves added. So each tap goes through fewer than 2^10 + 54 additions,
// as a window has at most 2^64 taps, and sums of any number of them are within 2^-13.9 of the sum of absolute values. A
// window wholly in the padding gives 0 / 0 without include_padding; of extremes it is refused.
//
// Blocks of output elements, columns of a row with their channels, are pooled together: each element sees its own taps
// in their order, whatever the block. Where the block's elements are neighbours in the input, that is a run of windows;
// elsewhere each tap of a block is gathered. Rows of planes are pooled in bands (float_bands.h), whole planes each by
// itself, as averages that are as many as the elements are (plane_averages.h), or, if they are small, transposed
// (plane_windows.h, pixel_pooling.h).
#include <algorithm>
#include <optional>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/pooling/float_bands.h"
#include "operators/pooling/pixel_pooling.h"
#include "operators/pooling/plane_averages.h"
#include "operators/pooling/plane_windows.h"
#include "operators/pooling/pooling_geometry.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "operators/strides/transposed_elements.h"
#include "operators/task_size.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

FloatPool function_of(const OperatorDesc& desc) { return static_cast<FloatPool>(index_attribute(desc, "function", 3)); }

PoolingGeometry plain_geometry(const OperatorDesc& desc) {
  if (desc.tensor(kInput).rank != 4) throw std::invalid_argument(desc.type + ": images have 4 dimensions");
  const PoolingGeometry geometry = pooling_geometry(desc, desc.tensor(kInput), desc.tensor(kOutput));
  if (function_of(desc) != FloatPool::averages && geometry.has_empty_window()) {
    throw std::invalid_argument(desc.type + ": a window is wholly in the padding");
  }
  return geometry;
}

class FloatPooling final : public CompiledOperator {
 public:
  FloatPooling(OperatorDesc operator_desc, ExecutionTarget execution_target, const PoolingGeometry& geometry)
      : CompiledOperator(std::move(operator_desc), execution_target),
        function_(function_of(desc())),
        geometry_(with_joined_planes(geometry, function_, target())),
        halves_(averages() && is_halved({{0, geometry_.axes[1].window}, {0, geometry_.axes[2].window}})),
        folds_(!averages() && are_long_rows(geometry_)),
        transposes_(!folds_ && are_short_planes(geometry_)),
        plane_averages_(averages() && PlaneAverages::applies(geometry_, target())
                            ? std::optional(PlaneAverages(geometry_, target()))
                            : std::nullopt),
        bands_(geometry_, function_, target()),
        block_(by_planes() ? Block{1, 1} : largest_block()),
        runs_(is_run(block_)),
        whole_columns_(geometry_.axes[2].whole_windows()),
        band_rows_(pools_bands() ? bands_.rows() : 1) {}

  std::string describe() const override {
    const std::string blocks =
        by_planes()   ? "whole planes, one by one"
        : transposes_ ? "whole planes, " + std::to_string(block_.channels) + " at a time, transposed"
                      : "runs of " + counted(block_.columns, "column") + " of " + counted(block_.channels, "channel");
    const bool joins = geometry_.channels == 1 && desc().tensor(kInput).sizes[1] != 1;
    return std::string("algorithm: ") + pool_words(function_) + " of " + blocks +
           (band_rows_ > 1 ? ", in bands of " + std::to_string(band_rows_) + " rows" : "") +
           (joins ? ", of all planes as one" : "") +
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
  std::int64_t plane_taps() const { return geometry_.axes[1].window * geometry_.axes[2].window; }
  // Whether planes are pooled one by one.
  bool by_planes() const { return folds_ || plane_averages_; }
  bool averages() const { return function_ == FloatPool::averages; }
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
    const std::int64_t most = halves_ ? kMostHalved : static_cast<std::int64_t>(kChunk);
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

  // Taps of a window, the padding's among them.
  struct Taps {
    IndexRange rows, columns;
  };

  // Windows of one row of the output that are pooled together.
  struct Windows {
    const float* input;  // row 0 and column 0 of the first channel
    std::int64_t y;
    IndexRange columns;
    std::size_t channels;
    Taps inside;  // those that some window has inside of the image

    std::size_t count() const { return as_size(columns.count()) * channels; }
    Taps inside_of(const Taps& taps) const {
      return {common(taps.rows, inside.rows), common(taps.columns, inside.columns)};
    }
  };

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
      const Taps taps = {vertical.taps(y),
                         {horizontal.taps(columns.end - 1).begin, horizontal.taps(columns.begin).end}};
      for (std::int64_t channel = first; channel < end; channel += block_.channels) {
        pool({.input = input + channel * geometry_.input_channel_step,
              .y = y,
              .columns = columns,
              .channels = as_size(std::min(end - channel, block_.channels)),
              .inside = taps},
             output + x * horizontal.output_step + channel * geometry_.output_channel_step);
      }
    }
  }

  void pool(const Windows& windows, float* output) const noexcept {
    const auto& [depth, vertical, horizontal] = geometry_.axes;
    const Rows target_rows = {as_size(windows.columns.count()), windows.channels, horizontal.output_step,
                              geometry_.output_channel_step};
    ChunkBuffer buffer;
    auto* results = target_rows.contiguous() ? output : reinterpret_cast<float*>(buffer.bytes);
    halves_ ? add_halves(windows, {{0, vertical.window}, {0, horizontal.window}}, results)
            : pool_taps(windows, windows.inside, results);
    if (averages()) divide(results, windows);
    if (!target_rows.contiguous()) {
      scatter(buffer, DataType::float32, output, target_rows, *target().kernels().pack);
    }
  }

  // Elements of a block, of which each of up to 54 halvings within each other keeps the sums of a half.
  static constexpr std::int64_t kMostHalved = 64;

  // Halves without a tap in the image are left out: they would add 0 to sums that are never -0.
  void add_halves(const Windows& windows, const Taps& taps, float* sums) const noexcept {
    if (!is_halved(taps)) return pool_taps(windows, windows.inside_of(taps), sums);
    Taps first = taps, second = taps;
    IndexRange Taps::* const axis = taps.rows.count() > 1 ? &Taps::rows : &Taps::columns;
    const IndexRange whole = taps.*axis;
    (first.*axis).end = (second.*axis).begin = whole.begin + whole.count() / 2;
    if (is_empty(windows.inside_of(second))) return add_halves(windows, first, sums);
    if (is_empty(windows.inside_of(first))) return add_halves(windows, second, sums);
    add_halves(windows, first, sums);
    float others[kMostHalved];
    add_halves(windows, second, others);
    function(FloatBinary::add)(
        {.a = sums, .b = others, .a_repeats = false, .b_repeats = false, .output = sums, .count = windows.count()});
  }

  static bool is_halved(const Taps& taps) {
    constexpr std::int64_t kMostTaps = 1 << 10;
    return taps.rows.count() > kMostTaps / taps.columns.count();
  }
  static bool is_empty(const Taps& taps) {
    return taps.rows.begin >= taps.rows.end || taps.columns.begin >= taps.columns.end;
  }
  static IndexRange common(const IndexRange& a, const IndexRange& b) {
    const std::int64_t begin = std::max(a.begin, b.begin);
    return {begin, std::max(begin, std::min(a.end, b.end))};
  }

  // Sums, or extremes, of taps that are inside of the image, of each row in some window.
  void pool_taps(const Windows& windows, const Taps& taps, float* results) const noexcept {
    const PoolingAxis& vertical = geometry_.axes[1];
    const float* input = windows.input + vertical.position(windows.y, taps.rows.begin) * vertical.input_step;
    if (transposes_) return pool_transposed(input, windows, results);
    runs_ ? pool_run(input, windows, taps, results) : pool_staged(input, windows, taps, results);
  }

  // Input is column 0 of the first row.
  void pool_run(const float* input, const Windows& windows, const Taps& taps, float* results) const noexcept {
    const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
    window_kernels(function_, target())
        .runs({.input = input,
               .rows = as_size(taps.rows.count()),
               .row_step = vertical.dilation * vertical.input_step,
               .length = (horizontal.input - 1) * horizontal.input_step + static_cast<std::int64_t>(windows.channels),
               .first = horizontal.position(windows.columns.begin, taps.columns.begin) * horizontal.input_step,
               .taps = as_size(taps.columns.count()),
               .tap_step = horizontal.dilation * horizontal.input_step,
               .step = block_.columns == 1 ? 1 : horizontal.stride,
               .count = windows.count(),
               .output = results});
  }

  // Of each tap the elements of all planes become a row.
  void pool_transposed(const float* input, const Windows& windows, float* results) const noexcept {
    const auto channels = static_cast<std::int64_t>(windows.channels);
    ChunkBuffer buffer;
    transpose_elements(*target().kernels().pack, sizeof(float), input, geometry_.input_channel_step, channels,
                       plane_taps(), buffer.bytes, channels);
    window_kernels(function_, target())
        .runs({.input = reinterpret_cast<const float*>(buffer.bytes),
               .rows = as_size(plane_taps()),
               .row_step = channels,
               .length = channels,
               .first = 0,
               .taps = 1,
               .tap_step = 1,
               .step = 1,
               .count = windows.channels,
               .output = results});
  }

  // Each tap of all columns is gathered.
  void pool_staged(const float* input, const Windows& windows, const Taps& taps, float* results) const noexcept {
    const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
    const FloatBinaryFunction combine = function(binary_function(function_));
    std::fill_n(results, windows.count(), neutral_float(function_));
    ChunkBuffer staged;
    for (std::int64_t i = 0; i < taps.rows.count(); ++i) {
      for (std::int64_t j = taps.columns.begin; j < taps.columns.end; ++j) {
        const IndexRange reached = inside(windows.columns, j);
        if (reached.begin == reached.end) continue;
        const float* tap = input + i * vertical.dilation * vertical.input_step +
                           horizontal.position(reached.begin, j) * horizontal.input_step;
        const Rows tap_rows = {as_size(reached.count()), windows.channels, horizontal.stride * horizontal.input_step,
                               geometry_.input_channel_step};
        const void* values = gather(tap, DataType::float32, tap_rows, *target().kernels().pack, staged);
        float* reached_results = results + as_size(reached.begin - windows.columns.begin) * windows.channels;
        combine({.a = reached_results,
                 .b = static_cast<const float*>(values),
                 .a_repeats = false,
                 .b_repeats = false,
                 .output = reached_results,
                 .count = tap_rows.rows * windows.channels});
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
    const IndexRange found = indices_inside(first, axis.stride, axis.input, columns.count());
    return {columns.begin + found.begin, columns.begin + found.end};
  }

  // Sums by the numbers of their taps.
  void divide(float* sums, const Windows& windows) const noexcept {
    const IndexRange& columns = windows.columns;
    const std::size_t channels = windows.channels;
    const std::int64_t rows = windows.inside.rows.count();
    const PoolingAxis& axis = geometry_.axes[2];
    const auto begin = std::clamp(whole_columns_.begin, columns.begin, columns.end);
    const auto end = std::clamp(whole_columns_.end, begin, columns.end);
    const std::size_t count = windows.count();
    const bool repeats = geometry_.include_padding || end - begin == columns.count();
    ChunkBuffer buffer;
    auto* divisors = reinterpret_cast<float*>(buffer.bytes);
    std::fill_n(divisors, repeats ? 1 : count, geometry_.divisor(rows * axis.window));
    const auto fill_cut = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t x = from; x < to; ++x) {
        const IndexRange taps = axis.taps(x);
        std::fill_n(divisors + as_size(x - columns.begin) * channels, channels, geometry_.divisor(rows * taps.count()));
      }
    };
    if (!repeats) fill_cut(columns.begin, begin);
    if (!repeats) fill_cut(end, columns.end);
    function(FloatBinary::divide)(
        {.a = sums, .b = divisors, .a_repeats = false, .b_repeats = repeats, .output = sums, .count = count});
  }

  FloatPool function_;
  PoolingGeometry geometry_;
  bool halves_, folds_, transposes_;
  std::optional<PlaneAverages> plane_averages_;
  FloatBands bands_;
  Block block_;
  bool runs_;
  IndexRange whole_columns_;
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
