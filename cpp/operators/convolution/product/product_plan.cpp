#include "operators/convolution/product/product_plan.h"

#include <algorithm>
#include <cmath>

#include "operators/buffer_layout.h"
#include "operators/convolution/padded/padded_planes.h"
#include "operators/convolution/product/gathered_windows.h"
#include "operators/convolution/product/product_estimates.h"
#include "operators/convolution/product/product_source.h"
#include "operators/sizes.h"
#include "runtime/cache_line.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Of what is copied for tiles by themselves, at most so much of what all of them copy together.
constexpr double kMostCopied = 1.5;

// The pixels of the lowest bands of rows that copy no more than that, or 0 where these would not stay in the level-2
// cache, with their results where these are transposed.
std::int64_t least_band_pixels(const ConvolutionGeometry& geometry, const ProductSource& source) {
  if (source.from != ActivationsFrom::planes) return 0;
  constexpr double kMostTransposed = 128.0;  // channels at a time
  const PaddedPlanes of_row = PaddedPlanes::of_rows(geometry, source.cells, 1);
  const double row_bytes = static_cast<double>(of_row.output_row_bytes());
  const double common = static_cast<double>(of_row.image_bytes()) - row_bytes;
  const auto height = as_number(geometry.output_height), width = as_number(geometry.output_width);
  const double rows = std::clamp(std::ceil(common / row_bytes / (kMostCopied - 1.0)), 1.0, height);
  const double channels = std::min(as_number(geometry.group_output_channels()), kMostTransposed);
  const double results = geometry.output.c == 1 ? 0.0 : channels * as_number(geometry.output_bytes) * width;
  const bool fits = common + rows * (row_bytes + results) <= static_cast<double>(cache_sizes().level_2) / 2.0;
  return fits ? static_cast<std::int64_t>(rows) * geometry.output_width : 0;
}

PixelUnits choose_units(const ConvolutionGeometry& geometry, int num_threads, const ProductSource& source) {
  const std::int64_t image = geometry.image_pixels(), pixels = image * geometry.batch;
  const auto units_of = [&](bool by_rows, std::int64_t of_unit) {
    return PixelUnits{.by_rows = by_rows, .pixels = of_unit, .count = pixels / of_unit};
  };
  if (source.from == ActivationsFrom::planes || (source.from == ActivationsFrom::input && !geometry.pointwise())) {
    // Rows that are longer than tiles are divided, unless each thread has a band of them.
    const std::int64_t band = least_band_pixels(geometry, source);
    const bool has_bands =
        geometry.output_width <= kMostTilePixels || (band != 0 && band <= divide_up(pixels, num_threads));
    return units_of(true, has_bands ? image : geometry.output_width);
  }
  if (is_uniform(geometry, source.from, geometry.batch)) return units_of(false, pixels);
  return units_of(false, is_uniform(geometry, source.from, 1) ? image : geometry.output_width);
}

// The pixels of a tile, before they are divided among threads. A block of products costs some hundred cycles beside
// them: where its products take little longer and nothing is copied or transposed, tiles are larger.
std::int64_t most_tile_pixels(const ConvolutionGeometry& geometry, const GemmKernels& kernels,
                              const ProductSource& source, const PackedFilter& filter, const PixelUnits& units) {
  constexpr double kFewCycles = 65536.0;
  // Larger where neighbouring tiles would copy what their windows have in common.
  const std::int64_t most_in_place = source.from == ActivationsFrom::planes ? 2048 : 1024;
  const auto k = static_cast<std::int64_t>(filter.order.k());
  const auto budget = static_cast<std::int64_t>(cache_sizes().level_2 / 2);
  const bool in_place = geometry.output.c == 1 && (source.from == ActivationsFrom::planes ||
                                                   (source.from == ActivationsFrom::input && geometry.input.c == 1));
  const double products_of_pixel = static_cast<double>(k * geometry.group_output_channels());
  const double pixels = in_place ? kFewCycles * kernels.products_per_cycle / products_of_pixel : 0.0;
  const std::int64_t most = pixels >= static_cast<double>(most_in_place)
                                ? most_in_place
                                : std::max(kMostTilePixels, static_cast<std::int64_t>(pixels));
  const std::int64_t least = units.bands(geometry) ? least_band_pixels(geometry, source) : 0;
  return std::clamp<std::int64_t>(std::max(std::min(most, budget / k), least), 1, units.pixels);
}

