// The kernels of convolutions and matrix products, and those that make outputs of their sums.
#include <algorithm>
#include <string>
#include <vector>

#include "kernel_bench.h"

namespace dmlcpu {
namespace {

void bench_gemm(const KernelBench& bench, std::size_t k) {
  static constexpr std::size_t m = 96, n = 64;
  const GemmBlock block = {.a = bench.a.data(),
                           .a_row_stride = k,
                           .b = bench.b.data(),
                           .b_panel_stride = bench.table.gemm->nr * k,
                           .m = m,
                           .n = n,
                           .k = k,
                           .offset = integers(bench.a),
                           .multiplier = floats(bench.parameters),
                           .output_zero_point = 100.0F,
                           .output = bench.c.data(),
                           .output_row_stride = n};
  bench.report("gemm 96x64x" + std::to_string(k), 2 * m * n * k, "operations",
               [&] { bench.table.gemm->multiply(block); });
}

void bench_depthwise(const KernelBench& bench) {
  const std::size_t offsets[3] = {0, 256, 512};
  const DepthwiseRun run = {.activations = bench.a.data(),
                            .pixel_step = 256,
                            .offsets = offsets,
                            .groups = 3,
                            .filter = reinterpret_cast<const std::int8_t*>(bench.b.data()),
                            .taps = reinterpret_cast<const std::int8_t*>(bench.b.data()),
                            .pixels = 28,
                            .channels = 64,
                            .offset = integers(bench.a),
                            .multiplier = floats(bench.parameters),
                            .filter_zero_point = nullptr,
                            .output_zero_point = 100.0F,
                            .flip = 0,
                            .output = bench.c.data(),
                            .output_pixel_stride = 64};
  bench.report("depthwise 3x3", 2UL * 9 * 28 * 64, "operations", [&] { bench.table.depthwise->convolve(run); });
}

// Rows of 28 pixels of 64 channels, with padding.
void bench_depthwise_window(const KernelBench& bench) {
  static constexpr std::size_t pixels = 28, channels = 64, row_count = 16;
  const std::vector<std::uint8_t> padding(kWindowLanes, 7);
  for (const std::size_t window : {3, 5}) {
    std::vector<const std::uint8_t*> rows;
    for (std::size_t i = 0; i < row_count * window; ++i) {
      rows.push_back(bench.a.data() + (i / window + i % window) * pixels * channels);
    }
    const DepthwiseWindowRun run = {.window = window,
                                    .stride = 1,
                                    .rows = rows.data(),
                                    .column_step = channels,
                                    .first_column = -static_cast<std::ptrdiff_t>(window / 2),
                                    .columns = pixels,
                                    .padding = padding.data(),
                                    .input_flip = 0,
                                    .filter = reinterpret_cast<const std::int8_t*>(bench.b.data()),
                                    .output_rows = row_count,
                                    .pixels = pixels,
                                    .channels = channels,
                                    .offset = integers(bench.a),
                                    .multiplier = floats(bench.parameters),
                                    .filter_zero_point = nullptr,
                                    .output_zero_point = 100.0F,
                                    .flip = 0,
                                    .output = bench.c.data(),
                                    .output_pixel_stride = channels,
                                    .output_row_stride = pixels * channels};
    const std::string size = std::to_string(window) + "x" + std::to_string(window);
    bench.report("depthwise window " + size, 2 * window * window * row_count * pixels * channels, "operations",
                 [&] { bench.table.depthwise_window->convolve(run); });
  }
}

// A tile of sums in cache.
void bench_rescale(const KernelBench& bench) {
  static constexpr std::size_t m = 64, n = 128;
  const RescaleBlock block = {.sums = integers(bench.a),
                              .sums_row_stride = n,
                              .m = m,
                              .n = n,
                              .row_zero_point = integers(bench.b),
                              .column_sum = integers(bench.b),
                              .row_multiplier = floats(bench.parameters),
                              .column_multiplier = floats(bench.parameters),
                              .row_output_zero_point = floats(bench.parameters),
                              .flip = 0,
                              .bias = bench.parameters.data(),
                              .bias_row_stride = 0,
                              .output = bench.c.data(),
                              .output_row_stride = n};
  bench.report("rescale to codes", m * n, "elements", [&] { bench.table.rescale->to_codes(block); });
  bench.report("rescale to float32", m * n, "elements", [&] { bench.table.rescale->to_float32(block); });
  bench.report("rescale to float16", m * n, "elements", [&] { bench.table.rescale->to_float16(block); });
}

void bench_float_product(const KernelBench& bench) {
  const std::size_t columns = bench.table.float_product->panel_columns;
  FloatProductBlock block = {.a = floats(bench.parameters),
                             .a_row_stride = 128,
                             .b = floats(bench.parameters),
                             .b_row_stride = columns,
                             .m = 1,
                             .k = 128,
                             .n = 64,
                             .sums = floats(bench.c),
                             .sums_row_stride = 64,
                             .begins = false,
                             .b_panel_stride = 128 * columns};
  for (const std::size_t rows : {std::size_t{1}, std::size_t{16}}) {
    block.m = rows;
    std::fill_n(block.sums, rows * block.n, 0.0F);
    bench.report("float product " + std::to_string(rows) + "x128x64", 2 * rows * block.n * block.k, "operations",
                 [&] { bench.table.float_product->accumulate(block); });
  }
}

void bench_dequantized_product(const KernelBench& bench) {
  const DequantizedProductKernels& kernels = *bench.table.dequantized_product;
  const std::vector<std::uint8_t> zero_points(4 * kCodedPanelColumns, 8);  // one for all, as weights have as a rule
  DequantizedProductBlock block = {.a = floats(bench.parameters),
                                   .a_row_stride = 128,
                                   .b = {.words = reinterpret_cast<const std::uint32_t*>(bench.a.data()),
                                         .scale = floats(bench.parameters),
                                         .zero_point = zero_points.data(),
                                         .block = 32,
                                         .k = 128},
                                   .m = 1,
                                   .n = 64,
                                   .sums = floats(bench.c),
                                   .sums_row_stride = 64,
                                   .begins = true};
  for (const std::size_t bits : {4U, 8U}) {
    const DequantizedProductFunctions& functions = bits == 4 ? kernels.of_4_bits : kernels.of_8_bits;
    const std::string of_bits = ", " + std::to_string(bits) + " bits";
    for (const std::size_t rows : {std::size_t{1}, std::size_t{4}}) {
      block.m = rows;
      bench.report("dequantized product " + std::to_string(rows) + "x128x64" + of_bits, 2 * rows * block.n * block.b.k,
                   "operations", [&] { functions.accumulate(block); });
    }
    bench.report("dequantized panel 128x64" + of_bits, block.b.k * kCodedPanelColumns, "elements",
                 [&] { functions.dequantize(block.b, floats(bench.c)); });
  }
}

void bench_block_product(const KernelBench& bench) {
  BlockProduct product = {.a = reinterpret_cast<const std::int8_t*>(bench.a.data()),
                          .a_scale = floats(bench.parameters),
                          .a_negative_sum = integers(bench.b),
                          .words = reinterpret_cast<const std::uint32_t*>(bench.a.data()),
                          .scale = floats(bench.parameters),
                          .zero_point = bench.b.data(),
                          .m = 1,
                          .n = 64,
                          .blocks = 4,
                          .block = 32,
                          .sums = floats(bench.c),
                          .sums_row_stride = 64};
  for (const std::size_t bits : {4U, 8U}) {
    const auto multiply =
        bits == 4 ? bench.table.block_product->multiply_4_bits : bench.table.block_product->multiply_8_bits;
    for (const std::size_t rows : {std::size_t{1}, std::size_t{4}}) {
      product.m = rows;
      bench.report("block product " + std::to_string(rows) + "x128x64, " + std::to_string(bits) + " bits",
                   2 * rows * product.n * product.blocks * product.block, "operations", [&] { multiply(product); });
    }
  }
}

void bench_grouped(const KernelBench& bench, std::size_t group_channels) {
  if (group_channels > bench.table.grouped->most_group_lanes * kGroupedLaneChannels) return;
  const std::size_t offsets[9] = {0, 64, 128, 1920, 1984, 2048, 3840, 3904, 3968};
  const GroupedRun run = {.activations = bench.a.data(),
                          .pixel_step = 64,
                          .offsets = offsets,
                          .taps = 9,
                          .group_lanes = group_channels / kGroupedLaneChannels,
                          .filter = bench.b.data(),
                          .pixels = 28,
                          .channels = 64,
                          .offset = integers(bench.a),
                          .multiplier = floats(bench.parameters),
                          .filter_zero_point = nullptr,
                          .output_zero_point = 100.0F,
                          .flip = 0,
                          .output = bench.c.data(),
                          .output_pixel_stride = 64};
  bench.report("grouped 3x3, " + std::to_string(group_channels) + " channels", 2UL * 9 * 28 * 64 * group_channels,
               "operations", [&] { bench.table.grouped->convolve(run); });
}

// 3x3 windows of 64 channels, 112 pixels of a row.
void bench_few_channels(const KernelBench& bench, std::size_t channels) {
  if (bench.table.few_channels == nullptr) return;
  constexpr std::size_t kSegments = 3 * 16, kGroupBytes = 512;
  const std::uint8_t* const rows[3] = {bench.a.data(), bench.a.data() + 8192, bench.a.data() + 16384};
  std::size_t offsets[kSegments];
  for (std::size_t segment = 0; segment < kSegments; ++segment) {
    offsets[segment] = segment % 16 * kGroupBytes + segment / 16 * 4;
  }
  const FewChannelsRun run = {.rows = rows,
                              .row_count = 3,
                              .offsets = offsets,
                              .segments = kSegments,
                              .filter = bench.b.data(),
                              .pixels = 112,
                              .channels = channels,
                              .offset = integers(bench.a),
                              .multiplier = floats(bench.parameters),
                              .filter_zero_point = nullptr,
                              .output_zero_point = 100.0F,
                              .flip = 0,
                              .output = bench.c.data(),
                              .output_channel_stride = 112};
  bench.report("few channels 3x3, " + std::to_string(channels), 2UL * 9 * 64 * 112 * channels, "operations",
               [&] { bench.table.few_channels->convolve(run); });
}

// Of 28 tiles by 64 channels and a panel.
void bench_winograd(const KernelBench& bench) {
  constexpr std::size_t kTiles = 28, kChannels = 64, kPlane = kTiles * kChannels + 32;
  const WinogradKernels& kernels = *bench.table.winograd;
  const std::size_t nr = kernels.nr, filter_plane = kChannels * nr + 32, products_plane = kTiles * nr + 16;
  auto* planes = reinterpret_cast<std::int16_t*>(bench.c.data());
  const auto* a = reinterpret_cast<const std::int16_t*>(bench.a.data());
  const WinogradInputRun input = {.codes = bench.a.data(),
                                  .pixel_stride = kChannels,
                                  .row_stride = (4 * kTiles + 2) * kChannels,
                                  .tiles = kTiles,
                                  .channels = kChannels,
                                  .planes = planes,
                                  .plane_stride = kPlane,
                                  .tile_stride = kChannels};
  const WinogradFilterRun filter = {.filter = bench.b.data(),
                                    .tap_stride = kChannels * nr,
                                    .channels = kChannels,
                                    .zero_point = nullptr,
                                    .planes = planes,
                                    .plane_stride = filter_plane};
  const WinogradProductRun product = {.activations = a,
                                      .activations_plane_stride = kPlane,
                                      .activations_tile_stride = kChannels,
                                      .filter = reinterpret_cast<const std::int16_t*>(bench.b.data()),
                                      .filter_plane_stride = filter_plane,
                                      .tiles = kTiles,
                                      .channels = kChannels,
                                      .products = integers(bench.c),
                                      .products_plane_stride = products_plane};
  const WinogradOutputRun output = {.products = integers(bench.a),
                                    .plane_stride = products_plane,
                                    .tiles = kTiles,
                                    .before = nullptr,
                                    .offset = integers(bench.b),
                                    .after = nullptr,
                                    .multiplier = floats(bench.parameters),
                                    .output_zero_point = 100.0F,
                                    .flip = 0,
                                    .rows = 4,
                                    .columns = 4 * kTiles,
                                    .channels = nr,
                                    .output = bench.c.data(),
                                    .pixel_stride = nr,
                                    .row_stride = 4 * kTiles * nr};
  bench.report("winograd input", kTiles * kChannels, "channels of a tile", [&] { kernels.transform_input(input); });
  bench.report("winograd filter", kChannels * nr, "windows", [&] { kernels.transform_filter(filter); });
  bench.report("winograd products", 2 * kWinogradPlaces * kTiles * kChannels * nr, "operations",
               [&] { kernels.multiply(product); });
  bench.report("winograd output", kTiles * nr, "channels of a tile", [&] { kernels.transform_output(output); });
}

}  // namespace

void bench_products(const KernelBench& bench) {
  for (const std::size_t k : {64U, 576U, 2304U}) bench_gemm(bench, k);
  bench_depthwise(bench);
  bench_depthwise_window(bench);
  bench_rescale(bench);
  bench_float_product(bench);
  bench_dequantized_product(bench);
  bench_block_product(bench);
  for (const std::size_t group_channels : {4U, 8U, 16U}) bench_grouped(bench, group_channels);
  for (const std::size_t channels : {1U, 3U, 8U}) bench_few_channels(bench, channels);
  bench_winograd(bench);
}

}  // namespace dmlcpu
