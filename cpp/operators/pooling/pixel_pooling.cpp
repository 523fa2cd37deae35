#include "operators/pooling/pixel_pooling.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "operators/buffer_layout.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/transposed_elements.h"
#include "operators/task_size.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kBandElements = 2048;  // whose vectors stay in a level-2 cache

bool is_dense(const PoolingGeometry& geometry) {
  const PoolingAxis &vertical = geometry.axes[1], &horizontal = geometry.axes[2];
  return horizontal.input_step == 1 && horizontal.output_step == 1 && vertical.input_step == horizontal.input &&
         vertical.output_step == horizontal.output;
}

// Of windows of an axis the place of the first tap within the input from a position on, and how many are.
std::vector<FloatPixels::Taps> taps_of(const PoolingAxis& axis, IndexRange windows, std::int64_t from,
                                       std::int64_t step) {
  std::vector<FloatPixels::Taps> taps;
  for (std::int64_t i = windows.begin; i < windows.end; ++i) {
    const IndexRange inside = axis.taps(i);
    const std::int64_t first = inside.count() == 0 ? 0 : axis.position(i, inside.begin) - from;
    taps.push_back({static_cast<std::int32_t>(first * step), static_cast<std::int32_t>(inside.count())});
  }
  return taps;
}

// Rows of the output that are pooled together, and those of the input that their windows reach.
struct PixelBand {
  IndexRange output, input;
  std::vector<FloatPixels::Taps> rows;
};

std::vector<PixelBand> bands_of(const PoolingAxis& vertical, const PoolingAxis& horizontal, std::int64_t lanes) {
  const std::int64_t most = std::max<std::int64_t>(kBandElements / horizontal.input, vertical.reach());
  const std::int64_t rows = (most - vertical.reach()) / vertical.stride + 1;
  std::vector<PixelBand> bands;
  for (std::int64_t y = 0; y < vertical.output; y += rows) {
    const IndexRange output = {y, std::min(y + rows, vertical.output)};
    const IndexRange input = vertical.positions(output.begin, output.end);
    bands.push_back({output, input, taps_of(vertical, output, input.begin, horizontal.input * lanes)});
  }
  return bands;
}

// Whether windows are such that a transposition takes less time than what vectors of edges and of skipped columns do:
// measured. Of windows that move by one, many taps of extremes are better shared among them; and taps above each other
// are whole vectors of long rows.
bool pays(const PoolingAxis& vertical, const PoolingAxis& horizontal, FloatPool function, std::int64_t lanes) {
  constexpr std::int64_t kMostTaps = 64, kManyTaps = 16, kFewTaps = 4, kMostShared = 32, kMostSkipped = 8;
  constexpr std::int64_t kMostColumns = 112, kShortRow = 16, kLongRow = 64;
  if (vertical.window > kMostTaps / horizontal.window) return false;
  const std::int64_t taps = vertical.window * horizontal.window, columns = horizontal.input;
  if (taps == 1 || columns > kMostColumns) return false;
  if (horizontal.window == 1 && horizontal.stride == 1 && columns >= kLongRow) return false;
  if (vertical.stride > 1 || horizontal.stride > 1) {
    const bool reads_few = vertical.stride >= kMostSkipped * taps / horizontal.stride;
    const bool are_pairs = vertical.stride == 2 && horizontal.stride == 2 && taps <= kFewTaps && columns % 2 == 0;
    return !reads_few && (!are_pairs || columns <= kShortRow);  // pairs are read in place
  }
  const bool averages = adds(function);
  if (taps > (averages ? kManyTaps : kMostShared)) return averages;
  return taps > kFewTaps ? columns <= kShortRow : columns < lanes;
}

class PixelPooling final : public CompiledOperator {
 public:
  PixelPooling(OperatorDesc&& operator_desc, ExecutionTarget execution_target, const PoolingGeometry& geometry,
               FloatPool function)
      : CompiledOperator(std::move(operator_desc), execution_target),
        geometry_(geometry),
        function_(function),
        lanes_(static_cast<std::int64_t>(target().kernels().float_pool->lanes)),
        bands_(bands_of(geometry.axes[1], geometry.axes[2], lanes_)),
        columns_(taps_of(geometry.axes[2], {0, geometry.axes[2].output}, 0, lanes_)),
        input_elements_(most_input_rows() * geometry.axes[2].input * lanes_),
        pixels_of_band_(input_elements_ + bands_[0].output.count() * geometry.axes[2].output * lanes_),
        bands_of_task_(bands_of_task()),
        divisors_(divisors()),
        layout_(buffers()) {}

  std::string describe() const override {
    return std::string("algorithm: ") + pool_words(function_) + " of planes, " + std::to_string(lanes_) +
           " at a time, transposed, in bands of " + std::to_string(bands_[0].output.count()) +
           " rows\nkernel: " + kernel_words(target(), "float_pool") + "\n" + tasks_line(task_count(), participants());
  }