// How many parts more the pixels and the channels are divided into, for each thread to have its number of tasks.
struct Division {
  std::int64_t pixels, channels;
};

// Of so many tiles.
Division divide_work(const ConvolutionGeometry& geometry, const GemmKernels& kernels, int num_threads,
                     const ProductSource& source, const PackedFilter& filter, const PixelUnits& units,
                     std::int64_t tiles) {
  if (num_threads == 1) return {1, 1};
  // Units that are no multiple of the threads are not evened out later: more tasks are.
  const bool is_even = units.count == 1 || tiles % num_threads == 0;
  const std::int64_t tasks = num_threads * (is_even ? kernels.tasks_of_thread : kTasksPerThread);
  const std::int64_t parts = divide_up(tasks, tiles), pixels = units.count * units.pixels;
  if (parts == 1) return {1, 1};
  // A filter that no core's cache holds is divided as far as it can be, to be read once.
  const bool is_large = filter.size() > cache_sizes().level_2 / 2, fetches_rows = kernels.loads_rows_as_tiles;
  const std::int64_t panels = divide_up(geometry.group_output_channels(), static_cast<std::int64_t>(kernels.nr));
  const auto least = static_cast<std::int64_t>(is_large ? kernels.nr : std::max(kernels.least_columns, kernels.nr));
  const std::int64_t most_channels =
      std::clamp<std::int64_t>(geometry.group_output_channels() / least, 1, is_large ? panels : parts);
  // Threads would write to the same lines of planes that are cut into parts of less than some lines: one for each part,
  // four for each thread where it has a single one.
  const std::int64_t lines = fetches_rows ? num_threads * kTasksPerThread : parts;
  if (geometry.output.c != 1 && pixels < lines * static_cast<std::int64_t>(kCacheLine)) {
    return {1, std::min<std::int64_t>(parts, is_large ? panels : std::max<std::int64_t>(num_threads, most_channels))};
  }
  // What is gathered is gathered again for each part of the channels: pixels are divided while that leaves whole tiles
  // and each core's cache holds the filter; likewise where each part of the channels fetches the rows again.
  const bool repeats_rows = source.from == ActivationsFrom::gathered || fetches_rows;
  const std::int64_t least_pixels = static_cast<std::int64_t>(fetches_rows ? kernels.mr * 3 / 2 : kernels.mr);
  const bool suffice = repeats_rows && !is_large && pixels >= tasks * least_pixels;
  if (suffice || !divides_channels(geometry)) return {parts, 1};
  const std::int64_t channels = std::min(parts, most_channels);
  return {divide_up(parts, channels), channels};
}

// The rows of bands of about so many pixels of each unit: where it can be, as many bands for each thread.
std::int64_t band_rows(const ConvolutionGeometry& geometry, std::int64_t units, std::int64_t pixels, int num_threads) {
  const std::int64_t rows = std::clamp<std::int64_t>(pixels / geometry.output_width, 1, geometry.output_height);
  const auto is_even = [&](std::int64_t of_band) {
    return units * divide_up(geometry.output_height, of_band) % num_threads == 0;
  };
  return !is_even(rows) && rows < geometry.output_height && is_even(rows + 1) ? rows + 1 : rows;
}

