#include "operators/product_plan.h"

#include <algorithm>
#include <numeric>

#include "operators/padded_planes.h"
#include "runtime/cpu_features.h"

namespace dmlcpu {

std::optional<std::int64_t> readable_pixel_stride(const ConvolutionGeometry& geometry) {
  if (!geometry.pointwise() || geometry.input.c != 1) return std::nullopt;
  return uniform_pixel_stride(geometry.input, geometry.batch, geometry.input_height, geometry.input_width);
}

namespace {

// Whether reading windows from padded planes beats gathering them. The positions that planes waste
// cost products; gathering costs about a cycle for 16 codes, shared by all output channels.
bool planes_pay(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::int64_t row_positions) {
  const double waste = static_cast<double>(row_positions) / static_cast<double>(geometry.output_width) - 1.0;
  return waste * static_cast<double>(geometry.group_output_channels()) <= kernels.products_per_cycle / 16.0;
}

// Rows of a product are read in place as whole kernel rows, whose columns must be neighbours, and as the unsigned codes
// that they must be.
ActivationsFrom choose_source(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t flip) {
  if (geometry.pointwise()) {
    const bool whole_steps = as_size(geometry.group_input_channels()) % kernels.kr == 0;
    const bool readable = readable_pixel_stride(geometry).has_value();
    return readable && whole_steps && flip == 0 ? ActivationsFrom::input : ActivationsFrom::pixels;
  }
  const bool whole_rows = geometry.groups == 1 && geometry.dilation_width == 1;
  if (!whole_rows || !PaddedPlanes::applies(geometry)) return ActivationsFrom::pixels;
  const std::int64_t row_positions = PaddedPlanes(geometry).row_positions();
  return planes_pay(geometry, kernels, row_positions) ? ActivationsFrom::planes : ActivationsFrom::pixels;
}

TermOrder choose_order(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const ProductPlan& plan) {
  const bool by_rows = plan.in_place && plan.source == ActivationsFrom::planes;
  const std::size_t segments = by_rows ? as_size(geometry.kernel_height) : 1;
  const std::size_t terms = as_size(geometry.reduction()) / segments;
  return {.segments = segments, .segment_terms = terms, .segment_padded = round_up(terms, kernels.kr)};
}

// A tile's packed activations and accumulators share half of the level-2 cache; the filter streams through the rest.
// With several threads tiles shrink until each thread has four, and where even single tiles are too few, the channel
// blocks of a tile become tasks of their own.
void choose_blocking(const ConvolutionGeometry& geometry, const GemmKernels& kernels, int num_threads,
                     ProductPlan& plan) {
  const bool whole_batch = plan.source != ActivationsFrom::planes;
  plan.units = whole_batch ? 1 : geometry.batch;
  plan.unit_distance = geometry.output_height * plan.row_positions;
  plan.unit_positions =
      plan.unit_distance * (whole_batch ? geometry.batch : 1) - (plan.row_positions - geometry.output_width);

  constexpr std::int64_t kMaxBlockChannels = 128, kMaxTilePositions = 256, kTilesPerThread = 4;
  const auto position_multiple = static_cast<std::int64_t>(kernels.mr);
  const auto channel_multiple = static_cast<std::int64_t>(kernels.nr);
  const std::int64_t channels = geometry.group_output_channels();
  plan.block_channels = std::min(divide_up(channels, channel_multiple) * channel_multiple,
                                 divide_up(kMaxBlockChannels, channel_multiple) * channel_multiple);
  plan.blocks = divide_up(channels, plan.block_channels);

  const auto budget = static_cast<std::int64_t>(cache_sizes().level_2 / 2);
  const std::int64_t bytes_per_position = static_cast<std::int64_t>(plan.filter.order.k()) +
                                          plan.block_channels * static_cast<std::int64_t>(sizeof(std::int32_t));
  std::int64_t positions = std::min(kMaxTilePositions, budget / bytes_per_position);
  if (num_threads > 1) {
    positions = std::min(positions, divide_up(plan.unit_positions * plan.units, num_threads * kTilesPerThread));
  }
  // Tiles that are transposed on their way in or out are also whole cache lines of pixels, where that is possible.
  constexpr std::int64_t kCacheLine = 64;
  const std::int64_t line_multiple = std::lcm(position_multiple, kCacheLine);
  const bool planes = geometry.input.c != 1 || geometry.output.c != 1;
  const std::int64_t multiple = planes && positions >= line_multiple ? line_multiple : position_multiple;
  positions = std::max(positions / multiple, std::int64_t{1}) * multiple;
  plan.tile_positions = std::min(positions, plan.unit_positions);
  plan.tiles_of_unit = divide_up(plan.unit_positions, plan.tile_positions);

  const std::int64_t tiles = plan.units * plan.tiles_of_unit;
  plan.block_splits = std::clamp<std::int64_t>(divide_up(num_threads, tiles), 1, plan.blocks);
  plan.participants = static_cast<int>(std::min<std::int64_t>(num_threads, tiles * plan.block_splits));
}

void lay_out_scratch(const GemmKernels& kernels, std::size_t planes_size, ProductPlan& plan) {
  const std::size_t positions = as_size(plan.tile_positions);
  const std::size_t block = as_size(plan.block_channels);

  BufferLayout own;
  plan.activations = own.take(plan.in_place ? 0 : positions, plan.filter.order.k());
  plan.accumulators = own.take(round_up(block, kernels.nr) * positions, sizeof(std::int32_t));
  plan.activation_sums = own.take(2 * positions, sizeof(std::int32_t));
  plan.codes = own.take(block, positions);
  plan.participant_size = own.size();

  BufferLayout all;
  all.take(planes_size);
  plan.participants_offset = all.take(as_size(plan.participants), plan.participant_size);
  plan.scratch_size = all.size();
}

}  // namespace

ProductPlan plan_product(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t input_flip,
                         int num_threads) {
  ProductPlan plan{};
  plan.source = choose_source(geometry, kernels, input_flip);
  plan.in_place = plan.source != ActivationsFrom::pixels;
  plan.filter = packed_filter(geometry, kernels, choose_order(geometry, kernels, plan));
  const bool has_planes = plan.source == ActivationsFrom::planes;
  const std::optional<PaddedPlanes> planes =
      has_planes ? std::optional<PaddedPlanes>(std::in_place, geometry) : std::nullopt;
  plan.row_positions = has_planes ? planes->row_positions() : geometry.output_width;
  choose_blocking(geometry, kernels, num_threads, plan);
  lay_out_scratch(kernels, has_planes ? planes->size() : 0, plan);
  return plan;
}

}  // namespace dmlcpu
