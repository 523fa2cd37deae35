#include "operators/convolution/winograd/winograd_plan.h"

#include <algorithm>
#include <cmath>

#include "operators/product_rate.h"
#include "runtime/aligned_buffer.h"
#include "runtime/cpu_features.h"

namespace dmlcpu {
namespace {

// Of a product's estimated time, that it is worth leaving it for.
constexpr double kGainThatPays = 0.9;

// Rows whose transforms fit half of the level-2 cache, in equal blocks. Threads divide the rows, of which each has as
// many blocks, and the panels where rows are fewer; or the panels alone.
WinogradPlan plan_divided(const ConvolutionGeometry& geometry, const ExecutionTarget& target, bool divides_panels) {
  const auto threads = static_cast<std::int64_t>(target.num_threads);
  const std::size_t nr = target.kernels().winograd->nr;
  WinogradPlan plan{};
  plan.across = {.outputs = geometry.output_width, .dilation = geometry.dilation_width};
  plan.down = {.outputs = geometry.output_height, .dilation = geometry.dilation_height};
  plan.rows = geometry.batch * plan.down.tiles();
  plan.panels = (as_size(geometry.output_channels) + nr - 1) / nr;
  plan.part_channels = channels_of_part(as_size(geometry.input_channels), false);
  const std::int64_t fitting =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(cache_sizes().level_2 / 2 / plan.row_bytes()));
  const std::int64_t least_blocks = divide_up(plan.rows, fitting);
  plan.rows_at_once = divide_up(plan.rows, divides_panels ? least_blocks : divide_up(least_blocks, threads) * threads);
  const std::int64_t of_panels = divides_panels ? threads : divide_up(threads, plan.blocks());
  const std::size_t groups = std::min(plan.panels, as_size(of_panels));
  plan.panels_at_once = (plan.panels + groups - 1) / groups;
  return plan;
}

// Estimates of the longest thread's cycles.
double winograd_cycles(const ConvolutionGeometry& geometry, const ExecutionTarget& target, const WinogradPlan& plan) {
  const WinogradKernels& kernels = *target.kernels().winograd;
  const auto tiles = static_cast<double>(plan.block_tiles());
  const auto outputs = static_cast<double>(plan.panels_at_once * kernels.nr);
  const auto inputs = static_cast<double>(round_up(as_size(geometry.input_channels), kWinogradChannelGroup));
  const double steps = std::ceil(inputs / static_cast<double>(kernels.channels_of_step));
  const double parts = std::ceil(inputs / static_cast<double>(plan.part_channels));
  const double products = kWinogradPlaces * inputs * outputs / kernels.products_per_cycle;
  const double of_task = tiles * (products * slowdown_of_products(target) +
                                  steps * static_cast<double>(kernels.channels_of_step) * kernels.cycles_of_input +
                                  parts * outputs * kernels.cycles_of_output) +
                         inputs * outputs * kernels.cycles_of_window;
  const double tasks = static_cast<double>(plan.blocks()) * static_cast<double>(plan.panel_groups());
  return of_task * std::ceil(tasks / target.num_threads);
}

// The share of an axis's taps that are inside the image.
double share_inside(std::int64_t outputs, std::int64_t dilation, std::int64_t padding, std::int64_t size) {
  constexpr std::int64_t kTaps = 3;
  std::int64_t inside = 0;
  for (std::int64_t tap = 0; tap < kTaps; ++tap) {
    inside += indices_inside(tap * dilation - padding, 1, size, outputs).count();
  }
  return as_number(inside) / as_number(kTaps * outputs);
}

// Of the taps that a plain product has: of windows with large dilations it leaves out those in the padding.
double share_of_taps(const ConvolutionGeometry& geometry) {
  if (geometry.dilation_height == 1 && geometry.dilation_width == 1) return 1.0;
  return share_inside(geometry.output_height, geometry.dilation_height, geometry.padding_top, geometry.input_height) *
         share_inside(geometry.output_width, geometry.dilation_width, geometry.padding_left, geometry.input_width);
}

// Of whole tiles of channels, the narrowest ones.
double cycles_of_plain_product(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  const std::size_t least_tile = target.kernels().gemm->least_tile;
  const auto channels = static_cast<double>(round_up(as_size(geometry.output_channels), least_tile));
  return as_number(geometry.batch) * as_number(geometry.output_height) * as_number(geometry.output_width) * channels *
         as_number(geometry.reduction()) * share_of_taps(geometry) * slowdown_of_products(target) /
         target.kernels().gemm->products_per_cycle / target.num_threads;
}

// Those that a group has to itself.
ExecutionTarget of_group_threads(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  return with_at_most(std::ceil(target.num_threads / as_number(geometry.groups)), target);
}

}  // namespace

std::size_t channels_of_part(std::size_t channels, bool any_filter) {
  const std::size_t most = any_filter ? kWinogradMostChannelsOfAnyFilter : kWinogradMostChannels;
  const std::size_t parts = (channels + most - 1) / most;
  return round_up((channels + parts - 1) / parts, kWinogradChannels);
}

ConvolutionGeometry of_one_group(const ConvolutionGeometry& geometry) {
  ConvolutionGeometry group = geometry;
  group.input_channels = geometry.group_input_channels();
  group.output_channels = geometry.group_output_channels();
  group.groups = 1;
  return group;
}

WinogradPlan plan_winograd(const ConvolutionGeometry& of_all, const ExecutionTarget& all_threads) {
  const ConvolutionGeometry geometry = of_one_group(of_all);
  const ExecutionTarget target = of_group_threads(of_all, all_threads);
  const WinogradPlan by_rows = plan_divided(geometry, target, false);
  const WinogradPlan by_panels = plan_divided(geometry, target, true);
  // A part of the channels is a cache line of each pixel at least, or threads would write to the same ones.
  const bool divides_panels = by_panels.panels_at_once * target.kernels().winograd->nr >= kAlignment &&
                              winograd_cycles(geometry, target, by_panels) < winograd_cycles(geometry, target, by_rows);
  return divides_panels ? by_panels : by_rows;
}

bool winograd_pays(const ConvolutionGeometry& of_all, const ExecutionTarget& all_threads) {
  // Rows are not cut: what no cache close to the core holds would be read from further away for each panel.
  const WinogradPlan plan = plan_winograd(of_all, all_threads);
  if (plan.row_bytes() > cache_sizes().level_2) return false;
  const ConvolutionGeometry geometry = of_one_group(of_all);
  const ExecutionTarget target = of_group_threads(of_all, all_threads);
  return winograd_cycles(geometry, target, plan) <= kGainThatPays * cycles_of_plain_product(geometry, target);
}

}  // namespace dmlcpu