// Tiles of at most so many pixels, in as many parts as work is divided into.
PixelTiles choose_tiles(const ConvolutionGeometry& geometry, const GemmKernels& kernels, int num_threads,
                        const PixelUnits& units, std::int64_t most, const Division& division) {
  const auto tiles_of = [&](std::int64_t pixels) {
    return PixelTiles{.units = units, .pixels = pixels, .of_unit = divide_up(units.pixels, pixels)};
  };
  std::int64_t pixels = divide_up(most, division.pixels);
  if (units.count == 1 && division.channels == 1) {  // as many tiles for each thread
    pixels = divide_up(units.pixels, divide_up(divide_up(units.pixels, pixels), num_threads) * num_threads);
    if (units.bands(geometry)) pixels = divide_up(pixels, geometry.output_width) * geometry.output_width;
  }
  if (units.bands(geometry)) {
    return tiles_of(band_rows(geometry, units.count, pixels, num_threads) * geometry.output_width);
  }
  // Tiles that are transposed on their way in or out are whole cache lines of pixels, where that is possible.
  const bool planar = geometry.input.c != 1 || geometry.output.c != 1;
  constexpr auto kLine = static_cast<std::int64_t>(kCacheLine);
  const std::int64_t multiple = planar && pixels >= kLine ? kLine : static_cast<std::int64_t>(kernels.mr);
  pixels = divide_up(units.pixels, divide_up(units.pixels, pixels));  // about equal tiles
  return tiles_of(std::min(divide_up(pixels, multiple) * multiple, units.pixels));
}

// The blocks of channels of each of so many tiles; least_splits is how many tasks share them at least.
ChannelBlocks choose_blocks(const ConvolutionGeometry& geometry, const GemmKernels& kernels, int num_threads,
                            std::int64_t tiles, std::int64_t least_splits) {
  constexpr std::int64_t kMostPlanarChannels = 128;
  const std::int64_t channels = geometry.group_output_channels(), panel = static_cast<std::int64_t>(kernels.nr);
  const std::int64_t splits = std::max(least_splits, divide_up(num_threads, tiles));
  std::int64_t block = divide_up(channels, splits);
  if (geometry.output.c != 1) block = std::min(block, kMostPlanarChannels);
  block = divide_up(block, panel) * panel;
  const std::int64_t count = divide_up(channels, block);
  return {.channels = block, .count = count, .splits = std::min(splits, count)};
}

// Tiles are large enough to read the filter seldom and small enough to stay in the level-1 and level-2 caches.
ProductCut cut_all_taps(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const ExecutionTarget& target,
                        std::uint8_t flip) {
  const int num_threads = target.num_threads;
  const auto [source, order] = choose_source(geometry, kernels, flip, target.aligns_tensors);
  const PackedFilter filter = packed_filter(geometry, kernels, order, source.padding, false);
  const PixelUnits units = choose_units(geometry, num_threads, source);
  const std::int64_t most = most_tile_pixels(geometry, kernels, source, filter, units);
  const Division division =
      divide_work(geometry, kernels, num_threads, source, filter, units, units.count * divide_up(units.pixels, most));
  const PixelTiles tiles = choose_tiles(geometry, kernels, num_threads, units, most, division);
  return {.source = source,
          .filter = filter,
          .tiles = tiles,
          .blocks = choose_blocks(geometry, kernels, num_threads, tiles.count(), division.channels),
          .regions = {},
          .saved_by_regions = 0.0};
}

// The estimate of an image's cycles where all taps are multiplied, for comparison with that of regions.
double cycles_of_all_taps(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const ProductCut& cut) {
  const auto k = static_cast<double>(cut.filter.order.k());
  const double stretches = kCyclesOfStretch * static_cast<double>(order_in_place(geometry, kernels).segments);
  const double gathering =
      cut.source.from == ActivationsFrom::gathered ? cycles_of_gathering(geometry, stretches, k) : 0.0;
  const std::int64_t run = cut.tiles.units.by_rows ? geometry.output_width : cut.tiles.pixels;
  const double tiles = static_cast<double>(cut.tiles.count()) / as_number(geometry.batch);
  return gathering + std::max(cycles_of_runs(geometry, kernels, divide_up(geometry.image_pixels(), run), run, k),
                              tiles * cycles_of_fetching(geometry, kernels, k, k));
}

