// The normative arithmetic of max_pool.h in plain C++: in the offset domain 0..255, where both types compare alike.
#include <cstring>

#include "kernels/max_pool/max_pool.h"

namespace dmlcpu {
namespace {

// channels codes; window is the first of them.
void pool_pixel(const MaxPoolRun& run, const std::uint8_t* window, std::uint8_t* output) noexcept {
  const std::size_t channels = run.channels, rows = run.rows, columns = run.columns;
  const std::uint8_t flip = run.is_signed ? 0x80 : 0x00;
  std::memcpy(output, window, channels);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const std::uint8_t* codes = window + row * run.row_step + column * run.column_step;
      for (std::size_t c = 0; c < channels; ++c) {
        const auto code = static_cast<std::uint8_t>(codes[c] ^ flip),
                   highest = static_cast<std::uint8_t>(output[c] ^ flip);
        output[c] = static_cast<std::uint8_t>((code > highest ? code : highest) ^ flip);
      }
    }
  }
}

void max_pool_run(const MaxPoolRun& run) noexcept {
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    pool_pixel(run, run.input + pixel * run.pixel_step, run.output + pixel * run.output_pixel_stride);
  }
}

}  // namespace

constinit const MaxPoolKernels scalar::max_pool = {.run = max_pool_run};

}  // namespace dmlcpu
