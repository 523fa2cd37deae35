// Convolution as a matrix product, requantized in the same pass, one tile of output pixels at a time.
//
//   copy the input into padded planes, where that pays and tiles do not copy what they read
//                                                             operators/convolution/padded/padded_planes.h
//   for each tile of pixels (in parallel), for each group:
//     copy or pack the tile's activations, where they are not read in place
//                                                             operators/convolution/product/gathered_windows.h
//     for each block of output channels, or what it has of each group of the desc (joined_groups.h):
//       product into codes or sums                            kernels/gemm
//       transpose them into the output, where its channels are not neighbours
#include <algorithm>
#include <vector>

#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/padded/padded_planes.h"
#include "operators/convolution/product/gathered_windows.h"
#include "operators/convolution/product/joined_groups.h"
#include "operators/convolution/product/packed_filter.h"
#include "operators/convolution/product/product_plan.h"
#include "operators/convolution/product/product_source.h"
#include "operators/convolution/product/product_strides.h"
#include "operators/convolution/product/product_tile.h"
#include "operators/sizes.h"
#include "operators/strides/channel_planes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

class ProductConvolution final : public ConvolutionAlgorithm {
 public:
  ProductConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(with_joined_groups(geometry, target)),
        target_(target_of_products(geometry_, target)),
        gemm_(*target_.kernels().gemm),
        plan_(plan_product(geometry_, gemm_, target)),
        strides_(product_strides(geometry_, plan_)),
        segments_(product_segments(geometry_, plan_.cut, strides_)) {}

  bool reads_signed() const override { return plan_.reads_signed; }
  std::size_t packed_filter_size() const override { return plan_.cut.filter.size(); }
  std::vector<std::size_t> packing() const override { return plan_.cut.filter.numbers(); }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override {
    dmlcpu::pack_filter(geometry_, *target_.kernels().pack, plan_.cut.filter, filter, flip, packed);
  }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + plan_.cut.filter.sums_offset());
  }
  std::size_t channels_at_once() const override { return gemm_.nr; }
  std::size_t arranged_size() const override {
    return plan_.cut.regions.size() * plan_.region_offsets_stride * sizeof(std::int32_t);
  }
  ChannelParameters arrange(const ChannelParameters& channels, const std::uint8_t* packed_filter,
                            std::int32_t input_zero_point, std::uint8_t* arranged) const override;
  std::size_t scratch_size() const override { return plan_.scratch.size; }
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override { return describe_product_plan(geometry_, target_, plan_); }

 private:
  // The product's operand: rows read in place, or the packed operand as a single segment.
  struct Activations {
    const std::uint8_t* data;
    std::size_t row_stride, run_stride;
    std::size_t terms, k;  // of one segment
  };
  // Planes, and the first image and row of the output whose windows they have.
  struct Copied {
    std::uint8_t* planes;
    std::int64_t first_image, first_row;
  };

  // Where the sums or codes of a tile go, by channels of a block: the output, or memory from where they are transposed.
  struct BlockResults {
    std::uint8_t* data;
    std::size_t row_stride, run_stride;  // elements
    std::int64_t group_channel, channels;
    bool are_output;
  };

  // Where the results of a tile begin, from a channel on.
  std::uint8_t* output_from(const ConvolutionDispatch& dispatch, const ProductTile& tile,
                            std::int64_t channel) const noexcept {
    const PlaneStrides& strides = geometry_.output;
    return dispatch.output + geometry_.output_bytes * (tile.image * strides.n + channel * strides.c +
                                                       tile.row * strides.h + tile.column * strides.w);
  }
  // The order of the steps of panels from a channel of a group on; null where the filter keeps none.
  const std::uint16_t* steps_from(const std::uint8_t* packed, std::int64_t group, std::int64_t channel) const noexcept {
    const PackedFilter& filter = plan_.cut.filter;
    if (filter.order_steps == nullptr) return nullptr;
    const std::size_t panel = as_size(group) * filter.panels_of_group() + as_size(channel) / filter.nr;
    return reinterpret_cast<const std::uint16_t*>(packed + filter.order_offset()) + panel * filter.order_stride();
  }
  void run_images(const ConvolutionDispatch& dispatch, std::int64_t images, std::uint8_t* scratch) const;
  Copied copy_tile(const ConvolutionDispatch& dispatch, const ProductTile& tile, std::uint8_t* own) const noexcept;
  // Of the batch.
  std::int64_t first_pixel(const ProductTile& tile) const noexcept {
    return tile.image * geometry_.image_pixels() + tile.row * geometry_.output_width + tile.column;
  }
  std::int64_t pixels_behind(const ProductTile& tile) const noexcept {
    return geometry_.image_pixels() * geometry_.batch - first_pixel(tile) - tile.pixels();
  }
  Activations prepare_activations(const ConvolutionDispatch& dispatch, const Copied& copied, const ProductTile& tile,
                                  std::uint8_t* own) const noexcept;
  Activations activations_in_place(const std::uint8_t* data, const Copied& copied,
                                   const ProductTile& tile) const noexcept;
  void sum_activations(const Activations& activations, const ProductTile& tile, std::int64_t joined_group,
                       std::int32_t* sums) const noexcept;
  std::size_t next_rows(const ProductTile& tile) const noexcept;
  void run_tile(const ConvolutionDispatch& dispatch, const Copied& copied, const ProductTile& tile,
                std::uint8_t* own) const noexcept;
  BlockResults results_of_block(const ConvolutionDispatch& dispatch, const ProductTile& tile, std::int64_t block,
                                std::uint8_t* own) const noexcept;
  GemmBlock product_of(const ConvolutionDispatch& dispatch, const Activations& activations, const ProductTile& tile,
                       const BlockResults& results, IndexRange of_group) const noexcept;
  void finish_block(const ConvolutionDispatch& dispatch, const ProductTile& tile,
                    const BlockResults& results) const noexcept;
  void finish_tile(const ConvolutionDispatch& dispatch, const ProductTile& tile) const noexcept;
  void scatter(const std::uint8_t* results, const ProductTile& tile, std::int64_t channels,
               std::uint8_t* output) const noexcept;
  void scatter_run(const std::uint8_t* results, std::int64_t pixels, std::int64_t channels,
                   std::uint8_t* output) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  const GemmKernels& gemm_;
  ProductPlan plan_;
  ProductStrides strides_;
  std::vector<ProductSegments> segments_;  // of each region, or of the only product
};

