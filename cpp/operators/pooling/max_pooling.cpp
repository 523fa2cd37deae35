// MAX_POOLING: tensors input, output, 8-bit codes of one data type, {N, C, H, W} or {N, C, W}. Padding never wins.
//
// Channels are neighbours, or are made so first (as staged_convolution does). Large windows go in two passes: the
// highest codes of their rows fill a line as wide as the input, and the highest of that line's windows are the output.
#include <stdexcept>

#include "operators/buffer_layout.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/pooling/pooling_geometry.h"
#include "operators/sizes.h"
#include "operators/strides/channel_planes.h"
#include "operators/strides/strided_runs.h"
#include "operators/task_size.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

// The windows of one spatial axis.
struct WindowAxis : PoolingAxis {
  IndexRange whole{};  // the windows that are inside the input as a whole

  // The elements of a window that are inside, never none: the place of the first, and how many.
  struct Elements {
    std::int64_t first, count;
  };
  Elements inside(std::int64_t o) const {
    if (o >= whole.begin && o < whole.end) return {position(o, 0), window};
    const IndexRange range = taps(o);
    return {position(o, range.begin), range.count()};
  }
};

// Of entry index of the attributes, where every window has an element.
WindowAxis window_axis(const OperatorDesc& desc, std::size_t index, std::int64_t input, std::int64_t output) {
  const PoolingAxis axis = pooling_axis(desc, index, input, output);
  // Steps no wider than the input cannot pass over it: then only the first and the last window can miss it.
  const bool steps_over = axis.window > 1 && axis.dilation > input;
  if (steps_over || axis.position(0, axis.window - 1) < 0 || axis.position(output - 1, 0) >= input) {
    throw std::invalid_argument(desc.type + ": a window is wholly in the padding");
  }
  return {axis, axis.whole_windows()};
}

// Windows of one element each.
WindowAxis single_windows(std::int64_t size) { return {{.input = size, .output = size}, {0, size}}; }

// A 1-D pooling is of images of height 1.
PlaneStrides plane_strides(const TensorLayout& layout) {
  const std::size_t last = layout.rank - 1;
  const std::int64_t channel = layout.sizes[1] == 1 ? 1 : layout.strides[1];
  return {layout.strides[0], channel, last == 3 ? layout.strides[2] : 0, layout.strides[last]};
}

class MaxPooling final : public CompiledOperator {
 public:
  MaxPooling(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target) {
    const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
    if ((input.rank != 3 && input.rank != 4) || output.rank != input.rank || input.type != output.type ||
        input.sizes[0] != output.sizes[0] || input.sizes[1] != output.sizes[1]) {
      throw std::invalid_argument(desc().type + ": input and output are of rank 3 or 4 and share all but their planes");
    }
    const std::size_t last = input.rank - 1;
    horizontal_ = window_axis(desc(), last - 2, input.sizes[last], output.sizes[last]);
    vertical_ = last == 3 ? window_axis(desc(), 0, input.sizes[2], output.sizes[2]) : single_windows(1);
    input_ = {input.sizes[1], vertical_.input, horizontal_.input, plane_strides(input)};
    output_ = {input.sizes[1], vertical_.output, horizontal_.output, plane_strides(output)};

    every_column_ = single_windows(input_.width);
    two_passes_ = two_passes_load_less();
    line_bytes_ = two_passes_ ? as_size(input_.width) * as_size(input_.channels) : 0;
    const auto image_bytes = [](const ChannelPlanes& tensor) {
      return tensor.strides.c == 1 ? 0 : as_size(tensor.pixels()) * as_size(tensor.channels);
    };
    BufferLayout layout;
    lines_ = layout.take(as_size(target().num_threads), line_bytes_);
    staged_input_ = layout.take(image_bytes(input_));
    staged_output_ = layout.take(image_bytes(output_));
    scratch_size_ = layout.size();
  }

  std::size_t temporary_size() const override { return scratch_size_; }

  std::string describe() const override {
    const char* const staging[] = {"none", "input", "output", "input and output"};
    const int staged = (input_.strides.c == 1 ? 0 : 1) + (output_.strides.c == 1 ? 0 : 2);
    return std::string("algorithm: ") + (two_passes_ ? "rows, then columns of windows" : "whole windows") +
           "\nkernel: " + kernel_words(target(), "max_pool") +
           "\nstaging through {N, H, W, C} copies: " + staging[staged] +
           "\ntasks: " + std::to_string(rows_to_a_task(images_at_once())) + " output rows each";
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const auto* input = static_cast<const std::uint8_t*>(tensors[kInput]);
    auto* output = static_cast<std::uint8_t*>(tensors[kOutput]);
    std::uint8_t* scratch = thread_scratch(scratch_size_);
    const std::int64_t images = desc().tensor(kInput).sizes[0];
    const PackKernels& pack = *target().kernels().pack;
    if (input_.strides.c == 1 && output_.strides.c == 1) {
      return pool_images(images, {input, input_.strides}, {output, output_.strides}, scratch);
    }
    for (std::int64_t image = 0; image < images; ++image) {
      Images<const std::uint8_t> source{input + image * input_.strides.n, input_.strides};
      Images<std::uint8_t> pooled{output + image * output_.strides.n, output_.strides};
      if (input_.strides.c != 1) {
        gather_channels_last(input_, pack, 1, source.data, 0, target().num_threads, scratch + staged_input_);
        source = {scratch + staged_input_, input_.channels_last()};
      }
      if (output_.strides.c != 1) pooled = {scratch + staged_output_, output_.channels_last()};
      pool_images(1, source, pooled, scratch);
      if (output_.strides.c != 1) {
        scatter_channels_last(output_, pack, 1, scratch + staged_output_, 1, target().num_threads,
                              output + image * output_.strides.n);
      }
    }
  }

