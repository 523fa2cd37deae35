#include "operators/convolution/product/product_regions.h"

#include <algorithm>

#include "operators/convolution/product/product_estimates.h"
#include "operators/sizes.h"
#include "runtime/aligned_buffer.h"
#include "runtime/cpu_features.h"

namespace dmlcpu {
namespace {

struct Axis {
  std::int64_t outputs, stride, kernel, dilation, padding, size;
};

// An interval ends wherever a tap enters the image or leaves it.
std::vector<OutputInterval> intervals(const Axis& axis) {
  std::vector<std::int64_t> ends = {0, axis.outputs};
  for (std::int64_t tap = 0; tap < axis.kernel; ++tap) {
    const IndexRange inside = indices_inside(tap * axis.dilation - axis.padding, axis.stride, axis.size, axis.outputs);
    ends.push_back(inside.begin);
    ends.push_back(inside.end);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::vector<OutputInterval> result;
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
    result.push_back({ends[i], ends[i + 1],
                      indices_inside(ends[i] * axis.stride - axis.padding, axis.dilation, axis.size, axis.kernel)});
  }
  return result;
}

// Distinct rows (or columns) of the input that the windows of neighbouring outputs read.
std::int64_t rows_read(std::int64_t outputs, std::int64_t stride, std::int64_t taps, std::int64_t dilation) {
  return std::min(outputs * taps, window_extent(outputs, stride, taps, dilation));
}

// Outputs of a tile.
struct TileSize {
  std::int64_t rows, columns;

  std::int64_t pixels() const { return rows * columns; }
};

// Whether runs of the product fill the kernel's tiles better along columns of the output than along rows.
bool fill_better_down(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const OutputInterval& rows,
                      const OutputInterval& columns) {
  const double across = static_cast<double>(rows.count()) * rows_in_time(kernels, columns.count());
  const double down = static_cast<double>(columns.count()) * rows_in_time(kernels, rows.count());
  return geometry.output.c == 1 && down < 0.95 * across;
}

// Codes of the input that a tile reads.
double codes_read(const ConvolutionGeometry& geometry, const OutputInterval& rows, const OutputInterval& columns,
                  const TileSize& tile) {
  const std::int64_t of_rows =
      rows_read(tile.rows, geometry.stride_height, rows.taps.count(), geometry.dilation_height);
  const std::int64_t of_columns =
      rows_read(tile.columns, geometry.stride_width, columns.taps.count(), geometry.dilation_width);
  return static_cast<double>(of_rows) * static_cast<double>(of_columns) * as_number(geometry.input_channels);
}

// Tiles are a few lines long enough for the kernel's tiles, of which the inputs fit half of the level-2 cache: a run as
// long as fits, in equal parts, then as many runs as fit.
TileSize choose_tile(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const OutputInterval& rows,
                     const OutputInterval& columns, bool down_columns, std::int64_t most_pixels) {
  const auto tile_of = [&](std::int64_t m, std::int64_t runs) {
    return down_columns ? TileSize{m, runs} : TileSize{runs, m};
  };
  const double budget = static_cast<double>(cache_sizes().level_2) / 2.0;
  const auto fits = [&](const TileSize& tile) {
    return tile.pixels() <= most_pixels && codes_read(geometry, rows, columns, tile) <= budget;
  };
  const std::int64_t run = down_columns ? rows.count() : columns.count();
  const std::int64_t runs = down_columns ? columns.count() : rows.count();
  const auto mr = static_cast<std::int64_t>(kernels.mr);
  std::int64_t parts = divide_up(run, std::max(mr, most_pixels));
  while (divide_up(run, parts) > mr && !fits(tile_of(divide_up(run, parts), 1))) parts += parts / 8 + 1;
  const std::int64_t m = divide_up(run, parts);
  std::int64_t bands = std::min(runs, divide_up(runs * m, most_pixels));
  while (bands < runs && !fits(tile_of(m, divide_up(runs, bands)))) bands = std::min(runs, bands + bands / 8 + 1);
  return tile_of(m, divide_up(runs, bands));
}

// All regions keep a table of their taps.
constexpr std::size_t kMostTapsOfRegions = 1 << 12;

}  // namespace

ProductRegions cut_into_regions(const ConvolutionGeometry& geometry, const GemmKernels& kernels,
                                std::int64_t most_tile_pixels) {
  ProductRegions result{};
  const std::size_t most = kMostTapsOfRegions, kernel_height = as_size(geometry.kernel_height),
                    kernel_width = as_size(geometry.kernel_width);
  if (kernel_height > most || kernel_width > most || kernel_height * kernel_width > most) return result;
  const std::vector<OutputInterval> rows =
      intervals({geometry.output_height, geometry.stride_height, geometry.kernel_height, geometry.dilation_height,
                 geometry.padding_top, geometry.input_height});
  const std::vector<OutputInterval> columns =
      intervals({geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width,
                 geometry.padding_left, geometry.input_width});
  if (rows.size() * columns.size() * kernel_height * kernel_width > most) return result;

  result.order =
      term_order(geometry.kernel_height * geometry.kernel_width, geometry.group_input_channels(), kernels.kr);
  const auto filter_k = static_cast<double>(result.order.k());
  for (const OutputInterval& of_rows : rows) {
    for (const OutputInterval& of_columns : columns) {
      const bool down = fill_better_down(geometry, kernels, of_rows, of_columns);
      const TileSize tile = choose_tile(geometry, kernels, of_rows, of_columns, down, most_tile_pixels);
      const ProductRegion region = {.rows = of_rows,
                                    .columns = of_columns,
                                    .down_columns = down,
                                    .tile_rows = tile.rows,
                                    .tile_columns = tile.columns,
                                    .tiles_across = divide_up(of_columns.count(), tile.columns),
                                    .first_tile = result.tiles};
      result.tiles += region.tiles();
      result.tile_pixels = std::max(result.tile_pixels, tile.pixels());
      const double k = static_cast<double>(region.taps()) * static_cast<double>(result.order.segment_padded);
      const std::int64_t runs = down ? of_columns.count() : of_rows.count();
      const std::int64_t m = down ? of_rows.count() : of_columns.count();
      result.cycles +=
          std::max(cycles_of_runs(geometry, kernels, runs, m, k),
                   static_cast<double>(region.tiles()) * cycles_of_fetching(geometry, kernels, filter_k, k));
      result.regions.push_back(region);
    }
  }
  return result;
}

void take_out_taps(const ConvolutionGeometry& geometry, const ProductRegion& region, const std::int32_t* tap_sums,
                   const std::int32_t* filter_zero_point, std::int32_t input_zero_point, std::int32_t* offsets) {
  const auto zero_point = static_cast<std::uint32_t>(input_zero_point);
  const std::uint32_t zero_points_of_tap = static_cast<std::uint32_t>(geometry.filter_input_channels()) * zero_point;
  const std::size_t channels = as_size(geometry.output_channels);
  for (std::int64_t tap = 0; tap < geometry.kernel_height * geometry.kernel_width; ++tap, tap_sums += channels) {
    if (region.has_tap(tap / geometry.kernel_width, tap % geometry.kernel_width)) continue;
    for (std::size_t c = 0; c < channels; ++c) {
      const auto of_filter = static_cast<std::uint32_t>(filter_zero_point == nullptr ? 0 : filter_zero_point[c]);
      offsets[c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(offsets[c]) +
                                             zero_point * static_cast<std::uint32_t>(tap_sums[c]) -
                                             zero_points_of_tap * of_filter);
    }
  }
}

}  // namespace dmlcpu
