#include "operators/convolution/product_plan.h"

#include <algorithm>
#include <cmath>

#include "operators/buffer_layout.h"
#include "operators/convolution/padded_planes.h"
#include "operators/convolution/product_estimates.h"
#include "operators/convolution/product_source.h"
#include "runtime/cache_line.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Of what is copied for tiles by themselves, at most so much of what all of them copy together.
constexpr double kMostCopied = 1.5;

// The pixels of the lowest bands of rows that copy no more than that, or 0 where these would not stay in the level-2
// cache, with their results where these are transposed.
std::int64_t least_band_pixels(const ConvolutionGeometry& geometry, const ProductPlan& plan) {
  if (plan.source.from != ActivationsFrom::planes) return 0;
  constexpr double kMostTransposed = 128.0;  // channels at a time
  const PaddedPlanes of_row(geometry, plan.source.cells, 1, 1, 1);
  const double row_bytes = static_cast<double>(of_row.output_row_bytes());
  const double common = static_cast<double>(of_row.image_bytes()) - row_bytes;
  const auto height = as_number(geometry.output_height), width = as_number(geometry.output_width);
  const double rows = std::clamp(std::ceil(common / row_bytes / (kMostCopied - 1.0)), 1.0, height);
  const double channels = std::min(as_number(geometry.group_output_channels()), kMostTransposed);
  const double results = geometry.output.c == 1 ? 0.0 : channels * as_number(geometry.output_bytes) * width;
  const bool fits = common + rows * (row_bytes + results) <= static_cast<double>(cache_sizes().level_2) / 2.0;
  return fits ? static_cast<std::int64_t>(rows) * geometry.output_width : 0;
}

void choose_units(const ConvolutionGeometry& geometry, int num_threads, ProductPlan& plan) {
  plan.by_rows = plan.source.from == ActivationsFrom::planes ||
                 (plan.source.from == ActivationsFrom::input && !geometry.pointwise());
  const std::int64_t image = geometry.image_pixels();
  if (plan.by_rows) {
    // Rows that are longer than tiles are divided, unless each thread has a band of them.
    const std::int64_t band = least_band_pixels(geometry, plan);
    const bool has_bands = geometry.output_width <= kMostTilePixels ||
                           (band != 0 && band <= divide_up(image * geometry.batch, num_threads));
    plan.unit_pixels = has_bands ? image : geometry.output_width;
  } else if (is_uniform(geometry, plan.source.from, geometry.batch)) {
    plan.unit_pixels = image * geometry.batch;
  } else {
    plan.unit_pixels = is_uniform(geometry, plan.source.from, 1) ? image : geometry.output_width;
  }
  plan.units = image * geometry.batch / plan.unit_pixels;
}

// How many parts more the pixels and the channels are divided into, for each thread to have its number of tasks.
struct Division {
  std::int64_t pixels, channels;
};

Division divide_work(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const ProductPlan& plan,
                     int num_threads, std::int64_t tiles, std::int64_t panels) {
  // Units that are no multiple of the threads are not evened out later: more tasks are.
  const bool is_even = plan.units == 1 || tiles % num_threads == 0;
  const std::int64_t tasks = num_threads * (is_even ? kernels.tasks_of_thread : kTasksPerThread);
  const std::int64_t parts = num_threads == 1 ? 1 : divide_up(tasks, tiles);
  // A filter that no core's cache holds is divided as far as it can be, to be read once.
  const bool is_large = plan.filter.size() > cache_sizes().level_2 / 2;
  const auto least = static_cast<std::int64_t>(is_large ? kernels.nr : std::max(kernels.least_columns, kernels.nr));
  const std::int64_t most_channels =
      std::clamp<std::int64_t>(geometry.group_output_channels() / least, 1, is_large ? panels : parts);
  // What is gathered is gathered again for each part of the channels: pixels are divided while that leaves whole tiles
  // and each core's cache holds the filter; likewise where each part of the channels fetches the rows again.
  const std::int64_t pixels = plan.units * plan.unit_pixels;
  const bool fetches_rows = kernels.loads_rows_as_tiles;
  const std::int64_t least_pixels = static_cast<std::int64_t>(fetches_rows ? kernels.mr * 3 / 2 : kernels.mr);
  const bool suffice =
      (plan.source.from == ActivationsFrom::gathered || fetches_rows) && !is_large && pixels >= tasks * least_pixels;
  const std::int64_t channels = suffice || !divides_channels(geometry) ? 1 : std::min(parts, most_channels);
  // Threads would write to the same lines of planes that are cut into parts of less than some lines: one for each part,
  // four for each thread where it has a single one.
  const std::int64_t lines = fetches_rows && parts > 1 ? num_threads * kTasksPerThread : parts;
  if (geometry.output.c != 1 && pixels < lines * static_cast<std::int64_t>(kCacheLine)) {
    return {1, std::min<std::int64_t>(parts, is_large ? panels : std::max<std::int64_t>(num_threads, most_channels))};
  }
  return {divide_up(parts, channels), channels};
}

