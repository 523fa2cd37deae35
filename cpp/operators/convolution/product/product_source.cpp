#include "operators/convolution/product/product_source.h"

#include "operators/convolution/product/product_cells.h"
#include "operators/convolution/product/product_estimates.h"
#include "operators/sizes.h"
#include "runtime/cache_line.h"

namespace dmlcpu {
namespace {

// So many equal segments of a window's terms.
TermOrder order_of_segments(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::int64_t segments) {
  return term_order(segments, geometry.reduction() / segments, kernels.kr);
}

TermOrder order_gathered(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  return order_of_segments(geometry, kernels, 1);
}

TermOrder order_by_taps(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  return order_of_segments(geometry, kernels, geometry.kernel_height * geometry.kernel_width);
}

// Whether the kernel reads pixels of the input, as rows of the product, exactly.
bool reads_exactly(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  const std::size_t terms = as_size(geometry.input_channels);
  return kernels.loads_rows_as_tiles && geometry.pointwise() && geometry.groups == 1 &&
         (terms <= kernels.most_exact_terms || terms % kernels.kr == 0);
}

// Whether rows of the product are pixels of the input that follow each other without a seam, of channels that are no
// whole step of k: then what is read for the rest of the step are codes of the pixels behind them, which meet zeros in
// the filter, and only what reaches beyond the last pixel has to be gathered.
bool readable_with_next_pixels(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const TermOrder& order,
                               std::uint8_t flip) {
  return geometry.pointwise() && flip == 0 && geometry.input.c == 1 && order.segment_terms != order.segment_padded &&
         is_uniform(geometry, ActivationsFrom::input, geometry.batch) &&
         (reads_exactly(geometry, kernels) || geometry.image_pixels() * geometry.batch > kMostTilePixels);
}

constexpr const char* kTooManySegments = "windows have more taps than a plan keeps";

// Why windows cannot be read where they stand in the input; null if they can.
const char* obstacle_in_place(const ConvolutionGeometry& geometry, const TermOrder& order, std::uint8_t flip) {
  if (const char* in_codes = obstacle_in_codes(geometry, order, flip)) return in_codes;
  if (!geometry.windows_inside()) return "windows reach into the padding";
  return order.segments > kMostSegments ? kTooManySegments : nullptr;
}

// Why gathering windows beats reading them from padded planes; null if it does not. Planes pad each segment to whole
// steps of k, which costs products.
const char* obstacle_to_planes(const ConvolutionGeometry& geometry, const GemmKernels& kernels,
                               const TermOrder& in_place) {
  if (in_place.segments > kMostSegments) return kTooManySegments;
  if (!PaddedPlanes::applies(geometry)) return "a copy would have more codes than the windows read";
  if (needs_cells(geometry, kernels)) {
    const ProductCells chosen = choose_cells(geometry, kernels);
    if (!PaddedPlanes::holds(geometry, chosen.cells)) return "a copy in whole steps of the kernel is beyond any memory";
    return chosen.order.segments > kMostSegments ? kTooManySegments : nullptr;
  }
  const std::size_t gathered = order_gathered(geometry, kernels).k();
  const double surplus = static_cast<double>(in_place.k()) - static_cast<double>(gathered);
  // Twice what surplus terms take at the kernel's best rate, which short segments do not reach.
  constexpr double kWeightOfSurplus = 2.0;
  const double products =
      kWeightOfSurplus * surplus * static_cast<double>(round_up(as_size(geometry.group_output_channels()), kernels.nr));
  const double gathering =
      cycles_of_gathering(kCyclesOfStretch * static_cast<double>(in_place.segments), static_cast<double>(gathered));
  return products / kernels.products_per_cycle <= gathering
             ? nullptr
             : "a copy's rows would be padded to whole steps of the kernel, which takes longer";
}

// Pads the rows of the filter for a kernel that reads pixels exactly. With another step it may read them from the
// beginning of a cache line on, wherever they stand, in place of a copy: while that is little beside the other steps,
// or by few channels, for which a copy would take longest.
void pad_rows(const ConvolutionGeometry& geometry, const GemmKernels& kernels, TermOrder& order,
              ProductSource& source) {
  if (!reads_exactly(geometry, kernels)) return;
  constexpr std::int64_t kFewChannels = 128;
  constexpr std::size_t kUsualAlignment = 16;  // of what is allocated; pixels of fewer channels are copied
  const bool is_whole = order.segment_terms == order.segment_padded;
  const bool pays =
      is_whole ? 2 * geometry.output_channels <= geometry.input_channels : geometry.output_channels <= kFewChannels;
  if (pays) order.segment_padded = round_up(order.segment_terms + kCacheLine - kUsualAlignment, kernels.kr);
  source.padding = order.segment_padded - order.segment_terms;
}

// Whether gathered windows of a single tap, whose rows follow each other through the image, beat reading them in place,
// where each row of the output is a run of its own: short runs leave tiles empty.
bool gathering_pays(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const TermOrder& in_place) {
  const bool is_single_tap = geometry.kernel_height == 1 && geometry.kernel_width == 1;
  if (!is_single_tap || geometry.pointwise() || !is_uniform(geometry, ActivationsFrom::gathered, 1)) return false;
  const auto k = static_cast<double>(in_place.k());
  const double apart = cycles_of_runs(geometry, kernels, geometry.output_height, geometry.output_width, k);
  const double together = cycles_of_runs(geometry, kernels, 1, geometry.image_pixels(), k);
  return together + cycles_of_gathering(geometry, kCyclesOfPixel, k) < apart;
}

}  // namespace

TermOrder order_in_place(const ConvolutionGeometry& geometry, const GemmKernels& kernels) {
  if (geometry.groups > 1 || geometry.dilation_width > 1) return order_by_taps(geometry, kernels);
  return order_of_segments(geometry, kernels, geometry.kernel_height);
}

const char* obstacle_in_codes(const ConvolutionGeometry& geometry, const TermOrder& order, std::uint8_t flip) {
  const bool by_tap = order.segment_terms == as_size(geometry.group_input_channels());
  const bool neighbours = by_tap || geometry.input.w == geometry.input_channels;
  if (flip != 0) return "INT8 codes become unsigned";
  if (geometry.input.c != 1 || !neighbours) return "codes of a window's rows are not neighbours";
  if (order.segment_terms != order.segment_padded) return "rows of a window's codes are no whole steps of the kernel";
  return nullptr;
}

bool is_uniform(const ConvolutionGeometry& geometry, ActivationsFrom source, std::int64_t images) {
  const auto flat = [&](const PlaneStrides& strides) {
    return uniform_pixel_stride(strides, images, geometry.output_height, geometry.output_width).has_value();
  };
  return flat(geometry.output) && (source != ActivationsFrom::input || flat(geometry.input));
}

OrderedSource choose_source(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t flip,
                            bool input_is_aligned) {
  TermOrder order = order_in_place(geometry, kernels);
  ProductSource source = {.from = ActivationsFrom::input,
                          .cells = PlaneCells::pixels(geometry.input_channels),
                          .padding = 0,
                          .gathers_end = false,
                          .obstacle = obstacle_in_place(geometry, order, flip),
                          .obstacle_to_copy = obstacle_to_planes(geometry, kernels, order)};
  if (source.obstacle == nullptr && gathering_pays(geometry, kernels, order)) {
    source.obstacle = "the rows of the output are short runs of the product";
  }
  if (source.obstacle == nullptr) {
    if (!input_is_aligned) pad_rows(geometry, kernels, order, source);  // whole lines begin at lines otherwise
  } else if (readable_with_next_pixels(geometry, kernels, order, flip)) {
    pad_rows(geometry, kernels, order, source);
    source.gathers_end = source.padding == 0;
  } else if (source.obstacle_to_copy == nullptr) {
    source.from = ActivationsFrom::planes;
    if (needs_cells(geometry, kernels)) {
      const ProductCells chosen = choose_cells(geometry, kernels);
      source.cells = chosen.cells;
      source.padding = chosen.padding;
      order = chosen.order;
    } else if (geometry.groups > 1) {
      source.cells = cells_of_groups(geometry, kernels);
    }
  } else {
    source.from = ActivationsFrom::gathered;
    order = order_gathered(geometry, kernels);
  }
  return {source, order};
}

ExecutionTarget target_of_products(const ConvolutionGeometry& geometry, ExecutionTarget target) {
  const Isa small_products = target.kernels().small_products;
  const auto cycles = [&](Isa isa) {
    const GemmKernels& kernels = *kernel_table(isa).gemm;
    const TermOrder order = order_in_place(geometry, kernels);
    if (order.segments > 1 && needs_cells(geometry, kernels)) return choose_cells(geometry, kernels).cycles;
    const bool copies = kernels.loads_rows_as_tiles && order.segment_terms != order.segment_padded;
    return cycles_of_rows(kernels, order.k(), geometry.group_output_channels(), copies ? order.k() / kCacheLine : 0);
  };
  if (geometry.joined_groups > 1) return target;
  if (small_products != target.isa && cycles(small_products) < cycles(target.isa)) target.isa = small_products;
  return target;
}

}  // namespace dmlcpu
