#include "operators/convolution/product_plan.h"

#include <algorithm>

#include "operators/buffer_layout.h"
#include "operators/convolution/padded_planes.h"
#include "operators/convolution/staged_convolution.h"
#include "runtime/cache_line.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Whether no window reaches into the padding.
bool windows_inside(const ConvolutionGeometry& geometry) {
  const auto inside = [](std::int64_t outputs, std::int64_t stride, std::int64_t kernel, std::int64_t dilation,
                         std::int64_t padding, std::int64_t size) {
    return padding == 0 && window_extent(outputs, stride, kernel, dilation) <= size;
  };
  return inside(geometry.output_height, geometry.stride_height, geometry.kernel_height, geometry.dilation_height,
                geometry.padding_top, geometry.input_height) &&
         inside(geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width,
                geometry.padding_left, geometry.input_width);
}

// The order of terms that are read in place: kernel rows whose codes are neighbours, or taps where those of a row are
// not.
TermOrder order_in_place(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  const bool by_tap = geometry.groups > 1 || geometry.dilation_width > 1;
  const std::int64_t segments = geometry.kernel_height * (by_tap ? geometry.kernel_width : 1);
  const std::size_t terms = as_size(geometry.reduction() / segments);
  return {.segments = as_size(segments), .segment_terms = terms, .segment_padded = round_up(terms, kernels.kr)};
}

// A plan keeps a table of the segments.
constexpr std::size_t kMostSegments = 1 << 12;

TermOrder order_gathered(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  const std::size_t terms = as_size(geometry.reduction());
  return {.segments = 1, .segment_terms = terms, .segment_padded = round_up(terms, kernels.kr)};
}

// The taps of planes whose pixels are whole steps apart.
TermOrder order_by_taps(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  const std::size_t terms = as_size(geometry.group_input_channels());
  return {.segments = as_size(geometry.kernel_height * geometry.kernel_width),
          .segment_terms = terms,
          .segment_padded = round_up(terms, kernels.kr)};
}

// Why the input does not have the segments of windows as whole steps of codes that are neighbours and that products
// read as they are: flip is 0 for these. Null if it has.
const char* obstacle_in_codes(const ConvolutionGeometry& geometry, const TermOrder& order, std::uint8_t flip) {
  const bool by_tap = order.segment_terms == as_size(geometry.group_input_channels());
  const bool neighbours = by_tap || geometry.input.w == geometry.input_channels;
  if (flip != 0) return "INT8 codes become unsigned";
  if (geometry.input.c != 1 || !neighbours) return "codes of a window's rows are not neighbours";
  if (order.segment_terms != order.segment_padded) return "rows of a window's codes are no whole steps of the kernel";
  return nullptr;
}

// An estimate for choices between kernels, of products of k terms; so many lines of each row are copied.
double cycles_of_32_rows(const GemmKernels& kernels, std::size_t k, std::int64_t columns, std::size_t copied_lines) {
  constexpr std::int64_t kColumns = 16;
  constexpr double kRows = 32.0, kLineCycles = 3.5;
  const double products = kRows * kColumns * static_cast<double>(k) / kernels.products_per_cycle;
  return kernels.cycles_of_rows + kRows * kLineCycles * static_cast<double>(copied_lines) +
         static_cast<double>(divide_up(columns, kColumns)) * (kernels.cycles_of_area + products);
}

constexpr std::int64_t kMostTilePixels = 256;

// Whether the batch's images are one flat stretch, of the output and of an input that is read in place.
bool uniform(const ConvolutionGeometry& geometry, ActivationsFrom source, std::int64_t images) {
  const auto flat = [&](const PlaneStrides& strides) {
    return uniform_pixel_stride(strides, images, geometry.output_height, geometry.output_width).has_value();
  };
  return flat(geometry.output) && (source != ActivationsFrom::input || flat(geometry.input));
}

// Whether rows of the product are pixels of the input that follow each other without a seam, of channels that are no
// whole step of k: then what is read for the rest of the step are codes of the pixels behind them, which meet zeros in
// the filter, and only what reaches beyond the last pixel has to be gathered.
bool readable_with_next_pixels(const ConvolutionGeometry& geometry, const TermOrder& order, std::uint8_t flip) {
  return geometry.pointwise() && flip == 0 && geometry.input.c == 1 && order.segment_terms != order.segment_padded &&
         uniform(geometry, ActivationsFrom::input, geometry.batch) &&
         geometry.image_pixels() * geometry.batch > kMostTilePixels;
}