// How much of the time of all taps another cut may take by estimate: what that does not know costs more with the
// smaller tiles of regions. Windows of one row or column are cut along one axis, into regions that are whole rows or
// columns.
double most_share_without_padding(const ConvolutionGeometry& geometry) {
  const bool has_one_axis = (geometry.kernel_height == 1) != (geometry.kernel_width == 1);
  return has_one_axis ? 0.92 : 0.8;
}

// Another cut, that leaves the taps in the padding out, where it saves enough.
std::optional<ProductCut> cut_without_padding(const ConvolutionGeometry& geometry, const GemmKernels& kernels,
                                              int num_threads, std::uint8_t flip, const ProductCut& all_taps) {
  if (all_taps.source.from == ActivationsFrom::input || geometry.windows_inside()) return std::nullopt;
  const std::int64_t parts = num_threads == 1 ? 1 : std::int64_t{num_threads} * kTasksPerThread;
  ProductRegions cut = cut_into_regions(
      geometry, kernels, std::min(kMostTilePixels, divide_up(geometry.image_pixels() * geometry.batch, parts)));
  if (cut.regions.empty()) return std::nullopt;
  const double cycles = cycles_of_all_taps(geometry, kernels, all_taps);
  if (cut.cycles > most_share_without_padding(geometry) * cycles) return std::nullopt;
  const char* obstacle = obstacle_in_codes(geometry, cut.order, flip);
  const bool in_place = obstacle == nullptr;
  if (!in_place && !(reads_most(geometry) && PaddedPlanes::holds(unpadded(geometry)))) return std::nullopt;
  const PixelTiles tiles = {.units = {.by_rows = true, .pixels = geometry.image_pixels(), .count = geometry.batch},
                            .pixels = cut.tile_pixels,
                            .of_unit = cut.tiles};
  return ProductCut{
      .source = {.from = in_place ? ActivationsFrom::input : ActivationsFrom::planes,
                 .cells = PlaneCells::pixels(geometry.input_channels),
                 .padding = 0,
                 .gathers_end = false,
                 .obstacle = obstacle,
                 .obstacle_to_copy = nullptr},
      .filter = packed_filter(geometry, kernels, cut.order, 0, true),
      .tiles = tiles,
      .blocks = choose_blocks(geometry, kernels, num_threads, tiles.count(), divide_up(parts, tiles.count())),
      .regions = std::move(cut.regions),
      .saved_by_regions = 1.0 - cut.cycles / cycles};
}

// What a tile reads, where it is copied for it alone: threads do not wait for all of the copy, and read what is in
// their own caches. Rows that windows of two tiles have in common are copied for both, so tiles have to be high enough.
std::optional<PaddedPlanes> planes_of_tile(const ConvolutionGeometry& geometry, const ProductCut& cut) {
  if (!cut.regions.empty() || !cut.tiles.units.bands(geometry) || cut.blocks.splits > 1) return std::nullopt;
  const std::int64_t rows = cut.tiles.pixels / geometry.output_width;
  const PaddedPlanes planes = PaddedPlanes::of_rows(geometry, cut.source.cells, rows);
  const bool are_high = static_cast<double>(planes.image_bytes()) <=
                        kMostCopied * static_cast<double>(rows) * static_cast<double>(planes.output_row_bytes());
  if (cut.tiles.of_unit > 1 && !are_high) return std::nullopt;
  return planes;
}

