// FLOAT_INTERPOLATION: tensors input, output, FLOAT32, 4-D, of sizes that differ along two axes alone; attributes axes
// (that of the rows and that of the columns), first_rows and row_weights, first_columns and column_weights as in
// weighted_taps. Each output row is a weighted sum of rows, each of its pixels then one of pixels of that sum; the sums
// are those of kernels/interpolate. Of graphs alone.
//
// The kernel's lanes are elements of a row where rows are added, and channels where pixels are, if there are many that
// are neighbours. If there are few or one, sixteen rows are transposed, and are the lanes:
//
//   rows of the input  ->  16 rows x pixels  ->  pixels x 16 rows  ->  other pixels x 16 rows  ->  rows of the output
//                    sums               transposed               sums                   transposed

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "operators/attributes.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/resampling/weighted_taps.h"
#include "operators/sizes.h"
#include "operators/strides/strided_runs.h"
#include "operators/task_size.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

constexpr std::size_t kRowsTogether = 16;
// Channels that are lanes enough.
constexpr std::size_t kManyChannels = 8;
// Elements of a row that are added, or pixels that are made, and transposed while they are in the level-1 cache.
constexpr std::size_t kPiece = 256;

// Elements between neighbours.
struct Strides {
  std::int64_t image, channel, row, column;
};

// A tensor as the operator reads it: {images, channels, rows, columns}.
struct Images {
  std::int64_t images, channels, rows, columns;
  Strides strides;
};

// In the order of Images.
using Axes = std::array<std::size_t, 4>;

Axes axes_of(const OperatorDesc& desc) {
  if (desc.tensor(kInput).rank != 4 || desc.tensor(kOutput).rank != 4) {
    throw std::invalid_argument(desc.type + ": input and output are not 4-D");
  }
  const std::vector<std::int64_t>& axes = desc.attribute("axes");
  if (axes.size() != 2 || axes[0] == axes[1] ||
      std::ranges::any_of(axes, [](auto axis) { return axis < 0 || axis > 3; })) {
    throw std::invalid_argument(desc.type + ": axes are not two of four");
  }
  Axes ordered = {4, 4, as_size(axes[0]), as_size(axes[1])};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (axis != ordered[2] && axis != ordered[3]) ordered[ordered[0] == 4 ? 0 : 1] = axis;
  }
  return ordered;
}

Images images_of(const TensorLayout& tensor, const Axes& axes) {
  const Extents &sizes = tensor.sizes, &strides = tensor.strides;
  return {sizes[axes[0]],
          sizes[axes[1]],
          sizes[axes[2]],
          sizes[axes[3]],
          {strides[axes[0]], strides[axes[1]], strides[axes[2]], strides[axes[3]]}};
}

// Planes of one row as rows of one plane.
void exchange_rows_and_channels(Images& tensor) {
  std::swap(tensor.rows, tensor.channels);
  std::swap(tensor.strides.row, tensor.strides.channel);
}

void exchange_rows_and_images(Images& tensor) {
  std::swap(tensor.rows, tensor.images);
  std::swap(tensor.strides.row, tensor.strides.image);
}

std::size_t whole_lines(std::size_t floats) { return (floats + 15) / 16 * 16; }

class FloatInterpolation final : public CompiledOperator {
 public:
  FloatInterpolation(OperatorDesc&& operator_desc, ExecutionTarget execution_target);

  std::string describe() const override;
  std::size_t temporary_size() const override { return scratch_floats() * sizeof(float) * as_size(participants()); }

 protected:
  void run(const TensorPointers& tensors) const override;

 private:
  // Output rows of one plane.
  struct Rows {
    const float* input;  // the plane
    float* output;       // the first of the rows
    std::size_t first, count;
  };
  // A range of pixels of each row.
  struct Pixels {
    std::size_t begin, count;
  };
  // The scratch memory of one participant.
  struct Scratch {
    float *sums, *panel, *results;
  };

  void find_layout();

  std::int64_t row_count() const { return output_.images * output_.channels * output_.rows; }
  std::int64_t rows_of_task() const;
  std::int64_t task_count() const { return divide_up(row_count(), rows_of_task()); }
  int participants() const { return static_cast<int>(std::min<std::int64_t>(task_count(), target().num_threads)); }

