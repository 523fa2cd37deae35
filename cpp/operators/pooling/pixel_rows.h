// Rows of pixels in memory of any strides, and the same codes with channels as neighbours. By one thread: a task stages
// its own rows.
#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"

namespace dmlcpu {

// Steps are bytes.
struct PixelRows {
  std::int64_t channels, channel_step;
  std::int64_t rows, row_step;
  std::int64_t columns, column_step;
};

// Copy between the rows and packed memory, where pixels follow each other packed_step bytes apart, row after row.
void gather_pixels(const PixelRows& rows, const PackKernels& kernels, const std::uint8_t* source,
                   std::int64_t packed_step, std::uint8_t* packed);
void scatter_pixels(const PixelRows& rows, const PackKernels& kernels, const std::uint8_t* packed,
                    std::int64_t packed_step, std::uint8_t* target);

}  // namespace dmlcpu