// The blocks of channels of a tile; splits is how many tasks share them at least.
void choose_blocks(const ConvolutionGeometry& geometry, const GemmKernels& kernels, int num_threads,
                   std::int64_t least_splits, ProductPlan& plan) {
  constexpr std::int64_t kMostPlanarChannels = 128;
  const std::int64_t channels = geometry.group_output_channels(), panel = static_cast<std::int64_t>(kernels.nr);
  const std::int64_t tiles = plan.units * plan.tiles_of_unit;
  const std::int64_t splits = std::max(least_splits, divide_up(num_threads, tiles));
  std::int64_t block = divide_up(channels, splits);
  if (geometry.output.c != 1) block = std::min(block, kMostPlanarChannels);
  plan.block_channels = divide_up(block, panel) * panel;
  plan.blocks = divide_up(channels, plan.block_channels);
  plan.block_splits = std::min(splits, plan.blocks);
  plan.participants = static_cast<int>(std::min<std::int64_t>(num_threads, tiles * plan.block_splits));
}

// The pixels of a tile, before they are divided among threads. A block of products costs some hundred cycles beside
// them: where its products take little longer and nothing is copied or transposed, tiles are larger.
std::int64_t tile_pixels(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const ProductPlan& plan) {
  constexpr double kFewCycles = 65536.0;
  // Larger where neighbouring tiles would copy what their windows have in common.
  const std::int64_t most_in_place = plan.source.from == ActivationsFrom::planes ? 2048 : 1024;
  const auto k = static_cast<std::int64_t>(plan.filter.order.k());
  const auto budget = static_cast<std::int64_t>(cache_sizes().level_2 / 2);
  const bool in_place =
      geometry.output.c == 1 && (plan.source.from == ActivationsFrom::planes ||
                                 (plan.source.from == ActivationsFrom::input && geometry.input.c == 1));
  const double products_of_pixel = static_cast<double>(k * geometry.group_output_channels());
  const double pixels = in_place ? kFewCycles * kernels.products_per_cycle / products_of_pixel : 0.0;
  const std::int64_t most = pixels >= static_cast<double>(most_in_place)
                                ? most_in_place
                                : std::max(kMostTilePixels, static_cast<std::int64_t>(pixels));
  const std::int64_t least = plan.bands(geometry) ? least_band_pixels(geometry, plan) : 0;
  return std::clamp<std::int64_t>(std::max(std::min(most, budget / k), least), 1, plan.unit_pixels);
}

// The rows of bands of about so many pixels of each unit: where it can be, as many bands for each thread.
std::int64_t band_rows(const ConvolutionGeometry& geometry, std::int64_t units, std::int64_t pixels, int num_threads) {
  const std::int64_t rows = std::clamp<std::int64_t>(pixels / geometry.output_width, 1, geometry.output_height);
  const auto is_even = [&](std::int64_t of_band) {
    return units * divide_up(geometry.output_height, of_band) % num_threads == 0;
  };
  return !is_even(rows) && rows < geometry.output_height && is_even(rows + 1) ? rows + 1 : rows;
}