// The offsets of each region's channels, from which the taps in the padding are taken out.
ChannelParameters ProductConvolution::arrange(const ChannelParameters& channels, const std::uint8_t* packed_filter,
                                              std::int32_t input_zero_point, std::uint8_t* arranged) const {
  if (plan_.cut.regions.empty()) return channels;
  const auto* tap_sums = reinterpret_cast<const std::int32_t*>(packed_filter + plan_.cut.filter.segment_sums_offset());
  auto* offsets = reinterpret_cast<std::int32_t*>(arranged);
  for (const ProductRegion& region : plan_.cut.regions) {
    std::copy_n(channels.offset, plan_.region_offsets_stride, offsets);
    take_out_taps(geometry_, region, tap_sums, channels.filter_zero_point, input_zero_point, offsets);
    offsets += plan_.region_offsets_stride;
  }
  return {.offset = reinterpret_cast<const std::int32_t*>(arranged),
          .multiplier = channels.multiplier,
          .filter_zero_point = channels.filter_zero_point};
}

void ProductConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  for (std::int64_t image = 0; image < geometry_.batch; image += plan_.copies.images_at_once) {
    ConvolutionDispatch part = dispatch;
    part.source.data += image * geometry_.input.n;
    part.output += image * geometry_.output.n * geometry_.output_bytes;
    run_images(part, std::min(plan_.copies.images_at_once, geometry_.batch - image), scratch);
  }
}

void ProductConvolution::run_images(const ConvolutionDispatch& dispatch, std::int64_t images,
                                    std::uint8_t* scratch) const {
  const std::size_t all = as_size(plan_.cut.tasks());
  const std::size_t tasks = images == geometry_.batch ? all : all / as_size(geometry_.batch) * as_size(images);
  const PlaneCopies& copies = plan_.copies;
  if (copies.planes && !copies.of_tiles) {
    copies.planes->fill(dispatch.source, *target_.kernels().pack, images, 0, scratch);
  }
  parallel_for(tasks, target_.num_threads, [&](std::size_t task, int slot) noexcept {
    std::uint8_t* own = scratch + plan_.scratch.participants_offset + as_size(slot) * plan_.scratch.participant_size;
    ProductTile tile = product_tile(geometry_, plan_.cut, strides_.output_pixel, static_cast<std::int64_t>(task));
    ConvolutionDispatch of_region = dispatch;
    of_region.channels.offset += tile.region * plan_.region_offsets_stride;
    const Copied copied = copies.of_tiles ? copy_tile(dispatch, tile, own) : Copied{scratch, 0, 0};
    for (; tile.group < geometry_.groups; ++tile.group) run_tile(of_region, copied, tile, own);
    if (dispatch.epilogue != nullptr) finish_tile(dispatch, tile);
  });
}

