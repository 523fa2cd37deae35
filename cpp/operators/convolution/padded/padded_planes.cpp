#include "operators/convolution/padded/padded_planes.h"

#include <algorithm>

#include "operators/convolution/padded/padded_row.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

ConvolutionGeometry unpadded(ConvolutionGeometry geometry) {
  geometry.output_height = geometry.input_height;
  geometry.output_width = geometry.input_width;
  geometry.kernel_height = geometry.kernel_width = 1;
  geometry.stride_height = geometry.stride_width = 1;
  geometry.dilation_height = geometry.dilation_width = 1;
  geometry.padding_top = geometry.padding_left = 0;
  return geometry;
}

constexpr double kMostBytes = 1e14;  // beyond any memory, and far below overflow

bool PaddedPlanes::holds(const ConvolutionGeometry& geometry, const PlaneCells& cells) {
  const double taken = static_cast<double>(cells.bytes) / as_number(geometry.input_channels);
  const double pixels = geometry.read_pixels() * as_number(geometry.batch);
  return pixels * std::max(taken, 1.0) * as_number(geometry.input_channels) <= kMostBytes;
}

bool PaddedPlanes::holds(const ConvolutionGeometry& geometry) {
  return geometry.read_pixels() * as_number(geometry.input_channels) * as_number(geometry.batch) <= kMostBytes;
}

bool PaddedPlanes::applies(const ConvolutionGeometry& geometry) {
  const double taps = as_number(geometry.kernel_height) * as_number(geometry.kernel_width);
  const double outputs = as_number(geometry.output_height) * as_number(geometry.output_width);
  return holds(geometry) && taps > 1.0 && geometry.read_pixels() <= outputs * taps;
}

PaddedPlanes::PaddedPlanes(const ConvolutionGeometry& geometry, const PlaneCells& cells, std::int64_t images,
                           std::int64_t output_rows, int num_threads)
    : geometry_(geometry),
      cells_(cells),
      images_(as_size(images)),
      rows_of_image_(rows_of(geometry.output_height)),
      rows_(rows_of(output_rows)),
      num_threads_(static_cast<int>(std::min<std::int64_t>(num_threads, images * rows_))),
      columns_(geometry.read_width()),
      cells_of_row_(cells.are_windows ? geometry.output_width : columns_),
      packed_row_bytes_(cells.bytes == geometry.input_channels ? 0 : as_size(columns_ * geometry.input_channels)),
      row_bytes_(as_size(divide_up(cells_of_row_, cells.multiple) * cells.multiple * cells.bytes)),
      image_bytes_(as_size(rows_) * row_bytes_) {}

std::int64_t PaddedPlanes::rows_of(std::int64_t output_rows) const {
  const std::int64_t segments = divide_up(geometry_.kernel_height, cells_.rows);
  const std::int64_t last =
      (output_rows - 1) * geometry_.stride_height + (segments - 1) * cells_.rows * geometry_.dilation_height;
  return last / cells_.row_step + 1;
}

void PaddedPlanes::fill(const ActivationSource& source, const PackKernels& kernels, std::int64_t images,
                        std::int64_t first_row, std::uint8_t* planes) const {
  const std::int64_t first = first_row * (geometry_.stride_height / cells_.row_step);
  const std::int64_t rows = std::min(rows_, rows_of_image_ - first);
  // Neighbours share rows where there are more in a cell than there are to the next.
  const std::int64_t of_band = num_threads_ == 1                ? rows
                               : cells_.rows == cells_.row_step ? 1
                                                                : divide_up(rows, num_threads_ * kTasksPerThread);
  const std::int64_t bands = divide_up(rows, of_band);
  std::uint8_t* const packed_rows = planes + image_bytes_ * images_ + kAlignment;
  parallel_for(as_size(images * bands), num_threads_, [&](std::size_t task, int slot) noexcept {
    const std::int64_t image = static_cast<std::int64_t>(task) / bands, band = static_cast<std::int64_t>(task) % bands;
    const std::int64_t begin = band * of_band;
    fill_rows(source, kernels, image, first + begin, std::min(of_band, rows - begin),
              packed_rows + as_size(slot) * packed_bytes(),
              planes + as_size(image) * image_bytes_ + as_size(begin) * row_bytes_);
  });
}

void PaddedPlanes::fill_rows(const ActivationSource& source, const PackKernels& kernels, std::int64_t image,
                             std::int64_t first, std::int64_t count, std::uint8_t* packed, std::uint8_t* output) const {
  const auto pack = [&](std::int64_t padded_row, std::uint8_t* target) {
    pack_padded_row(geometry_, kernels, source, image, padded_row, 0, columns_, target);
  };
  if (packed_row_bytes_ == 0) {
    for (std::int64_t row = first; row < first + count; ++row, output += row_bytes_) pack(row, output);
    return;
  }
  // Padded row r is packed to place r % cells_.rows, where it stays for all rows of cells that it is in.
  const auto place_of = [&](std::int64_t padded_row) {
    return packed + as_size(padded_row % cells_.rows) * packed_row_bytes_;
  };
  const std::uint8_t* inputs[PlaneCells::kMostRows];
  SpreadPieces pieces = {.inputs = inputs,
                         .rows = as_size(cells_.rows),
                         .input_step = as_size(geometry_.input_channels * cells_.step(geometry_) / cells_.pieces),
                         .count = as_size(cells_of_row_ * cells_.pieces),
                         .piece_bytes = as_size(geometry_.input_channels * cells_.columns(geometry_) / cells_.pieces),
                         .output = output,
                         .output_step = as_size(cells_.bytes / cells_.pieces)};
  std::int64_t next = 0;
  for (std::int64_t row = first; row < first + count; ++row, pieces.output += row_bytes_) {
    const std::int64_t begin = row * cells_.row_step;
    for (next = std::max(next, begin); next < begin + cells_.rows; ++next) pack(next, place_of(next));
    for (std::int64_t r = 0; r < cells_.rows; ++r) inputs[r] = place_of(begin + r);
    kernels.spread(pieces);
  }
}

}  // namespace dmlcpu