constexpr const char* kTooManySegments = "windows have more taps than a plan keeps";

// Why windows cannot be read where they stand in the input; null if they can.
const char* obstacle_in_place(const ConvolutionGeometry& geometry, const TermOrder& order, std::uint8_t flip) {
  if (const char* in_codes = obstacle_in_codes(geometry, order, flip)) return in_codes;
  if (!windows_inside(geometry)) return "windows reach into the padding";
  return order.segments > kMostSegments ? kTooManySegments : nullptr;
}

// The estimate of cycles to gather a stretch of neighbouring codes of a window, which may lie in the padding.
constexpr double kStretchCycles = 40.0;

// Whether the kernel joins the segments of planes, which are no whole steps of k, to rows without gaps.
bool segments_are_joined(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const TermOrder& in_place) {
  return in_place.segments > 1 && in_place.segment_terms != in_place.segment_padded &&
         order_gathered(geometry, kernels).k() <= kernels.most_joined;
}

// The same of the ways to read windows from planes, where the kernel joins segments.
double cycles_of_joined(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const TermOrder& in_place) {
  const std::size_t lines = in_place.segments * divide_up(in_place.segment_terms, kCacheLine);
  return cycles_of_32_rows(kernels, order_gathered(geometry, kernels).k(), geometry.group_output_channels(), lines);
}

double cycles_of_padded_pixels(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  constexpr double kPixelCycles = 4.0;
  const auto pixels = static_cast<double>(32 * geometry.stride_height * geometry.stride_width);
  return kPixelCycles * pixels +
         cycles_of_32_rows(kernels, order_by_taps(geometry, kernels).k(), geometry.group_output_channels(), 0);
}

// Whether pixels that are whole steps apart, so that taps are read where they stand, beat joining: few output channels
// do not make up for that.
bool pixels_are_padded(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const TermOrder& in_place) {
  return geometry.groups == 1 && geometry.input_channels % 8 == 0 &&
         order_by_taps(geometry, kernels).segments <= kMostSegments &&
         cycles_of_padded_pixels(geometry, kernels) < 0.9 * cycles_of_joined(geometry, kernels, in_place);
}

// Why gathering windows beats reading them from padded planes; null if it does not. Planes pad each segment to whole
// steps of k, which costs products.
const char* obstacle_to_planes(const ConvolutionGeometry& geometry, const GemmKernels& kernels,
                               const TermOrder& in_place) {
  if (in_place.segments > kMostSegments) return kTooManySegments;
  if (!PaddedPlanes::applies(geometry)) return "a copy would have more codes than the windows read";
  if (segments_are_joined(geometry, kernels, in_place)) return nullptr;
  const std::size_t gathered = order_gathered(geometry, kernels).k();
  const double surplus = static_cast<double>(in_place.k()) - static_cast<double>(gathered);
  const double products =
      2.0 * surplus * static_cast<double>(round_up(as_size(geometry.group_output_channels()), kernels.nr));
  const double gathering =
      kStretchCycles * static_cast<double>(in_place.segments) + static_cast<double>(gathered) / 16.0;
  return products / kernels.products_per_cycle <= gathering
             ? nullptr
             : "a copy's rows would be padded to whole steps of the kernel, which takes longer";
}

// The same of the windows of an image, whose stretches take some cycles each; and one cycle takes 16 codes.
double gathering_cycles(const ConvolutionGeometry& geometry, double of_stretches, double k) {
  return static_cast<double>(geometry.image_pixels()) * static_cast<double>(geometry.groups) *
         (of_stretches + k / 16.0);
}

// Whether gathered windows of a single tap, whose rows follow each other through the image, beat reading them in place,
// where each row of the output is a run of its own: short runs leave tiles empty.
bool gathering_pays(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const TermOrder& in_place) {
  const bool is_single_tap = geometry.kernel_height == 1 && geometry.kernel_width == 1;
  if (!is_single_tap || geometry.pointwise() || !uniform(geometry, ActivationsFrom::pixels, 1)) return false;
  const auto k = static_cast<double>(in_place.k());
  const double apart = product_cycles(geometry, kernels, geometry.output_height, geometry.output_width, k);
  const double together = product_cycles(geometry, kernels, 1, geometry.image_pixels(), k);
  constexpr double kPixelCycles = 8.0;  // nothing lies in the padding
  return together + gathering_cycles(geometry, kPixelCycles, k) < apart;
}

