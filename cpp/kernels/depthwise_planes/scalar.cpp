// The normative arithmetic of depthwise_planes.h in plain C++.
#include "kernels/depthwise_planes/depthwise_planes.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"

// Which output.
struct Place {
  std::size_t block, step, lane;
};

// The sum of an output, modulo 2^32.
std::uint32_t sum_of(const DepthwisePlanesRun& run, const Place& place, std::size_t channel) noexcept {
  const std::size_t groups = plane_groups(run.columns);
  const PlaneBlock& block = run.blocks[place.block];
  const std::uint8_t* const plane = run.input + static_cast<std::ptrdiff_t>(channel) * run.input_plane_step;
  std::uint32_t sum = static_cast<std::uint32_t>(run.offset[channel]), codes = 0;
  for (std::size_t r = 0; r < run.rows; ++r) {
    const std::size_t row = place.step * run.row_stride + r;
    for (std::size_t k = 0; k < run.columns; ++k) {
      const std::size_t group = k / 4, byte = place.lane * 4 + k % 4;
      const std::ptrdiff_t from = block.first + static_cast<std::ptrdiff_t>(row) * run.row_step;
      const std::uint8_t order = run.orders[block.order + group * kPlaneBytes + byte];
      const bool is_inside = (run.inside[block.inside + row * groups + group] >> byte & 1) != 0;
      const std::uint32_t code =
          is_inside ? static_cast<std::uint8_t>(plane[from + order] ^ run.input_flip) : run.padding;
      const std::int8_t tap = run.filter[((channel * run.rows + r) * groups + group) * 4 + k % 4];
      sum += code * static_cast<std::uint32_t>(std::int32_t{tap});
      codes += code;
    }
  }
  if (run.filter_zero_point == nullptr) return sum;
  return sum - codes * static_cast<std::uint32_t>(run.filter_zero_point[channel]);
}

void convolve_block(const DepthwisePlanesRun& run, std::size_t number, std::size_t channel) noexcept {
  const PlaneBlock& block = run.blocks[number];
  std::uint8_t* output = run.output + static_cast<std::ptrdiff_t>(channel) * run.output_plane_step + block.output;
  for (std::size_t step = 0; step < block.steps; ++step, output += run.output_step) {
    for (std::size_t lane = 0; lane < block.lanes; ++lane) {
      const auto sum = static_cast<std::int32_t>(sum_of(run, {number, step, lane}, channel));
      const float scaled = static_cast<float>(sum) * run.multiplier[channel];
      output[lane] = to_code(scaled, run.output_zero_point, run.flip);
    }
  }
}

void convolve(const DepthwisePlanesRun& operands) noexcept {
  const DepthwisePlanesRun run = operands;  // a copy: bytes of output could alias the original
  for (std::size_t channel = 0; channel < run.channels; ++channel) {
    for (std::size_t block = 0; block < run.block_count; ++block) convolve_block(run, block, channel);
  }
}

}  // namespace

constinit const DepthwisePlanesKernels scalar::depthwise_planes = {.convolve = convolve};

}  // namespace dmlcpu