// Where planes are copied before the tasks, as many images at a time as fit a quarter of the level-2 caches and keep
// all threads busy: what is read soon after it was copied.
PlaneCopies choose_copies(const ConvolutionGeometry& geometry, int num_threads, const ProductCut& cut) {
  if (cut.source.from != ActivationsFrom::planes) {
    return {.planes = std::nullopt, .of_tiles = false, .images_at_once = geometry.batch};
  }
  if (const auto of_tile = planes_of_tile(geometry, cut)) {
    return {.planes = of_tile, .of_tiles = true, .images_at_once = geometry.batch};
  }
  const ConvolutionGeometry copied = cut.regions.empty() ? geometry : unpadded(geometry);
  const PaddedPlanes image = PaddedPlanes::of_images(copied, cut.source.cells, 1, num_threads);
  const std::int64_t threads = num_threads, tasks = cut.tasks() / geometry.batch;
  const auto share = static_cast<std::int64_t>(cache_sizes().level_2 / 4);
  const auto image_bytes = static_cast<std::int64_t>(image.image_bytes());
  const std::int64_t most = std::max({std::int64_t{1}, threads * (share / image_bytes),
                                      threads == 1 ? 0 : divide_up(threads * kTasksPerThread, tasks)});
  const std::int64_t images = std::min(most, geometry.batch);
  return {.planes = PaddedPlanes::of_images(copied, cut.source.cells, images, num_threads),
          .of_tiles = false,
          .images_at_once = images};
}

ProductScratch lay_out_scratch(const ConvolutionGeometry& geometry, int num_threads, const ProductCut& cut,
                               const PlaneCopies& copies) {
  ProductScratch scratch{};
  const std::size_t pixels = as_size(cut.tiles.pixels), planes = copies.planes ? copies.planes->size() : 0;
  BufferLayout own;
  if (cut.source.from == ActivationsFrom::gathered || cut.source.gathers_end) {
    const std::size_t k = cut.filter.order.k();
    scratch.activations = own.take(pixels, gathered_row_bytes(geometry, k));
    own.take(k);  // the last row may be read behind its codes
  }
  scratch.activation_sums = own.take(pixels, sizeof(std::int32_t));
  scratch.results =
      own.take(geometry.output.c != 1 ? as_size(std::min(cut.blocks.channels, geometry.group_output_channels())) : 0,
               pixels * as_size(geometry.output_bytes));
  scratch.tile_planes = own.take(copies.of_tiles ? planes : 0);
  scratch.participant_size = own.size();

  BufferLayout all;
  all.take(copies.of_tiles ? 0 : planes);
  scratch.participants = std::min<std::int64_t>(num_threads, cut.tasks());
  scratch.participants_offset = all.take(as_size(scratch.participants), scratch.participant_size);
  scratch.size = all.size();
  return scratch;
}

}  // namespace

bool divides_channels(const ConvolutionGeometry& geometry) {
  const double activations = as_number(geometry.batch) * as_number(geometry.input_channels) *
                             as_number(geometry.input_height) * as_number(geometry.input_width);
  return as_number(geometry.output_channels) * as_number(geometry.reduction()) >= activations;
}

ProductPlan plan_product(const ConvolutionGeometry& geometry, const GemmKernels& kernels,
                         const ExecutionTarget& target) {
  const int num_threads = target.num_threads;
  const std::uint8_t flip = kernels.multiplies_signed ? std::uint8_t{0} : geometry.input_flip;
  ProductCut cut = cut_all_taps(geometry, kernels, target, flip);
  if (auto without_padding = cut_without_padding(geometry, kernels, num_threads, flip, cut)) {
    cut = std::move(*without_padding);
  }
  PlaneCopies copies = choose_copies(geometry, num_threads, cut);
  const ProductScratch scratch = lay_out_scratch(geometry, num_threads, cut, copies);
  const bool reads_signed = geometry.input_flip != 0 && cut.source.from == ActivationsFrom::input;
  return {.cut = std::move(cut),
          .copies = std::move(copies),
          .scratch = scratch,
          .reads_signed = reads_signed,
          .region_offsets_stride = geometry.padded_channels(kernels.nr)};
}

}  // namespace dmlcpu