void choose_source(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t flip,
                   ProductPlan& plan) {
  TermOrder order = order_in_place(geometry, kernels);
  plan.pixel_bytes = geometry.input_channels;
  plan.obstacle = obstacle_in_place(geometry, order, flip);
  if (plan.obstacle == nullptr && gathering_pays(geometry, kernels, order)) {
    plan.obstacle = "the rows of the output are short runs of the product";
  }
  plan.obstacle_to_copy = obstacle_to_planes(geometry, kernels, order);
  if (plan.obstacle == nullptr) {
    plan.source = ActivationsFrom::input;
  } else if (readable_with_next_pixels(geometry, order, flip)) {
    plan.source = ActivationsFrom::input;
    plan.gathers_end = true;
  } else if (plan.obstacle_to_copy == nullptr) {
    plan.source = ActivationsFrom::planes;
    plan.joins = segments_are_joined(geometry, kernels, order);
    if (plan.joins && pixels_are_padded(geometry, kernels, order)) {
      plan.joins = false;
      order = order_by_taps(geometry, kernels);
      plan.pixel_bytes = static_cast<std::int64_t>(order.segment_padded);
    }
  } else {
    plan.source = ActivationsFrom::pixels;
    order = order_gathered(geometry, kernels);
  }
  plan.order = order;
  plan.filter = packed_filter(geometry, kernels.nr, plan.joins ? order_gathered(geometry, kernels) : order, false);
}

void choose_units(const ConvolutionGeometry& geometry, ProductPlan& plan) {
  plan.by_rows =
      plan.source == ActivationsFrom::planes || (plan.source == ActivationsFrom::input && !geometry.pointwise());
  const std::int64_t image = geometry.image_pixels();
  if (plan.by_rows) {
    plan.unit_pixels = geometry.output_width > kMostTilePixels ? geometry.output_width : image;
  } else if (uniform(geometry, plan.source, geometry.batch)) {
    plan.unit_pixels = image * geometry.batch;
  } else {
    plan.unit_pixels = uniform(geometry, plan.source, 1) ? image : geometry.output_width;
  }
  plan.units = image * geometry.batch / plan.unit_pixels;
}

// How many parts more the pixels and the channels are divided into, for each thread to have four tasks.
struct Division {
  std::int64_t pixels, channels;
};