 private:
  template <class Byte>
  struct Images {
    Byte* data;
    PlaneStrides strides;
  };

  // Loads and stores of a code, in each way: two passes load a window's rows for every column that it steps over.
  bool two_passes_load_less() const {
    const double window = static_cast<double>(vertical_.window) * static_cast<double>(horizontal_.window);
    const double columns = static_cast<double>(std::min(horizontal_.stride, horizontal_.input));
    return window > columns * static_cast<double>(vertical_.window + 1) + static_cast<double>(horizontal_.window);
  }

  // One where images are staged.
  std::int64_t images_at_once() const {
    return input_.strides.c == 1 && output_.strides.c == 1 ? desc().tensor(kInput).sizes[0] : 1;
  }

  std::int64_t rows_to_a_task(std::int64_t images) const {
    const double rows = as_number(images) * as_number(vertical_.output);
    const double elements_of_row = as_number(input_.width) * as_number(input_.channels);
    return static_cast<std::int64_t>(rows_of_task(rows, elements_of_row, target().num_threads));
  }

  void pool_images(std::int64_t images, const Images<const std::uint8_t>& input, const Images<std::uint8_t>& output,
                   std::uint8_t* scratch) const {
    const std::int64_t rows = images * vertical_.output, rows_of_task = rows_to_a_task(images);
    parallel_for(
        as_size(divide_up(rows, rows_of_task)), target().num_threads, [&](std::size_t task, int slot) noexcept {
          const std::int64_t first = static_cast<std::int64_t>(task) * rows_of_task;
          for (std::int64_t row = first; row < std::min(first + rows_of_task, rows); ++row) {
            const std::int64_t image = row / vertical_.output, y = row % vertical_.output;
            const WindowAxis::Elements inside = vertical_.inside(y);
            const Rows source{input.data + image * input.strides.n + inside.first * input.strides.h, inside.count,
                              as_size(vertical_.dilation) * as_size(input.strides.h), input.strides.w};
            std::uint8_t* target_row = output.data + image * output.strides.n + y * output.strides.h;
            if (two_passes_) {
              std::uint8_t* line = scratch + lines_ + as_size(slot) * line_bytes_;
              pool_columns(source, every_column_, line, input_.channels);
              pool_columns({line, 1, 0, input_.channels}, horizontal_, target_row, output.strides.w);
            } else {
              pool_columns(source, horizontal_, target_row, output.strides.w);
            }
          }
        });
  }

  // Rows of pixels that are the rows of windows.
  struct Rows {
    const std::uint8_t* data;
    std::int64_t count;
    std::size_t step;  // wraps where it is not taken
    std::int64_t pixel;
  };

  // The windows of one output row: those that are whole together, the others one by one.
  void pool_columns(const Rows& rows, const WindowAxis& axis, std::uint8_t* output, std::int64_t output_pixel) const {
    std::int64_t count = 1;
    for (std::int64_t x = 0; x < axis.output; x += count) {
      count = x == axis.whole.begin ? std::max<std::int64_t>(1, axis.whole.end - x) : 1;
      pool_pixels(rows, axis, axis.inside(x), count, output + x * output_pixel, output_pixel);
    }
  }

  // The windows of count output pixels, the first with these columns.
  void pool_pixels(const Rows& rows, const WindowAxis& axis, const WindowAxis::Elements& columns, std::int64_t count,
                   std::uint8_t* output, std::int64_t output_pixel) const {
    // Pixels side by side in both tensors are one pixel of more channels.
    const std::int64_t channels = input_.channels;
    const bool joined = axis.stride == 1 && rows.pixel == channels && output_pixel == channels;
    target().kernels().max_pool->run({.input = rows.data + columns.first * rows.pixel,
                                      .pixel_step = as_size(axis.stride) * as_size(rows.pixel),
                                      .rows = as_size(rows.count),
                                      .row_step = rows.step,
                                      .columns = as_size(columns.count),
                                      .column_step = as_size(axis.dilation) * as_size(rows.pixel),
                                      .pixels = joined ? 1 : as_size(count),
                                      .channels = as_size(joined ? count * channels : channels),
                                      .is_signed = desc().tensor(kInput).type == DataType::int8,
                                      .output = output,
                                      .output_pixel_stride = as_size(output_pixel)});
  }

  WindowAxis vertical_{}, horizontal_{};
  WindowAxis every_column_{};  // of the first pass: windows of one column
  bool two_passes_ = false;
  ChannelPlanes input_{}, output_{};
  std::size_t line_bytes_, lines_, staged_input_, staged_output_, scratch_size_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_max_pooling(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<MaxPooling>(std::move(desc), target);
}

}  // namespace dmlcpu
