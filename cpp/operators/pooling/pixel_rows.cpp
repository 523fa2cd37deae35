#include "operators/pooling/pixel_rows.h"

#include "operators/sizes.h"

namespace dmlcpu {
namespace {

// Pixels one byte apart: of all rows, if these join, or of one; 0 if there are none.
std::int64_t run_length(const PixelRows& rows) {
  if (rows.columns > 1 && rows.column_step != 1) return 0;
  return rows.rows == 1 || rows.row_step == rows.columns ? rows.rows * rows.columns : rows.columns;
}

// Calls body(strided, packed) for every code, with its offsets in both.
template <class Body>
void for_each_code(const PixelRows& rows, std::int64_t packed_step, const Body& body) {
  for (std::int64_t pixel = 0; pixel < rows.rows * rows.columns; ++pixel) {
    const std::int64_t first = pixel / rows.columns * rows.row_step + pixel % rows.columns * rows.column_step;
    for (std::int64_t c = 0; c < rows.channels; ++c) body(first + c * rows.channel_step, pixel * packed_step + c);
  }
}

}  // namespace

void gather_pixels(const PixelRows& rows, const PackKernels& kernels, const std::uint8_t* source,
                   std::int64_t packed_step, std::uint8_t* packed) {
  const std::int64_t run = run_length(rows);
  if (run == 0) {
    return for_each_code(rows, packed_step, [&](std::int64_t from, std::int64_t to) { packed[to] = source[from]; });
  }
  for (std::int64_t row = 0; row < rows.rows * rows.columns / run; ++row) {
    kernels.transpose({.input = source + row * rows.row_step,
                       .input_row_stride = as_size(rows.channel_step),
                       .rows = as_size(rows.channels),
                       .columns = as_size(run),
                       .flip = 0,
                       .output = packed + row * run * packed_step,
                       .output_row_stride = as_size(packed_step)});
  }
}

void scatter_pixels(const PixelRows& rows, const PackKernels& kernels, const std::uint8_t* packed,
                    std::int64_t packed_step, std::uint8_t* target) {
  const std::int64_t run = run_length(rows);
  if (run == 0) {
    return for_each_code(rows, packed_step, [&](std::int64_t to, std::int64_t from) { target[to] = packed[from]; });
  }
  for (std::int64_t row = 0; row < rows.rows * rows.columns / run; ++row) {
    kernels.transpose({.input = packed + row * run * packed_step,
                       .input_row_stride = as_size(packed_step),
                       .rows = as_size(run),
                       .columns = as_size(rows.channels),
                       .flip = 0,
                       .output = target + row * rows.row_step,
                       .output_row_stride = as_size(rows.channel_step)});
  }
}

}  // namespace dmlcpu