// What a tile reads.
ProductConvolution::Copied ProductConvolution::copy_tile(const ConvolutionDispatch& dispatch, const ProductTile& tile,
                                                         std::uint8_t* own) const noexcept {
  ActivationSource source = dispatch.source;
  source.data += tile.image * geometry_.input.n;
  plan_.copies.planes->fill(source, *target_.kernels().pack, 1, tile.row, own + plan_.scratch.tile_planes);
  return {own + plan_.scratch.tile_planes, tile.image, tile.row};
}

ProductConvolution::Activations ProductConvolution::prepare_activations(const ConvolutionDispatch& dispatch,
                                                                        const Copied& copied, const ProductTile& tile,
                                                                        std::uint8_t* own) const noexcept {
  const ProductSource& source = plan_.cut.source;
  const std::size_t k = plan_.cut.filter.order.k();
  const bool reaches_beyond = as_size(pixels_behind(tile)) * strides_.pixel < k;
  if (source.from != ActivationsFrom::gathered && !(source.gathers_end && reaches_beyond)) {
    return activations_in_place(plan_.copies.planes ? copied.planes : dispatch.source.data, copied, tile);
  }
  std::uint8_t* packed = own + plan_.scratch.activations;
  const bool are_of_all_groups = gathers_whole_pixels(geometry_);
  if (tile.group == 0 || !are_of_all_groups) {
    gather_windows(geometry_, *target_.kernels().pack, dispatch.source, tile.group, first_pixel(tile), tile.pixels(), k,
                   packed);
  }
  if (are_of_all_groups) packed += tile.group * geometry_.group_input_channels();
  return {packed, gathered_row_bytes(geometry_, k), 0, as_size(geometry_.reduction()), k};
}

// A tile's windows where they stand. Of a region, they begin at its first tap.
ProductConvolution::Activations ProductConvolution::activations_in_place(const std::uint8_t* data, const Copied& copied,
                                                                         const ProductTile& tile) const noexcept {
  const TermOrder& order = plan_.cut.filter.order;
  const auto of_row = static_cast<std::int64_t>(strides_.output_row);
  const auto of_column = static_cast<std::int64_t>(strides_.output_column);
  std::int64_t place = (tile.image - copied.first_image) * static_cast<std::int64_t>(strides_.image) +
                       (tile.row - copied.first_row) * of_row + tile.column * of_column +
                       tile.group * static_cast<std::int64_t>(strides_.group);
  bool down = false;
  if (!plan_.cut.regions.empty()) {
    const ProductRegion& region = plan_.cut.regions[tile.region];
    if (region.taps() == 0) return {data, 0, 0, order.segment_terms, order.segment_padded};
    const std::int64_t row = region.rows.taps.begin * geometry_.dilation_height - geometry_.padding_top;
    const std::int64_t column = region.columns.taps.begin * geometry_.dilation_width - geometry_.padding_left;
    place += row * static_cast<std::int64_t>(strides_.row) + column * static_cast<std::int64_t>(strides_.pixel);
    down = region.down_columns;
  }
  const std::size_t of_m = as_size(down ? of_row : of_column), of_run = as_size(down ? of_column : of_row);
  return {data + place, of_m, of_run, order.segment_terms, order.segment_padded};
}

// The sum of each pixel's window, which filters with zero points other than 0 need: of one of the groups that are
// joined.
void ProductConvolution::sum_activations(const Activations& activations, const ProductTile& tile,
                                         std::int64_t joined_group, std::int32_t* sums) const noexcept {
  const ProductSegments& of_region = segments_[tile.region];
  const std::vector<std::size_t>& segments = of_region.summed.empty() ? of_region.activations : of_region.summed;
  const std::uint8_t* data = activations.data + joined_group * geometry_.filter_input_channels();
  const std::size_t m = as_size(tile.m);
  for (std::size_t run = 0; run < as_size(tile.runs); ++run) {
    target_.kernels().pack->sum_rows({.a = data + run * activations.run_stride,
                                      .a_row_stride = activations.row_stride,
                                      .a_offsets = segments.data(),
                                      .segments = segments.size(),
                                      .m = m,
                                      .k = of_region.summed_terms(geometry_, activations.terms),
                                      .a_is_signed = plan_.reads_signed},
                                     sums + run * m);
  }
}

