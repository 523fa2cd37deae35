// The largest codes of windows, channels side by side.
//
//   output[p * output_pixel_stride + c] =
//       max over r < rows, t < columns of input[p * pixel_step + r * row_step + t * column_step + c]
//
//   input      | c c c c | c c c c | c c c c | ...     a pixel is `channels` neighbours; a window is a grid of pixels,
//              | c c c c | c c c c | c c c c | ...     row_step and column_step bytes apart; that of the next output
//                ^ column_step ^                       pixel begins pixel_step bytes further on
//
// Codes compare as UINT8, or as INT8 where is_signed. What lies in the padding is left out by the caller.
//
// Contract: reads and writes what the formula names, nothing else; at least one row and one column; pixels of the
// output do not overlap each other nor the input; no alignment is assumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct MaxPoolRun {
  const std::uint8_t* input;
  std::size_t pixel_step;
  std::size_t rows, row_step;
  std::size_t columns, column_step;
  std::size_t pixels;
  std::size_t channels;
  bool is_signed;
  std::uint8_t* output;
  std::size_t output_pixel_stride;
};

struct MaxPoolKernels {
  void (*run)(const MaxPoolRun& run) noexcept;
};

namespace scalar {
extern const MaxPoolKernels max_pool;
}
namespace avx2 {
extern const MaxPoolKernels max_pool;
}
namespace avx512_vnni {
extern const MaxPoolKernels max_pool;
}

}  // namespace dmlcpu