Division divide_work(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const ProductPlan& plan,
                     int num_threads, std::int64_t tiles, std::int64_t panels) {
  const std::int64_t tasks = num_threads * kernels.tasks_of_thread;
  const std::int64_t parts = num_threads == 1 ? 1 : divide_up(tasks, tiles);
  // A filter that no core's cache holds is divided as far as it can be, to be read once.
  const bool is_large = plan.filter.size() > cache_sizes().level_2 / 2;
  const auto least = static_cast<std::int64_t>(is_large ? kernels.nr : std::max(kernels.least_columns, kernels.nr));
  const std::int64_t most_channels =
      std::clamp<std::int64_t>(geometry.group_output_channels() / least, 1, is_large ? panels : parts);
  // What is gathered is gathered again for each part of the channels: pixels are divided while that leaves whole tiles
  // and each core's cache holds the filter. So they are where each part of the channels would fetch the rows again.
  const std::int64_t pixels = plan.units * plan.unit_pixels;
  const bool fetches_rows = kernels.least_columns > kernels.nr;
  const std::int64_t least_pixels = static_cast<std::int64_t>(fetches_rows ? kernels.mr * 3 / 2 : kernels.mr);
  const bool suffice =
      (plan.source == ActivationsFrom::pixels || fetches_rows) && !is_large && pixels >= tasks * least_pixels;
  const std::int64_t channels = suffice || !divides_channels(geometry) ? 1 : std::min(parts, most_channels);
  // Threads would write to the same lines of planes that are cut into parts of less than some lines.
  const std::int64_t least_lines = fetches_rows && parts > 1 ? num_threads * kTasksPerThread : parts;
  if (geometry.output.c != 1 && pixels < least_lines * static_cast<std::int64_t>(kCacheLine)) {
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
  constexpr std::int64_t kMostPixelsInPlace = 1024;
  const auto k = static_cast<std::int64_t>(plan.filter.order.k());
  const auto budget = static_cast<std::int64_t>(cache_sizes().level_2 / 2);
  const bool in_place = geometry.output.c == 1 && (plan.source == ActivationsFrom::planes ||
                                                   (plan.source == ActivationsFrom::input && geometry.input.c == 1));
  const double products_of_pixel = static_cast<double>(k * geometry.group_output_channels());
  const double pixels = in_place ? kFewCycles * kernels.products_per_cycle / products_of_pixel : 0.0;
  const std::int64_t most = pixels >= static_cast<double>(kMostPixelsInPlace)
                                ? kMostPixelsInPlace
                                : std::max(kMostTilePixels, static_cast<std::int64_t>(pixels));
  return std::clamp<std::int64_t>(std::min(most, budget / k), 1, plan.unit_pixels);
}

// The rows of bands of about so many pixels: where it can be, as many bands for each thread.
std::int64_t band_rows(const ConvolutionGeometry& geometry, std::int64_t pixels, int num_threads) {
  const std::int64_t rows = std::clamp<std::int64_t>(pixels / geometry.output_width, 1, geometry.output_height);
  const auto is_even = [&](std::int64_t of_band) {
    return divide_up(geometry.output_height, of_band) % num_threads == 0;
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
  }
  if (plan.bands(geometry)) {
    plan.tile_pixels = band_rows(geometry, pixels, num_threads) * geometry.output_width;
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
  const auto stretches = static_cast<double>(order_in_place(geometry, kernels).segments);
  const double gathering =
      plan.source == ActivationsFrom::pixels ? gathering_cycles(geometry, kStretchCycles * stretches, k) : 0.0;
  const std::int64_t run = plan.by_rows ? geometry.output_width : plan.tile_pixels;
  const double tiles = static_cast<double>(plan.units * plan.tiles_of_unit) / static_cast<double>(geometry.batch);
  return gathering + std::max(product_cycles(geometry, kernels, divide_up(geometry.image_pixels(), run), run, k),
                              tiles * fetch_cycles(geometry, kernels, k, k));
}

// Leaves the taps in the padding out where that saves a fifth of the time at least: what the estimate does not know
// costs more with the smaller tiles of regions.
void leave_out_padding(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t flip,
                       int num_threads, ProductPlan& plan) {
  if (plan.source == ActivationsFrom::input || windows_inside(geometry)) return;
  const std::int64_t parts = num_threads == 1 ? 1 : std::int64_t{num_threads} * kTasksPerThread;
  ProductRegions cut = cut_into_regions(
      geometry, kernels, std::min(kMostTilePixels, divide_up(geometry.image_pixels() * geometry.batch, parts)));
  if (cut.regions.empty()) return;
  const double all_taps = cycles_of_all_taps(geometry, kernels, plan);
  if (cut.cycles > 0.8 * all_taps) return;
  const char* obstacle = obstacle_in_codes(geometry, cut.order, flip);
  const bool in_place = obstacle == nullptr;
  if (!in_place && !(reads_most(geometry) && PaddedPlanes::holds(unpadded(geometry)))) return;
  plan.source = in_place ? ActivationsFrom::input : ActivationsFrom::planes;
  plan.order = cut.order;
  plan.joins = false;
  plan.pixel_bytes = geometry.input_channels;
  plan.filter = packed_filter(geometry, kernels.nr, plan.order, true);
  plan.obstacle = obstacle;
  plan.obstacle_to_copy = nullptr;
  plan.regions = std::move(cut.regions);
  plan.saved_by_regions = 1.0 - cut.cycles / all_taps;
  plan.by_rows = true;
  plan.units = geometry.batch;
  plan.unit_pixels = geometry.image_pixels();
  plan.tile_pixels = cut.tile_pixels;
  plan.tiles_of_unit = cut.tiles;
  choose_blocks(geometry, kernels, num_threads, divide_up(parts, plan.units * plan.tiles_of_unit), plan);
}

// As many images of planes at a time as fit a quarter of the level-2 caches and keep all threads busy: what is read
// soon after it was copied. Of an image that does not fit as many rows at a time; several threads, which wait for each
// other twice each time, take it whole unless it is larger than all of their caches. Returns the size of the planes.
std::size_t choose_images(const ConvolutionGeometry& geometry, int num_threads, ProductPlan& plan) {
  plan.images_at_once = geometry.batch;
  plan.rows_at_once = geometry.output_height;
  if (plan.source != ActivationsFrom::planes) return 0;
  const PaddedPlanes image(plan.regions.empty() ? geometry : unpadded(geometry), plan.pixel_bytes, 1);
  const std::int64_t threads = num_threads, tasks = static_cast<std::int64_t>(plan.tasks()) / geometry.batch;
  const auto cache = static_cast<std::int64_t>(cache_sizes().level_2), share = cache / 4;
  const auto image_bytes = static_cast<std::int64_t>(image.image_bytes());
  const std::int64_t images = std::max({std::int64_t{1}, threads * (share / image_bytes),
                                        threads == 1 ? 0 : divide_up(threads * kTasksPerThread, tasks)});
  plan.images_at_once = std::min(images, geometry.batch);
  if (plan.regions.empty() && image_bytes > (threads == 1 ? share : threads * cache)) {
    const std::int64_t tile_rows = plan.bands(geometry) ? plan.tile_pixels / geometry.output_width : 1;
    const auto tile_bytes = static_cast<std::int64_t>(image.row_bytes()) * geometry.stride_height * tile_rows;
    // What the windows of a band have in common with those of the next is copied for both.
    const std::int64_t extent =
        window_extent(std::int64_t{1}, geometry.stride_height, geometry.kernel_height, geometry.dilation_height);
    const std::int64_t common =
        std::max<std::int64_t>(extent - geometry.stride_height, 0) * static_cast<std::int64_t>(image.row_bytes());
    const std::int64_t tiles = std::max((threads * share - common) / tile_bytes, threads * kTasksPerThread);
    if (common <= tiles * tile_bytes / 4) {
      plan.images_at_once = 1;
      plan.rows_at_once = std::min(tiles * tile_rows, geometry.output_height);
    }
  }
  return planes_of(geometry, plan).size();
}

void lay_out_scratch(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::size_t planes_size,
                     ProductPlan& plan) {
  const std::size_t pixels = as_size(plan.tile_pixels);
  BufferLayout own;
  plan.activations =
      own.take(plan.source == ActivationsFrom::pixels || plan.gathers_end ? pixels : 0, plan.filter.order.k());
  plan.activation_sums = own.take(pixels, sizeof(std::int32_t));
  plan.results =
      own.take(geometry.output.c != 1 ? as_size(std::min(plan.block_channels, geometry.group_output_channels())) : 0,
               pixels * as_size(geometry.output_bytes));
  plan.participant_size = own.size();

  BufferLayout all;
  all.take(planes_size);
  plan.region_offsets_stride = as_size(geometry.output_channels) + kernels.nr;
  plan.participants_offset = all.take(as_size(plan.participants), plan.participant_size);
  plan.scratch_size = all.size();
}

}  // namespace

PaddedPlanes planes_of(const ConvolutionGeometry& geometry, const ProductPlan& plan) {
  if (!plan.regions.empty()) return {unpadded(geometry), plan.pixel_bytes, plan.images_at_once};
  return {geometry, plan.pixel_bytes, plan.images_at_once, plan.rows_at_once};
}

bool divides_channels(const ConvolutionGeometry& geometry) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double activations = number(geometry.batch) * number(geometry.input_channels) * number(geometry.input_height) *
                             number(geometry.input_width);
  return number(geometry.output_channels) * number(geometry.reduction()) >= activations;
}