  std::size_t temporary_size() const override { return layout_.size(); }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto* input = static_cast<const float*>(tensors[0]);
    auto* output = static_cast<float*>(tensors[1]);
    std::uint8_t* scratch = thread_scratch(temporary_size());
    parallel_for(as_size(task_count()), target().num_threads, [&](std::size_t task, int slot) noexcept {
      auto* pixels = reinterpret_cast<float*>(scratch) + slot * pixels_of_band_;
      const std::int64_t begin = static_cast<std::int64_t>(task) * bands_of_task_;
      const std::int64_t end = std::min(begin + bands_of_task_, band_count());
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t group = i / band_total(), image = group / groups_of_image();
        const std::int64_t channel = group % groups_of_image() * lanes_;
        pool(input + image * geometry_.input_image_step + channel * geometry_.input_channel_step,
             output + image * geometry_.output_image_step + channel * geometry_.output_channel_step,
             std::min(lanes_, geometry_.channels - channel), bands_[as_size(i % band_total())], pixels);
      }
    });
  }

 private:
  std::int64_t groups_of_image() const { return divide_up(geometry_.channels, lanes_); }
  std::int64_t band_total() const { return static_cast<std::int64_t>(bands_.size()); }
  std::int64_t band_count() const { return geometry_.batch * groups_of_image() * band_total(); }
  std::int64_t most_input_rows() const {
    std::int64_t most = 0;
    for (const PixelBand& band : bands_) most = std::max(most, band.input.count());
    return most;
  }
  std::int64_t bands_of_task() const {
    const auto pixels = static_cast<double>(pixels_of_band_);
    return static_cast<std::int64_t>(rows_of_task(static_cast<double>(band_count()), pixels, target().num_threads));
  }
  std::int64_t task_count() const { return divide_up(band_count(), bands_of_task_); }
  int participants() const { return static_cast<int>(std::min<std::int64_t>(task_count(), target().num_threads)); }

  BufferLayout buffers() const {
    BufferLayout layout;
    layout.take(as_size(pixels_of_band_) * sizeof(float), static_cast<std::size_t>(participants()));
    return layout;
  }

  // For each pixel, or one that repeats. Extremes have none.
  std::vector<float> divisors() const {
    const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
    if (!adds(function_)) return {};
    if (geometry_.include_padding) return {geometry_.divisor(vertical.window * horizontal.window)};
    std::vector<float> divisors;
    for (const PixelBand& band : bands_) {
      for (const FloatPixels::Taps& rows : band.rows) {
        for (const FloatPixels::Taps& columns : columns_) {
          divisors.push_back(geometry_.divisor(std::int64_t{rows.count} * columns.count));
        }
      }
    }
    return divisors;
  }

  // Of some planes; lanes that have none hold zeros.
  void pool(const float* input, float* output, std::int64_t planes, const PixelBand& band,
            float* pixels) const noexcept {
    const PackKernels& pack = *target().kernels().pack;
    const PoolingAxis &vertical = geometry_.axes[1], &horizontal = geometry_.axes[2];
    const std::int64_t elements = band.input.count() * horizontal.input;
    const std::int64_t first_result = band.output.begin * horizontal.output;
    const std::int64_t count = band.output.count() * horizontal.output;
    const bool divisor_repeats = divisors_.size() <= 1;
    float* results = pixels + input_elements_;
    if (planes < lanes_) std::fill_n(pixels, elements * lanes_, 0.0F);
    transpose_elements(pack, sizeof(float), input + band.input.begin * horizontal.input, geometry_.input_channel_step,
                       planes, elements, pixels, lanes_);
    window_kernels(function_, target())
        .pixels({.input = pixels,
                 .rows = band.rows.data(),
                 .columns = columns_.data(),
                 .row_count = band.rows.size(),
                 .column_count = columns_.size(),
                 .row_step = vertical.dilation * horizontal.input * lanes_,
                 .column_step = horizontal.dilation * lanes_,
                 .divisors = divisors_.data() + (divisor_repeats ? 0 : first_result),
                 .divisor_repeats = divisor_repeats,
                 .output = results});
    transpose_elements(pack, sizeof(float), results, lanes_, count, planes, output + first_result,
                       geometry_.output_channel_step);
  }

  PoolingGeometry geometry_;
  FloatPool function_;
  std::int64_t lanes_;
  std::vector<PixelBand> bands_;
  std::vector<FloatPixels::Taps> columns_;
  std::int64_t input_elements_, pixels_of_band_;  // floats of the largest band, transposed; its results behind them
  std::int64_t bands_of_task_;
  std::vector<float> divisors_;
  BufferLayout layout_;
};

}  // namespace

bool are_pixels(const PoolingGeometry& geometry, FloatPool function, const ExecutionTarget& target) {
  const PoolingAxis &vertical = geometry.axes[1], &horizontal = geometry.axes[2];
  const auto lanes = static_cast<std::int64_t>(target.kernels().float_pool->lanes);
  // At most a quarter of the lanes are without a plane.
  const bool fills_lanes = 4 * geometry.channels >= 3 * divide_up(geometry.channels, lanes) * lanes;
  if (lanes == 1 || !fills_lanes || !is_dense(geometry)) return false;
  if (vertical.output == 1 || horizontal.output == 1) return false;
  // So that the results of a band are as few as its elements, or twice as many.
  if (vertical.output > 2 * vertical.input || horizontal.output > 2 * horizontal.input) return false;
  return vertical.reach() <= kBandElements / horizontal.input && pays(vertical, horizontal, function, lanes);
}

std::unique_ptr<CompiledOperator> compile_pixel_pooling(OperatorDesc desc, ExecutionTarget target,
                                                        const PoolingGeometry& geometry, FloatPool function) {
  return std::make_unique<PixelPooling>(std::move(desc), target, geometry, function);
}

}  // namespace dmlcpu
