// The normative arithmetic of winograd.h in plain C++. Sums are taken in uint32, which wraps.
#include "kernels/winograd/winograd.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"
#include "kernels/winograd/transforms.inl.h"

constexpr std::size_t kNr = 16;

void transform_input(const WinogradInputRun& run) noexcept {
  for (std::size_t tile = 0; tile < run.tiles; ++tile) {
    const std::uint8_t* codes = run.codes + tile * kWinogradOutputs * run.pixel_stride;
    std::int16_t* planes = run.planes + tile * run.tile_stride;
    for (std::size_t channel = 0; channel < run.channels; ++channel) {
      transform_codes<std::int32_t>(
          [&](std::size_t row, std::size_t column) noexcept -> std::int32_t {
            return static_cast<std::int8_t>(codes[row * run.row_stride + column * run.pixel_stride + channel]);
          },
          [&](std::size_t row, std::size_t column, std::int32_t value) noexcept {
            planes[(row * 6 + column) * run.plane_stride + channel] = static_cast<std::int16_t>(value);
          });
    }
  }
}

void transform_filter(const WinogradFilterRun& run) noexcept {
  for (std::size_t channel = 0; channel < run.channels; ++channel) {
    for (std::size_t output = 0; output < kNr; ++output) {
      const std::uint8_t* filter = run.filter + (channel / 4 * kNr + output) * 4 + channel % 4;
      std::int16_t* planes = run.planes + (channel / 2 * kNr + output) * 2 + channel % 2;
      const std::int32_t zero_point = run.zero_point == nullptr ? 0 : run.zero_point[output];
      transform_window<std::int32_t>(
          [&](std::size_t row, std::size_t column) noexcept {
            return static_cast<std::int8_t>(filter[(row * 3 + column) * run.tap_stride]) - zero_point;
          },
          [&](std::size_t row, std::size_t column, std::int32_t value) noexcept {
            planes[(row * 6 + column) * run.plane_stride] = static_cast<std::int16_t>(value);
          });
    }
  }
}

void multiply(const WinogradProductRun& run) noexcept {
  for (std::size_t place = 0; place < kWinogradPlaces; ++place) {
    const std::int16_t* filter = run.filter + place * run.filter_plane_stride;
    for (std::size_t tile = 0; tile < run.tiles; ++tile) {
      const std::int16_t* activations =
          run.activations + place * run.activations_plane_stride + tile * run.activations_tile_stride;
      std::int32_t* products = run.products + place * run.products_plane_stride + tile * kNr;
      for (std::size_t column = 0; column < kNr; ++column) {
        std::uint32_t sum = 0;
        for (std::size_t channel = 0; channel < run.channels; ++channel) {
          sum +=
              static_cast<std::uint32_t>(activations[channel] * filter[(channel / 2 * kNr + column) * 2 + channel % 2]);
        }
        products[column] = static_cast<std::int32_t>(sum);
      }
    }
  }
}

void transform_output(const WinogradOutputRun& run) noexcept {
  for (std::size_t tile = 0; tile < run.tiles; ++tile) {
    const std::int32_t* products = run.products + tile * kNr;
    const std::size_t first = tile * kWinogradOutputs;
    for (std::size_t channel = 0; channel < kNr; ++channel) {
      transform_products<std::uint32_t>(
          [&](std::size_t row, std::size_t column) noexcept {
            return static_cast<std::uint32_t>(products[(row * 6 + column) * run.plane_stride + channel]);
          },
          [&](std::size_t row, std::size_t column, std::uint32_t value) noexcept {
            const std::size_t place = ((tile * kWinogradOutputs + row) * kWinogradOutputs + column) * kNr + channel;
            const std::int32_t sum = static_cast<std::int32_t>(value * kInverseOfNine) >> shift_of(row, column);
            const std::int32_t begun = run.before == nullptr ? run.offset[channel] : run.before[place];
            const auto whole =
                static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) + static_cast<std::uint32_t>(begun));
            if (run.after != nullptr) {
              run.after[place] = whole;
            } else if (row < run.rows && first + column < run.columns && channel < run.channels) {
              run.output[row * run.row_stride + (first + column) * run.pixel_stride + channel] =
                  to_code(static_cast<float>(whole) * run.multiplier[channel], run.output_zero_point, run.flip);
            }
          });
    }
  }
}

}  // namespace

constinit const WinogradKernels scalar::winograd = {.nr = kNr,
                                                    .mr = 1,
                                                    .channels_of_step = 1,
                                                    .products_per_cycle = 1,
                                                    .cycles_of_input = 200,
                                                    .cycles_of_output = 200,
                                                    .cycles_of_window = 80,
                                                    .transform_input = transform_input,
                                                    .transform_filter = transform_filter,
                                                    .multiply = multiply,
                                                    .transform_output = transform_output};

}  // namespace dmlcpu
