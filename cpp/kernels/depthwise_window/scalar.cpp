// The normative arithmetic of depthwise_window.h. Sums are taken in uint32, which wraps.
#include "kernels/depthwise_window/depthwise_window.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

struct Pixel {
  std::size_t row, column;
};

std::uint8_t code_at(const DepthwiseWindowRun& run, std::size_t row, std::ptrdiff_t column,
                     std::size_t channel) noexcept {
  const bool is_padding = column < 0 || column >= run.columns;
  const std::uint8_t code =
      is_padding ? run.padding[0] : run.rows[row][column * run.column_step + static_cast<std::ptrdiff_t>(channel)];
  return code ^ run.input_flip;
}

std::uint32_t sum_of(const DepthwiseWindowRun& run, const Pixel& pixel, std::size_t channel, std::size_t block,
                     std::size_t lane) noexcept {
  const std::size_t groups = window_groups(run.window), parameter = block * kWindowLanes + lane;
  std::uint32_t sum = static_cast<std::uint32_t>(run.offset[parameter]), codes = 0;
  const std::ptrdiff_t first = run.first_column + static_cast<std::ptrdiff_t>(pixel.column * run.stride);
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t i = 0; i < 4; ++i) {
      const WindowTap tap = window_tap(run.window, run.stride, group, i);
      if (!tap.present) continue;
      const std::uint8_t code =
          code_at(run, pixel.row * run.window + tap.row, first + static_cast<std::ptrdiff_t>(tap.column), channel);
      sum += static_cast<std::uint32_t>(code * run.filter[((block * groups + group) * kWindowLanes + lane) * 4 + i]);
      codes += code;
    }
  }
  if (run.filter_zero_point != nullptr) sum -= static_cast<std::uint32_t>(run.filter_zero_point[parameter]) * codes;
  return sum;
}

void convolve_lane(const DepthwiseWindowRun& run, std::size_t channel, std::size_t block, std::size_t lane) noexcept {
  Pixel pixel;
  for (pixel.row = 0; pixel.row < run.output_rows; ++pixel.row) {
    for (pixel.column = 0; pixel.column < run.pixels; ++pixel.column) {
      const auto sum = static_cast<std::int32_t>(sum_of(run, pixel, channel, block, lane));
      const std::size_t element = pixel.row * run.output_row_stride + pixel.column * run.output_pixel_stride + channel;
      if (run.sums != nullptr) {
        run.sums[element] = sum;
      } else {
        const float scaled = static_cast<float>(sum) * run.multiplier[block * kWindowLanes + lane];
        run.output[element] = to_code(scaled, run.output_zero_point, run.flip);
      }
    }
  }
}

void convolve(const DepthwiseWindowRun& operands) noexcept {
  const DepthwiseWindowRun run = operands;  // a copy: bytes of output could alias the original
  std::size_t end = 0;
  for (std::size_t number = 0; end < run.channels; ++number) {
    const WindowBlock block = next_window_block(run.channels, end);
    end = block.channel + block.channels;
    for (std::size_t lane = 0; lane < kWindowLanes; ++lane) {
      if (lane / 4 % 4 * 16 >= block.channels) continue;  // the same channel of another pixel
      convolve_lane(run, block.channel + window_lane_channel(block.channels, lane), number, lane);
    }
  }
}

}  // namespace

constinit const DepthwiseWindowKernels scalar::depthwise_window = {.convolve = convolve};

}  // namespace dmlcpu