  std::size_t pixels_of_piece() const { return std::max<std::size_t>(kPiece / pixel_, 1); }
  std::size_t piece_floats() const { return whole_lines(pixels_of_piece() * pixel_ * together_); }
  std::size_t panel_floats() const { return whole_lines(as_size(input_.columns) * pixel_ * together_); }
  std::size_t scratch_floats() const { return rows_alone_ ? 0 : 2 * piece_floats() + panel_floats(); }

  Rows rows_from(const TensorPointers& tensors, std::int64_t row, std::size_t most) const noexcept;
  void add_rows(const Rows& rows, Pixels pixels, float* sums, std::size_t step) const noexcept;
  void fill_panel(const TensorPointers& tensors, std::int64_t row, std::size_t count,
                  const Scratch& scratch) const noexcept;
  void add_pixels(const float* panel, std::size_t lanes, Pixels pixels, float* output, std::size_t step) const noexcept;
  void interpolate(const TensorPointers& tensors, std::int64_t row, std::size_t count,
                   const Scratch& scratch) const noexcept;
  void put(const float* results, std::size_t together, const Rows& rows, Pixels pixels) const noexcept;
  void put_apart(const float* results, std::size_t together, const Rows& rows, Pixels pixels) const noexcept;
  void transpose(const float* rows, std::size_t step, std::size_t count, std::size_t columns, float* output,
                 std::int64_t output_step) const noexcept;

  Images input_, output_;
  WeightedTaps rows_, columns_;
  std::size_t pixel_ = 1;            // neighbours that are one pixel of a row; the channels are then one
  std::int64_t channel_stride_ = 1;  // of the output, between the elements of a pixel
  std::size_t together_ = 1;         // rows that are lanes
  bool dense_input_ = false;         // its pixels are neighbours
  bool whole_output_ = false;        // the elements of each of its pixels are
  bool dense_output_ = false;        // its pixels are, too
  bool rows_alone_ = false;          // pixels stay as they are
};

