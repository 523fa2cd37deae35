#include "operators/convolution/padded/padded_strips.h"

#include <algorithm>

#include "operators/convolution/padded/padded_row.h"
#include "operators/plan_words.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Output rows of one task: few enough to share the work, many enough to reuse the ring.
constexpr std::int64_t kLeastRowsOfTask = 4, kMostRowsOfTask = 16;

}  // namespace

PaddedStrips::PaddedStrips(const ConvolutionGeometry& geometry, int num_threads, std::int64_t strip_columns,
                           std::int64_t row_step, std::int64_t ring_rows)
    : geometry_(geometry),
      strip_columns_(strip_columns),
      strips_(divide_up(geometry.output_width, strip_columns)),
      row_step_(row_step),
      ring_(ring_rows, as_size(columns_read(strip_columns) * geometry.input_channels)) {
  const std::int64_t rows_for_all =
      num_threads == 1 ? kMostRowsOfTask
                       : divide_up(geometry.output_height * geometry.batch * strips_, num_threads * kTasksPerThread);
  const std::int64_t bands =
      divide_up(geometry.output_height, std::clamp(rows_for_all, kLeastRowsOfTask, kMostRowsOfTask));
  bands_ = std::min(divide_up(bands, num_threads) * num_threads, divide_up(geometry.output_height, row_step));
  participants_ = static_cast<int>(std::min<std::int64_t>(num_threads, geometry.batch * strips_ * bands_));
}

std::int64_t PaddedStrips::first_row(std::int64_t band) const {
  const std::int64_t steps = divide_up(geometry_.output_height, row_step_);
  return std::min(band * steps / bands_ * row_step_, geometry_.output_height);
}

bool PaddedStrips::applies(const ConvolutionGeometry& geometry, double strip_columns, double rows) {
  constexpr std::int64_t kMostTaps = 4096;
  if (geometry.kernel_height > kMostTaps || geometry.kernel_width > kMostTaps ||
      geometry.kernel_height * geometry.kernel_width > kMostTaps) {
    return false;
  }
  constexpr double kMostBytes = 1 << 25;
  const double columns = window_extent(strip_columns, as_number(geometry.stride_width),
                                       as_number(geometry.kernel_width), as_number(geometry.dilation_width));
  if (columns * as_number(geometry.input_channels) * rows >= kMostBytes) return false;

  // Codes between the taps of windows far apart are loaded as well.
  constexpr double kMostWaste = 16.0;
  return geometry.read_pixels() <=
         kMostWaste * as_number(geometry.image_pixels()) * as_number(geometry.kernel_height * geometry.kernel_width);
}

PaddedStrips::Task PaddedStrips::task(std::size_t index) const {
  const auto number = static_cast<std::int64_t>(index);
  const std::int64_t first_column = number % strips_ * strip_columns_;
  const std::int64_t band = number / strips_ % bands_;
  return {.image = number / strips_ / bands_,
          .first_column = first_column,
          .columns = std::min(strip_columns_, geometry_.output_width - first_column),
          .first_row = first_row(band),
          .end_row = first_row(band + 1)};
}

std::uint8_t* PaddedStrips::output(const ConvolutionDispatch& dispatch, const Task& task, std::int64_t row) const {
  const PlaneStrides& strides = geometry_.output;
  return dispatch.output +
         geometry_.output_bytes * (task.image * strides.n + row * strides.h + task.first_column * strides.w);
}

void PaddedStrips::finish(const ConvolutionDispatch& dispatch, const Task& task, std::int64_t first_row,
                          std::int64_t end_row) const noexcept {
  const std::size_t channels = as_size(geometry_.output_channels);
  if (dispatch.to_floats != nullptr) {
    dispatch.to_floats->apply({.sums = output(dispatch, task, first_row),
                               .runs = as_size(end_row - first_row),
                               .run_stride = as_size(geometry_.output.h),
                               .pixels = as_size(task.columns),
                               .pixel_stride = as_size(geometry_.output.w),
                               .first_channel = 0,
                               .channels = channels});
  }
  if (dispatch.epilogue == nullptr) return;
  for (std::int64_t row = first_row; row < end_row; ++row) {
    dispatch.epilogue->apply(output(dispatch, task, row), as_size(task.columns), channels, channels);
  }
}

std::int64_t PaddedStrips::load(const ActivationSource& source, const PackKernels& kernels, const Task& task,
                                std::int64_t top, std::int64_t loaded, std::uint8_t* ring) const noexcept {
  return ring_.fill(top, loaded, ring, [&](std::int64_t padded_row, std::uint8_t* target) {
    pack_padded_row(geometry_, kernels, source, task.image, padded_row, task.first_column * geometry_.stride_width,
                    columns_read(task.columns), target);
  });
}

std::string PaddedStrips::describe() const {
  return "strips of " + counted(strip_columns_, "output column") + ", " +
         counted(divide_up(geometry_.output_height, bands_), "row") + " a task, " +
         tasks_on_threads(static_cast<std::int64_t>(tasks()), participants_);
}

}  // namespace dmlcpu
