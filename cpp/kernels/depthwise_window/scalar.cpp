// The normative arithmetic of depthwise_window.h. Sums are taken in uint32, which wraps.
#include "kernels/depthwise_window/depthwise_window.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

struct Pixel {
  std::size_t row, column;
};

// Of a slice of the window.
struct SliceTap {
  std::size_t slice;
  WindowTap tap;
};

// The channels of a block, by lanes; those of a narrow block's other pixels are left out.
struct Block {
  std::size_t number, lanes;
  std::size_t lane[kWindowLanes], channel[kWindowLanes];
};

Block block_of(const WindowBlock& channels, std::size_t number) noexcept {
  Block block = {.number = number, .lanes = 0, .lane = {}, .channel = {}};
  for (std::size_t lane = 0; lane < kWindowLanes; ++lane) {
    if (lane / 4 % 4 * 16 >= channels.channels) continue;
    block.lane[block.lanes] = lane;
    block.channel[block.lanes++] = channels.channel + window_lane_channel(channels.channels, lane);
  }
  return block;
}

// Adds a tap to the sums of a pixel and to those of its codes.
void add_tap(const DepthwiseWindowRun& run, const Block& block, const Pixel& pixel, const SliceTap& of_slice,
             const std::int8_t* filter, std::uint32_t* sums, std::uint32_t* codes) noexcept {
  const auto [slice, tap] = of_slice;
  const std::ptrdiff_t column = run.first_column + static_cast<std::ptrdiff_t>(pixel.column * run.stride + tap.column);
  const bool is_padding = column < 0 || column >= run.columns;
  const std::uint8_t* activations =
      run.rows[(pixel.row * run.slices + slice) * run.window + tap.row] + (is_padding ? 0 : column * run.column_step);
  for (std::size_t i = 0; i < block.lanes; ++i) {
    const std::uint8_t stored = is_padding ? run.padding[0] : activations[block.channel[i]];
    const std::uint8_t code = stored ^ run.input_flip;
    sums[i] += static_cast<std::uint32_t>(code * filter[block.lane[i] * 4]);
    codes[i] += code;
  }
}

void convolve_pixel(const DepthwiseWindowRun& run, const Block& block, const Pixel& pixel) noexcept {
  const std::size_t groups = window_groups(run.window), parameters = block.number * kWindowLanes;
  std::uint32_t sums[kWindowLanes], codes[kWindowLanes] = {};
  for (std::size_t i = 0; i < block.lanes; ++i) {
    sums[i] = static_cast<std::uint32_t>(run.offset[parameters + block.lane[i]]);
  }
  for (std::size_t group = 0; group < run.slices * groups; ++group) {
    for (std::size_t i = 0; i < 4; ++i) {
      const WindowTap tap = window_tap(run.window, run.stride, group % groups, i);
      const std::int8_t* filter = run.filter + (block.number * run.slices * groups + group) * kWindowLanes * 4 + i;
      if (tap.present) add_tap(run, block, pixel, {group / groups, tap}, filter, sums, codes);
    }
  }
  for (std::size_t i = 0; i < block.lanes; ++i) {
    const std::size_t parameter = parameters + block.lane[i];
    if (run.filter_zero_point != nullptr) {
      sums[i] -= static_cast<std::uint32_t>(run.filter_zero_point[parameter]) * codes[i];
    }
    const std::size_t element =
        pixel.row * run.output_row_stride + pixel.column * run.output_pixel_stride + block.channel[i];
    if (run.sums != nullptr) {
      run.sums[element] = static_cast<std::int32_t>(sums[i]);
    } else {
      const float scaled = static_cast<float>(static_cast<std::int32_t>(sums[i])) * run.multiplier[parameter];
      run.output[element] = to_code(scaled, run.output_zero_point, run.flip);
    }
  }
}

void convolve(const DepthwiseWindowRun& operands) noexcept {
  const DepthwiseWindowRun run = operands;  // a copy: bytes of output could alias the original
  std::size_t end = 0;
  for (std::size_t number = 0; end < run.channels; ++number) {
    const WindowBlock channels = next_window_block(run.channels, end);
    const Block block = block_of(channels, number);
    end = channels.channel + channels.channels;
    Pixel pixel;
    for (pixel.row = 0; pixel.row < run.output_rows; ++pixel.row) {
      for (pixel.column = 0; pixel.column < run.pixels; ++pixel.column) convolve_pixel(run, block, pixel);
    }
  }
}

}  // namespace

constinit const DepthwiseWindowKernels scalar::depthwise_window = {.convolve = convolve};

}  // namespace dmlcpu