FloatInterpolation::FloatInterpolation(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
    : CompiledOperator(std::move(operator_desc), execution_target),
      input_(images_of(desc().tensor(kInput), axes_of(desc()))),
      output_(images_of(desc().tensor(kOutput), axes_of(desc()))),
      rows_(desc(), "first_rows", "row_weights", input_.rows, output_.rows),
      columns_(desc(), "first_columns", "column_weights", input_.columns, output_.columns) {
  if (input_.images != output_.images || input_.channels != output_.channels) {
    throw std::invalid_argument(desc().type + ": input and output differ along another axis");
  }
  if (input_.rows > INT32_MAX || input_.columns > INT32_MAX) {
    throw std::invalid_argument(desc().type + ": an image of more than 2^31 - 1 rows or columns");
  }
  find_layout();
}

void FloatInterpolation::find_layout() {
  const std::int64_t channels = input_.channels;
  // A row's elements are all in memory, so that their count is in range.
  const bool whole_pixels =
      channels > 1 && input_.strides.channel == 1 && (input_.columns == 1 || input_.strides.column >= channels);
  whole_output_ = !whole_pixels || output_.strides.channel == 1;
  if (whole_pixels) {
    pixel_ = as_size(channels);
    channel_stride_ = output_.strides.channel;
    input_.channels = output_.channels = 1;
  } else if (input_.rows == 1 && rows_.unchanged()) {
    const auto exchange = channels > 1 ? exchange_rows_and_channels : exchange_rows_and_images;
    exchange(input_);
    exchange(output_);
    rows_ = WeightedTaps(input_.rows);
  }
  const auto dense = [&](const Images& tensor) {
    return tensor.columns == 1 || tensor.strides.column == static_cast<std::int64_t>(pixel_);
  };
  dense_input_ = dense(input_);
  dense_output_ = whole_output_ && dense(output_);
  rows_alone_ = columns_.unchanged() && dense_input_ && dense_output_;
  together_ = pixel_ >= kManyChannels || rows_alone_ ? 1 : kRowsTogether;
}

std::string FloatInterpolation::describe() const {
  const std::string lanes = together_ > 1 ? std::to_string(together_) + " rows transposed" : "channels";
  return std::string("algorithm: ") + (rows_alone_ ? "sums of rows" : "sums of rows, then of pixels by " + lanes) +
         "\nkernel: " + kernel_words(target(), "interpolate") + "\nrows: " + std::to_string(row_count()) + " of " +
         std::to_string(as_size(output_.columns) * pixel_) + " elements, " +
         (pixel_ > 1 ? "of all channels" : "of one channel") + "\n" + tasks_line(task_count(), participants());
}

std::int64_t FloatInterpolation::rows_of_task() const {
  const std::size_t read_rows = as_size(divide_up(input_.rows, output_.rows));  // for each
  const std::size_t elements = std::max(as_size(input_.columns) * read_rows, as_size(output_.columns)) * pixel_;
  const auto rows = static_cast<std::int64_t>(
      dmlcpu::rows_of_task(as_number(row_count()), static_cast<double>(elements), target().num_threads));
  return divide_up(rows, static_cast<std::int64_t>(together_)) * static_cast<std::int64_t>(together_);
}

void FloatInterpolation::run(const TensorPointers& tensors) const {
  auto* floats = reinterpret_cast<float*>(thread_scratch(temporary_size()));
  parallel_for(as_size(task_count()), participants(), [&](std::size_t task, int slot) noexcept {
    float* const own = floats + as_size(slot) * scratch_floats();
    const std::int64_t begin = static_cast<std::int64_t>(task) * rows_of_task();
    const std::int64_t end = std::min(begin + rows_of_task(), row_count());
    for (std::int64_t row = begin; row < end;) {
      const std::size_t left = as_size(end - row);
      if (rows_alone_) {
        const Rows rows = rows_from(tensors, row, left);
        add_rows(rows, {0, as_size(output_.columns)}, rows.output, as_size(output_.strides.row));
        row += static_cast<std::int64_t>(rows.count);
        continue;
      }
      const std::size_t count = std::min(left, together_);
      interpolate(tensors, row, count, {own, own + 2 * piece_floats(), own + piece_floats()});
      row += static_cast<std::int64_t>(count);
    }
  });
}

// At most so many rows, from this one on, which is counted over all planes.
FloatInterpolation::Rows FloatInterpolation::rows_from(const TensorPointers& tensors, std::int64_t row,
                                                       std::size_t most) const noexcept {
  const std::int64_t plane = row / output_.rows, first = row % output_.rows;
  const std::int64_t image = plane / output_.channels, channel = plane % output_.channels;
  const auto offset = [&](const Strides& strides) { return image * strides.image + channel * strides.channel; };
  return {.input = static_cast<const float*>(tensors[kInput]) + offset(input_.strides),
          .output = static_cast<float*>(tensors[kOutput]) + offset(output_.strides) + first * output_.strides.row,
          .first = as_size(first),
          .count = std::min(most, as_size(output_.rows - first))};
}

// Pixels of rows that are sums of the input's rows, step elements from one row to the next.
void FloatInterpolation::add_rows(const Rows& rows, Pixels pixels, float* sums, std::size_t step) const noexcept {
  const InterpolateKernels& kernels = *target().kernels().interpolate;
  InterpolateRun run = {.input = rows.input + static_cast<std::int64_t>(pixels.begin) * input_.strides.column,
                        .input_step = as_size(input_.strides.row),
                        .places = rows_.places().data() + rows.first,
                        .outputs = rows.count,
                        .lanes = pixels.count * pixel_,
                        .output = sums,
                        .output_step = step};
  if (dense_input_) return kernels.interpolate(run);
  run.lanes = pixel_;
  for (std::size_t i = 0; i < pixels.count; ++i) {
    kernels.interpolate(run);
    run.input += input_.strides.column;
    run.output += pixel_;
  }
}

// The rows that output rows are made of, transposed if these are several.
void FloatInterpolation::fill_panel(const TensorPointers& tensors, std::int64_t row, std::size_t count,
                                    const Scratch& scratch) const noexcept {
  const std::size_t width = as_size(input_.columns);
  if (count == 1) return add_rows(rows_from(tensors, row, 1), {0, width}, scratch.panel, 0);
  for (std::size_t begin = 0; begin < width; begin += pixels_of_piece()) {
    const Pixels pixels = {begin, std::min(pixels_of_piece(), width - begin)};
    const std::size_t step = pixels_of_piece() * pixel_;
    for (std::size_t done = 0; done < count;) {
      const Rows rows = rows_from(tensors, row + static_cast<std::int64_t>(done), count - done);
      add_rows(rows, pixels, scratch.sums + done * step, step);
      done += rows.count;
    }
    transpose(scratch.sums, step, count, pixels.count * pixel_, scratch.panel + begin * pixel_ * count,
              static_cast<std::int64_t>(count));
  }
}

// Pixels that are sums of those of a panel, step elements from one to the next.
void FloatInterpolation::add_pixels(const float* panel, std::size_t lanes, Pixels pixels, float* output,
                                    std::size_t step) const noexcept {
  target().kernels().interpolate->interpolate({.input = panel,
                                               .input_step = lanes,
                                               .places = columns_.places().data() + pixels.begin,
                                               .outputs = pixels.count,
                                               .lanes = lanes,
                                               .output = output,
                                               .output_step = step});
}

// Output rows that are lanes together.
void FloatInterpolation::interpolate(const TensorPointers& tensors, std::int64_t row, std::size_t count,
                                     const Scratch& scratch) const noexcept {
  fill_panel(tensors, row, count, scratch);
  const std::size_t width = as_size(output_.columns), lanes = pixel_ * count;
  if (count == 1 && whole_output_) {
    float* const output = rows_from(tensors, row, 1).output;
    return add_pixels(scratch.panel, lanes, {0, width}, output, as_size(output_.strides.column));
  }
  for (std::size_t begin = 0; begin < width; begin += pixels_of_piece()) {
    const Pixels pixels = {begin, std::min(pixels_of_piece(), width - begin)};
    add_pixels(scratch.panel, lanes, pixels, scratch.results, lanes);
    for (std::size_t done = 0; done < count;) {
      const Rows rows = rows_from(tensors, row + static_cast<std::int64_t>(done), count - done);
      put(scratch.results + done, count, rows, pixels);
      done += rows.count;
    }
  }
}

// Writes rows of which so many together are lanes.
void FloatInterpolation::put(const float* results, std::size_t together, const Rows& rows,
                             Pixels pixels) const noexcept {
  const std::int64_t column = output_.strides.column;
  float* const output = rows.output + static_cast<std::int64_t>(pixels.begin) * column;
  if (dense_output_) {
    transpose(results, together, pixels.count * pixel_, rows.count, output, output_.strides.row);
  } else if (column == 1 && rows.count == 1 && together == 1) {
    transpose(results, pixel_, pixels.count, pixel_, output, channel_stride_);
  } else if (column == 1) {
    for (std::size_t channel = 0; channel < pixel_; ++channel) {
      transpose(results + channel * together, pixel_ * together, pixels.count, rows.count,
                output + static_cast<std::int64_t>(channel) * channel_stride_, output_.strides.row);
    }
  } else {
    put_apart(results, together, rows, pixels);
  }
}

void FloatInterpolation::put_apart(const float* results, std::size_t together, const Rows& rows,
                                   Pixels pixels) const noexcept {
  for (std::size_t row = 0; row < rows.count; ++row) {
    const float* from = results + row;
    float* to = rows.output + static_cast<std::int64_t>(row) * output_.strides.row +
                static_cast<std::int64_t>(pixels.begin) * output_.strides.column;
    for (std::size_t i = 0; i < pixels.count; ++i, to += output_.strides.column) {
      for (std::size_t channel = 0; channel < pixel_; ++channel, from += together) {
        to[static_cast<std::int64_t>(channel) * channel_stride_] = *from;
      }
    }
  }
}

// Rows, step elements from one to the next, become columns.
void FloatInterpolation::transpose(const float* rows, std::size_t step, std::size_t count, std::size_t columns,
                                   float* output, std::int64_t output_step) const noexcept {
  target().kernels().pack->gather_groups({.columns = reinterpret_cast<const std::uint8_t*>(rows),
                                          .column_stride = step * sizeof(float),
                                          .count = count,
                                          .k = columns * sizeof(float),
                                          .flip = 0,
                                          .output = reinterpret_cast<std::uint8_t*>(output),
                                          .group_stride = as_size(output_step) * sizeof(float)});
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_float_interpolation(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<FloatInterpolation>(std::move(desc), target);
}

}  // namespace dmlcpu