// How many pixels of the next tile follow those of this one, where they are read as they stand, one tap each.
std::size_t ProductConvolution::next_rows(const ProductTile& tile) const noexcept {
  if (plan_.cut.source.from != ActivationsFrom::input || !geometry_.pointwise()) return 0;
  return as_size(std::min(pixels_behind(tile), tile.pixels()));
}

void ProductConvolution::run_tile(const ConvolutionDispatch& dispatch, const Copied& copied, const ProductTile& tile,
                                  std::uint8_t* own) const noexcept {
  const Activations activations = prepare_activations(dispatch, copied, tile, own);
  auto* sums = reinterpret_cast<std::int32_t*>(own + plan_.scratch.activation_sums);
  const bool has_zero_points = dispatch.channels.filter_zero_point != nullptr;
  // Windows of groups that are joined have sums of their own: one group is multiplied after the other then.
  const bool is_apart = has_zero_points && geometry_.joined_groups > 1;
  if (has_zero_points && !is_apart) sum_activations(activations, tile, 0, sums);
  const std::int64_t at_once = is_apart ? geometry_.filter_output_channels() : geometry_.group_output_channels();
  const auto panel = static_cast<std::int64_t>(gemm_.nr);
  for (std::int64_t block = tile.first_block; block < tile.end_block; ++block) {
    const BlockResults results = results_of_block(dispatch, tile, block, own);
    const std::int64_t first = results.group_channel, end = first + results.channels;
    // From the last group to the first: where one begins amid a panel of the filter, what is made of the channels
    // before it is not theirs, and is written once more.
    for (std::int64_t group = (end - 1) / at_once; (group + 1) * at_once > first; --group) {
      if (is_apart) sum_activations(activations, tile, group, sums);
      const IndexRange channels = {std::max(group * at_once / panel * panel, first),
                                   std::min((group + 1) * at_once, end)};
      GemmBlock product = product_of(dispatch, activations, tile, results, channels);
      product.activation_sum = sums;
      if (channels.begin == first && block + 1 == tile.end_block) product.next_rows = next_rows(tile);
      gemm_.multiply(product);
    }
    finish_block(dispatch, tile, results);
  }
}

ProductConvolution::BlockResults ProductConvolution::results_of_block(const ConvolutionDispatch& dispatch,
                                                                      const ProductTile& tile, std::int64_t block,
                                                                      std::uint8_t* own) const noexcept {
  const std::int64_t of_group = geometry_.group_output_channels(), first = block * plan_.cut.blocks.channels;
  const std::int64_t channels = std::min(plan_.cut.blocks.channels, of_group - first);
  const bool direct = geometry_.output.c == 1;
  return {.data = direct ? output_from(dispatch, tile, tile.group * of_group + first) : own + plan_.scratch.results,
          .row_stride = direct ? tile.output_row_stride : as_size(channels),
          .run_stride = direct ? tile.output_run_stride : as_size(tile.m * channels),
          .group_channel = first,
          .channels = channels,
          .are_output = direct};
}