// Tiles are large enough to read the filter seldom and small enough to stay in the level-1 and level-2 caches.
void choose_blocking(const ConvolutionGeometry& geometry, const GemmKernels& kernels, int num_threads,
                     ProductPlan& plan) {
  const std::int64_t channels = geometry.group_output_channels(), panel = static_cast<std::int64_t>(kernels.nr);
  std::int64_t pixels = tile_pixels(geometry, kernels, plan);
  const Division division = divide_work(geometry, kernels, plan, num_threads,
                                        plan.units * divide_up(plan.unit_pixels, pixels), divide_up(channels, panel));
  pixels = divide_up(pixels, division.pixels);
  if (plan.units == 1 && division.channels == 1) {  // as many tiles for each thread
    pixels = divide_up(plan.unit_pixels, divide_up(divide_up(plan.unit_pixels, pixels), num_threads) * num_threads);
    if (plan.bands(geometry)) pixels = divide_up(pixels, geometry.output_width) * geometry.output_width;
  }
  if (plan.bands(geometry)) {
    plan.tile_pixels = band_rows(geometry, plan.units, pixels, num_threads) * geometry.output_width;
  } else {
    // Tiles that are transposed on their way in or out are whole cache lines of pixels, where that is possible.
    const bool planar = geometry.input.c != 1 || geometry.output.c != 1;
    constexpr auto kLine = static_cast<std::int64_t>(kCacheLine);
    const std::int64_t multiple = planar && pixels >= kLine ? kLine : static_cast<std::int64_t>(kernels.mr);
    pixels = divide_up(plan.unit_pixels, divide_up(plan.unit_pixels, pixels));  // about equal tiles
    plan.tile_pixels = std::min(divide_up(pixels, multiple) * multiple, plan.unit_pixels);
  }
  plan.tiles_of_unit = divide_up(plan.unit_pixels, plan.tile_pixels);
  choose_blocks(geometry, kernels, num_threads, division.channels, plan);
}

// The estimate of an image's cycles where all taps are multiplied, for comparison with that of regions.
double cycles_of_all_taps(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const ProductPlan& plan) {
  const auto k = static_cast<double>(plan.filter.order.k());
  const double stretches = kCyclesOfStretch * static_cast<double>(order_in_place(geometry, kernels).segments);
  const double gathering =
      plan.source.from == ActivationsFrom::gathered ? cycles_of_gathering(geometry, stretches, k) : 0.0;
  const std::int64_t run = plan.by_rows ? geometry.output_width : plan.tile_pixels;
  const double tiles = static_cast<double>(plan.units * plan.tiles_of_unit) / as_number(geometry.batch);
  return gathering + std::max(cycles_of_runs(geometry, kernels, divide_up(geometry.image_pixels(), run), run, k),
                              tiles * cycles_of_fetching(geometry, kernels, k, k));
}

// Leaves the taps in the padding out where that saves a fifth of the time at least: what the estimate does not know
// costs more with the smaller tiles of regions.
void leave_out_padding(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t flip,
                       int num_threads, ProductPlan& plan) {
  if (plan.source.from == ActivationsFrom::input || geometry.windows_inside()) return;
  const std::int64_t parts = num_threads == 1 ? 1 : std::int64_t{num_threads} * kTasksPerThread;
  ProductRegions cut = cut_into_regions(
      geometry, kernels, std::min(kMostTilePixels, divide_up(geometry.image_pixels() * geometry.batch, parts)));
  if (cut.regions.empty()) return;
  const double all_taps = cycles_of_all_taps(geometry, kernels, plan);
  if (cut.cycles > 0.8 * all_taps) return;
  const char* obstacle = obstacle_in_codes(geometry, cut.order, flip);
  const bool in_place = obstacle == nullptr;
  if (!in_place && !(reads_most(geometry) && PaddedPlanes::holds(unpadded(geometry)))) return;
  plan.source = {.from = in_place ? ActivationsFrom::input : ActivationsFrom::planes,
                 .cells = PlaneCells::pixels(geometry.input_channels),
                 .padding = 0,
                 .gathers_end = false,
                 .obstacle = obstacle,
                 .obstacle_to_copy = nullptr};
  plan.filter = packed_filter(geometry, kernels.nr, cut.order, 0, true);
  plan.regions = std::move(cut.regions);
  plan.saved_by_regions = 1.0 - cut.cycles / all_taps;
  plan.by_rows = true;
  plan.units = geometry.batch;
  plan.unit_pixels = geometry.image_pixels();
  plan.tile_pixels = cut.tile_pixels;
  plan.tiles_of_unit = cut.tiles;
  choose_blocks(geometry, kernels, num_threads, divide_up(parts, plan.units * plan.tiles_of_unit), plan);
}