ExecutionTarget target_of_products(const ConvolutionGeometry& geometry, ExecutionTarget target) {
  const Isa small_products = target.kernels().small_products;
  const auto cycles = [&](Isa isa) {
    const GemmKernels& kernels = *kernel_table(isa).gemm;
    const TermOrder order = order_in_place(geometry, kernels);
    const bool copies = kernels.most_joined != 0 && order.segment_terms != order.segment_padded;
    if (!copies) return cycles_of_32_rows(kernels, order.k(), geometry.group_output_channels(), 0);
    const double joined = cycles_of_joined(geometry, kernels, order);
    return order.segments > 1 && pixels_are_padded(geometry, kernels, order)
               ? cycles_of_padded_pixels(geometry, kernels)
               : joined;
  };
  if (small_products != target.isa && cycles(small_products) < cycles(target.isa)) target.isa = small_products;
  return target;
}

ProductPlan plan_product(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t input_flip,
                         int num_threads) {
  ProductPlan plan{};
  const std::uint8_t flip = kernels.multiplies_signed ? std::uint8_t{0} : input_flip;
  choose_source(geometry, kernels, flip, plan);
  choose_units(geometry, plan);
  choose_blocking(geometry, kernels, num_threads, plan);
  leave_out_padding(geometry, kernels, flip, num_threads, plan);
  plan.reads_signed = input_flip != 0 && plan.source == ActivationsFrom::input;
  lay_out_scratch(geometry, kernels, choose_images(geometry, num_threads, plan), plan);
  return plan;
}

}  // namespace dmlcpu