// The product by some channels of the tile's group, within those of the results.
GemmBlock ProductConvolution::product_of(const ConvolutionDispatch& dispatch, const Activations& activations,
                                         const ProductTile& tile, const BlockResults& results,
                                         IndexRange of_group) const noexcept {
  const ChannelParameters& parameters = dispatch.channels;
  const ProductSegments& segments = segments_[tile.region];
  const PackedFilter& packed = plan_.cut.filter;
  const std::size_t place = as_size(tile.group) * packed.operand_size + as_size(of_group.begin) * packed.order.k();
  const std::int64_t channel = tile.group * geometry_.group_output_channels() + of_group.begin;
  const bool ends_in_sums = geometry_.ends_in_sums();
  std::uint8_t* output = results.data + (of_group.begin - results.group_channel) * geometry_.output_bytes;
  return {
      .a = activations.data,
      .a_row_stride = activations.row_stride,
      .a_run_stride = activations.run_stride,
      .a_offsets = segments.activations.data(),
      .segments = segments.activations.size(),
      .b = dispatch.filter + packed.zeros + place,
      .b_offsets = segments.filter.data(),
      .b_panel_stride = packed.order.k() * packed.nr,
      .b_order = steps_from(dispatch.filter, tile.group, of_group.begin),
      .b_order_stride = packed.order_stride(),
      .runs = as_size(tile.runs),
      .m = as_size(tile.m),
      .n = as_size(of_group.count()),
      .k = activations.k,
      .offset = parameters.offset + channel,
      .multiplier = ends_in_sums ? nullptr : parameters.multiplier + channel,
      .filter_zero_point = parameters.filter_zero_point == nullptr ? nullptr : parameters.filter_zero_point + channel,
      .output_zero_point = dispatch.output_zero_point,
      .flip = dispatch.output_flip,
      .output = ends_in_sums ? nullptr : output,
      .output_row_stride = results.row_stride,
      .output_run_stride = results.run_stride,
      .sums = ends_in_sums ? reinterpret_cast<std::int32_t*>(output) : nullptr,
      .a_is_signed = plan_.reads_signed,
      .padding = plan_.cut.source.padding};
}

// Makes floats of sums, and brings results to the output where they are not.
void ProductConvolution::finish_block(const ConvolutionDispatch& dispatch, const ProductTile& tile,
                                      const BlockResults& results) const noexcept {
  const std::int64_t channel = tile.group * geometry_.group_output_channels() + results.group_channel;
  if (dispatch.to_floats != nullptr) {
    dispatch.to_floats->apply({.sums = results.data,
                               .runs = as_size(tile.runs),
                               .run_stride = results.run_stride,
                               .pixels = as_size(tile.m),
                               .pixel_stride = results.row_stride,
                               .first_channel = as_size(channel),
                               .channels = as_size(results.channels)});
  }
  if (!results.are_output) scatter(results.data, tile, results.channels, output_from(dispatch, tile, channel));
}

// Applies the epilogue to all channels of a tile, or to those of its blocks in each group.
void ProductConvolution::finish_tile(const ConvolutionDispatch& dispatch, const ProductTile& tile) const noexcept {
  const bool whole = plan_.cut.blocks.splits == 1;
  const std::int64_t of_group = whole ? geometry_.output_channels : geometry_.group_output_channels();
  const std::int64_t first = whole ? 0 : tile.first_block * plan_.cut.blocks.channels;
  const std::int64_t end = whole ? of_group : std::min(tile.end_block * plan_.cut.blocks.channels, of_group);
  for (std::int64_t channel = first; channel < geometry_.output_channels; channel += of_group) {
    std::uint8_t* output = output_from(dispatch, tile, channel);
    for (std::int64_t run = 0; run < tile.runs; ++run, output += tile.output_run_stride) {
      dispatch.epilogue->apply(output, as_size(tile.m), tile.output_row_stride, as_size(end - first));
    }
  }
}

// Writes the results of a tile's pixels, whose channels follow each other, to an output where they do not.
void ProductConvolution::scatter(const std::uint8_t* results, const ProductTile& tile, std::int64_t channels,
                                 std::uint8_t* output) const noexcept {
  if (geometry_.output.h == tile.m * strides_.output_pixel) {  // the runs are one
    scatter_run(results, tile.pixels(), channels, output);
    return;
  }
  for (std::int64_t run = 0; run < tile.runs; ++run) {
    scatter_run(results + run * tile.m * channels * geometry_.output_bytes, tile.m, channels,
                output + run * geometry_.output.h * geometry_.output_bytes);
  }
}

void ProductConvolution::scatter_run(const std::uint8_t* results, std::int64_t pixels, std::int64_t channels,
                                     std::uint8_t* output) const noexcept {
  scatter_pixels(*target_.kernels().pack, results, pixels, channels, as_size(geometry_.output_bytes), output,
                 strides_.output_pixel, geometry_.output.c);
}

}  // namespace

std::unique_ptr<ConvolutionAlgorithm> make_product_convolution(const ConvolutionGeometry& geometry,
                                                               const ExecutionTarget& target) {
  return std::make_unique<ProductConvolution>(geometry, target);
}

}  // namespace dmlcpu