// Where planes are copied before the tasks, as many images at a time as fit a quarter of the level-2 caches and keep
// all threads busy: what is read soon after it was copied. Returns the size of the planes.
std::size_t choose_images(const ConvolutionGeometry& geometry, int num_threads, ProductPlan& plan) {
  plan.images_at_once = geometry.batch;
  if (plan.source.from != ActivationsFrom::planes || plan.copies_tiles) return 0;
  const PaddedPlanes image(plan.regions.empty() ? geometry : unpadded(geometry), plan.source.cells, 1, num_threads);
  const std::int64_t threads = num_threads, tasks = static_cast<std::int64_t>(plan.tasks()) / geometry.batch;
  const auto share = static_cast<std::int64_t>(cache_sizes().level_2 / 4);
  const auto image_bytes = static_cast<std::int64_t>(image.image_bytes());
  const std::int64_t images = std::max({std::int64_t{1}, threads * (share / image_bytes),
                                        threads == 1 ? 0 : divide_up(threads * kTasksPerThread, tasks)});
  plan.images_at_once = std::min(images, geometry.batch);
  return planes_of(geometry, plan, num_threads).size();
}

// Whether what a tile reads is copied for it alone: threads do not wait for all of the copy, and read what is in their
// own caches. Rows that windows of two tiles have in common are copied for both, so tiles have to be high enough.
bool copies_tiles(const ConvolutionGeometry& geometry, const ProductPlan& plan) {
  if (plan.source.from != ActivationsFrom::planes || !plan.regions.empty() || !plan.bands(geometry) ||
      plan.block_splits > 1) {
    return false;
  }
  if (plan.tiles_of_unit == 1) return true;
  const PaddedPlanes of_tile(geometry, plan.source.cells, 1, plan.tile_pixels / geometry.output_width, 1);
  const double rows = static_cast<double>(plan.tile_pixels / geometry.output_width);
  return static_cast<double>(of_tile.image_bytes()) <=
         kMostCopied * rows * static_cast<double>(of_tile.output_row_bytes());
}

void lay_out_scratch(const ConvolutionGeometry& geometry, int num_threads, std::size_t planes_size, ProductPlan& plan) {
  const std::size_t pixels = as_size(plan.tile_pixels);
  BufferLayout own;
  plan.activations = own.take(plan.source.from == ActivationsFrom::gathered || plan.source.gathers_end ? pixels : 0,
                              plan.filter.order.k());
  plan.activation_sums = own.take(pixels, sizeof(std::int32_t));
  plan.results =
      own.take(geometry.output.c != 1 ? as_size(std::min(plan.block_channels, geometry.group_output_channels())) : 0,
               pixels * as_size(geometry.output_bytes));
  plan.tile_planes = own.take(plan.copies_tiles ? planes_of(geometry, plan, num_threads).size() : 0, 1);
  plan.participant_size = own.size();

  BufferLayout all;
  all.take(planes_size);
  plan.participants_offset = all.take(as_size(plan.participants), plan.participant_size);
  plan.scratch_size = all.size();
}

}  // namespace

PaddedPlanes planes_of(const ConvolutionGeometry& geometry, const ProductPlan& plan, int num_threads) {
  if (plan.copies_tiles) return {geometry, plan.source.cells, 1, plan.tile_pixels / geometry.output_width, 1};
  if (!plan.regions.empty()) return {unpadded(geometry), plan.source.cells, plan.images_at_once, num_threads};
  return {geometry, plan.source.cells, plan.images_at_once, num_threads};
}

bool divides_channels(const ConvolutionGeometry& geometry) {
  const double activations = as_number(geometry.batch) * as_number(geometry.input_channels) *
                             as_number(geometry.input_height) * as_number(geometry.input_width);
  return as_number(geometry.output_channels) * as_number(geometry.reduction()) >= activations;
}

ProductPlan plan_product(const ConvolutionGeometry& geometry, const GemmKernels& kernels,
                         const ExecutionTarget& target) {
  ProductPlan plan{};
  const int num_threads = target.num_threads;
  const std::uint8_t flip = kernels.multiplies_signed ? std::uint8_t{0} : geometry.input_flip;
  const OrderedSource chosen = choose_source(geometry, kernels, flip, target.aligns_tensors);
  plan.source = chosen.source;
  plan.filter = packed_filter(geometry, kernels.nr, chosen.order, chosen.source.padding, false);
  choose_units(geometry, num_threads, plan);
  choose_blocking(geometry, kernels, num_threads, plan);
  leave_out_padding(geometry, kernels, flip, num_threads, plan);
  plan.reads_signed = geometry.input_flip != 0 && plan.source.from == ActivationsFrom::input;
  plan.copies_tiles = copies_tiles(geometry, plan);
  plan.region_offsets_stride = geometry.padded_channels(kernels.nr);
  lay_out_scratch(geometry, num_threads, choose_images(geometry, num_threads, plan), plan);
  return plan;
}

}  // namespace dmlcpu
