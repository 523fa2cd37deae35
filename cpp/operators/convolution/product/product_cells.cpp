#include "operators/convolution/product/product_cells.h"

#include <numeric>
#include <vector>

#include "operators/convolution/product/product_estimates.h"
#include "operators/sizes.h"
#include "runtime/cache_line.h"

namespace dmlcpu {
namespace {

// Of a cache line that is copied: of pixels, and of cells, where a piece of each row is copied by itself.
constexpr double kPixelLineCycles = 4.0, kCellLineCycles = 6.0, kPieceCycles = 2.0;
// Of windows that begin amid a line: of a step of k that is read as it lies, for 32 rows by 32 columns, and of a place
// of the line more that they begin at.
constexpr double kSlowStepCycles = 88.0, kPlaceCycles = 2.0;

std::size_t lines_of(std::int64_t bytes) { return round_up(as_size(bytes), kCacheLine) / kCacheLine; }

double cycles_of(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::size_t k,
                 double cycles_to_copy) {
  return kEstimatedRows * cycles_to_copy + cycles_of_rows(kernels, k, geometry.group_output_channels(), 0);
}

// Of products whose rows begin anywhere: the kernel copies those of so many terms, and reads longer ones slowly.
double cycles_of_rows_anywhere(const GemmKernels& kernels, std::size_t k, std::int64_t columns) {
  const std::size_t lines = k / kCacheLine;
  if (k <= kernels.most_exact_terms) return cycles_of_rows(kernels, k, columns, lines);
  const double slow = kSlowStepCycles * static_cast<double>(lines) * static_cast<double>(columns) / kEstimatedRows;
  return slow + cycles_of_rows(kernels, k, columns, 0);
}

// Of a cache line, at which windows of pixels without gaps begin; 0 where these are many, or windows few for them.
std::int64_t places_of_windows(const ConvolutionGeometry& geometry) {
  constexpr auto kLine = static_cast<std::int64_t>(kCacheLine), kMostPlaces = std::int64_t{2};
  constexpr std::int64_t kLeastPixels = 512;
  const std::int64_t step = geometry.stride_width % kLine * (geometry.input_channels % kLine);
  const std::int64_t places = kLine / std::gcd(step, kLine);
  return places == 1 || (places <= kMostPlaces && geometry.image_pixels() >= kLeastPixels) ? places : 0;
}

ProductCells pixels_apart(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  const TermOrder order =
      term_order(geometry.kernel_height * geometry.kernel_width, geometry.input_channels, kernels.kr);
  const double pixels = as_number(geometry.stride_height) * as_number(geometry.stride_width);
  const double lines = pixels * static_cast<double>(lines_of(geometry.input_channels));
  return {.cells = PlaneCells::pixels(static_cast<std::int64_t>(order.segment_padded)),
          .order = order,
          .padding = 0,
          .cycles = cycles_of(geometry, kernels, order.k(), kPixelLineCycles * lines)};
}

// Pixels without gaps, whose windows begin anywhere.
ProductCells pixels_anywhere(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  const TermOrder order =
      term_order(geometry.kernel_height, geometry.kernel_width * geometry.input_channels, kernels.kr);
  const double copied = as_number(geometry.stride_height) * as_number(geometry.stride_width) *
                        as_number(geometry.input_channels) / static_cast<double>(kCacheLine);
  return {.cells = PlaneCells::pixels(geometry.input_channels),
          .order = order,
          .padding = 0,
          .cycles = kEstimatedRows * kPixelLineCycles * copied +
                    cycles_of_rows_anywhere(kernels, order.k(), geometry.group_output_channels())};
}

// Pixels without gaps, whose windows begin at some of so many places of a line.
ProductCells pixels_packed(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::int64_t places) {
  const std::size_t terms = as_size(geometry.kernel_width * geometry.input_channels);
  const std::size_t from_place = kCacheLine / as_size(places), rows = as_size(geometry.kernel_height);
  TermOrder order = term_order(geometry.kernel_height, static_cast<std::int64_t>(terms), kernels.kr);
  std::size_t steps = 0;
  for (std::size_t before = 0; before < kCacheLine; before += from_place) {
    order.segment_padded = round_up(before + terms, kernels.kr);
    steps += order.segment_padded;
  }
  const double pixels = as_number(geometry.stride_height) * as_number(geometry.stride_width);
  const double lines = pixels * as_number(geometry.input_channels) / static_cast<double>(kCacheLine);
  PlaneCells cells = PlaneCells::pixels(geometry.input_channels);
  cells.multiple = places * geometry.stride_width;
  return {.cells = cells,
          .order = order,
          .padding = order.segment_padded - terms,
          .cycles = cycles_of(geometry, kernels, rows * steps / as_size(places),
                              kPixelLineCycles * lines + kPlaceCycles * static_cast<double>(places - 1))};
}

// Cells of so many rows of a window: a single one, a multiple of the stride, or all.
ProductCells windows(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::int64_t rows) {
  const std::int64_t terms = geometry.kernel_width * geometry.input_channels;
  const TermOrder order = term_order(divide_up(geometry.kernel_height, rows), rows * terms, kernels.kr);
  const bool are_whole = rows % geometry.stride_height == 0 || rows == geometry.kernel_height;
  const std::int64_t row_step = are_whole ? geometry.stride_height : 1;
  const std::int64_t rows_of_output_row = geometry.stride_height / row_step;
  const double lines = static_cast<double>(lines_of(rows * terms)) * static_cast<double>(rows_of_output_row);
  const double pieces = static_cast<double>(rows * rows_of_output_row);
  return {.cells = {.are_windows = true,
                    .rows = rows,
                    .row_step = row_step,
                    .bytes = static_cast<std::int64_t>(order.segment_padded),
                    .multiple = 1,
                    .pieces = 1},
          .order = order,
          .padding = 0,
          .cycles = cycles_of(geometry, kernels, order.k(), kCellLineCycles * lines + kPieceCycles * pieces)};
}

// Of the cells of windows, numbers of rows that may pay.
std::vector<std::int64_t> rows_of_cells(const ConvolutionGeometry& geometry) {
  // Larger cells leave the caches: of all windows, and what is copied again for each row of the output.
  constexpr std::int64_t kMostCellBytes = 4096, kMostRepeatedBytes = 512;
  const std::int64_t stride = geometry.stride_height, height = geometry.kernel_height;
  const auto fit = [&](std::int64_t rows) {
    const std::int64_t bytes = rows * geometry.kernel_width * geometry.input_channels;
    return bytes <= (rows <= stride ? kMostCellBytes : kMostRepeatedBytes);
  };
  if (geometry.stride_width > geometry.kernel_width || stride > height || !fit(1)) return {};
  std::vector<std::int64_t> result = {1};
  if (geometry.dilation_height > 1) return result;
  for (std::int64_t rows = stride; rows < height && fit(rows); rows += stride) {
    if (rows > 1) result.push_back(rows);
  }
  if (height > 1 && fit(height)) result.push_back(height);
  return result;
}

// Those of pixels apart, which every window can have, then what may be better.
std::vector<ProductCells> cells_in_question(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  std::vector<ProductCells> result = {pixels_apart(geometry, kernels)};
  if (geometry.dilation_width > 1) return result;
  result.push_back(pixels_anywhere(geometry, kernels));
  if (const std::int64_t places = places_of_windows(geometry); places != 0) {
    const ProductCells packed = pixels_packed(geometry, kernels, places);
    if (packed.order.k() <= kernels.most_exact_terms) result.push_back(packed);
  }
  for (const std::int64_t rows : rows_of_cells(geometry)) result.push_back(windows(geometry, kernels, rows));
  return result;
}

bool is_allowed(const ConvolutionGeometry& geometry, const ProductCells& cells) {
  return cells.order.segments <= kMostSegments && cells.cells.rows <= PlaneCells::kMostRows &&
         PaddedPlanes::holds(geometry, cells.cells);
}

}  // namespace

bool needs_cells(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  return kernels.loads_rows_as_tiles && geometry.groups == 1 && as_size(geometry.input_channels) % kernels.kr != 0;
}

ProductCells choose_cells(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  const std::vector<ProductCells> candidates = cells_in_question(geometry, kernels);
  ProductCells best = candidates.front();
  for (const ProductCells& cells : candidates) {
    if (is_allowed(geometry, cells) && (cells.cycles < best.cycles || !is_allowed(geometry, best))) best = cells;
  }
  return best;
}

PlaneCells cells_of_groups(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  const PlaneCells without_gaps = PlaneCells::pixels(geometry.input_channels);
  const std::int64_t channels = geometry.group_input_channels();
  if (!kernels.loads_rows_as_tiles || as_size(channels) % kernels.kr == 0) return without_gaps;
  const TermOrder order = term_order(geometry.kernel_height * geometry.kernel_width, channels, kernels.kr);
  const PlaneCells apart =
      PlaneCells::pixels(static_cast<std::int64_t>(order.segment_padded) * geometry.groups, geometry.groups);
  const double pixels = as_number(geometry.stride_height) * as_number(geometry.stride_width);
  const double to_copy = pixels * (kCellLineCycles * static_cast<double>(lines_of(channels)) + kPieceCycles);
  const bool pays = cycles_of(geometry, kernels, order.k(), to_copy) <
                    cycles_of_rows_anywhere(kernels, order.k(), geometry.group_output_channels());
  return pays && PaddedPlanes::holds(geometry, apart) ? apart : without_gaps;
}

}  // namespace dmlcpu
