// Convolution as a matrix product, requantized in the same pass, one tile of output pixels at a time.
//
//   copy the input into padded planes, where that pays        operators/padded_planes.h
//   for each tile of pixels (in parallel), for each group:
//     pack the tile's activations, where they are not read in place
//                                                             operators/convolution_packing.h
//     for each block of output channels:
//       product into codes or sums                            kernels/gemm
//       transpose them into the output, where its channels are not neighbours
#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

#include "operators/channel_planes.h"
#include "operators/convolution_algorithm.h"
#include "operators/convolution_packing.h"
#include "operators/padded_planes.h"
#include "operators/product_plan.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

class ProductConvolution final : public ConvolutionAlgorithm {
 public:
  ProductConvolution(const ConvolutionGeometry& geometry, std::uint8_t input_flip, const ExecutionTarget& target)
      : geometry_(geometry),
        target_(target),
        gemm_(*target.kernels().gemm),
        plan_(plan_product(geometry, gemm_, input_flip, target.num_threads)) {
    if (plan_.source == ActivationsFrom::planes) planes_.emplace(geometry_);
    find_strides();
  }

  std::size_t packed_filter_size() const override { return plan_.filter.size(); }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override {
    dmlcpu::pack_filter(geometry_, *target_.kernels().pack, plan_.filter, filter, flip, packed);
  }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + plan_.filter.sums_offset());
  }
  std::size_t scratch_size() const override { return plan_.scratch_size; }
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  // Output pixels, as the product's runs of rows.
  struct Tile {
    std::int64_t group;
    std::int64_t image, row, column;  // of the first pixel
    std::int64_t runs, m;
    std::int64_t first_block, end_block;

    std::int64_t pixels() const { return runs * m; }
  };
  // The product's operand: rows read in place, or the packed operand as a single segment.
  struct Activations {
    const std::uint8_t* data;
    std::size_t row_stride, run_stride;
    const std::size_t* offsets;
    std::size_t segments, terms, k;  // terms and k of one segment
  };

  void find_strides();
  Tile tile_of_task(std::int64_t task) const noexcept;
  Activations prepare_activations(const ConvolutionDispatch& dispatch, const std::uint8_t* planes, const Tile& tile,
                                  std::uint8_t* own) const noexcept;
  void sum_activations(const Activations& activations, const Tile& tile, std::int32_t* sums) const noexcept;
  void run_tile(const ConvolutionDispatch& dispatch, const std::uint8_t* planes, const Tile& tile,
                std::uint8_t* own) const noexcept;
  void spread(const std::uint8_t* results, const Tile& tile, std::int64_t channels,
              std::uint8_t* output) const noexcept;
  void spread_run(const std::uint8_t* results, std::int64_t pixels, std::int64_t channels,
                  std::uint8_t* output) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  const GemmKernels& gemm_;
  ProductPlan plan_;
  std::optional<PaddedPlanes> planes_;
  // Of the input or the planes: from an image, an output row and an output pixel to the next, and from a pixel to each
  // segment of its terms.
  std::size_t image_bytes_ = 0, run_bytes_ = 0, pixel_bytes_ = 0;
  std::vector<std::size_t> segment_offsets_ = {0};
  std::int64_t output_pixel_stride_ = 0;  // within a run
};

void ProductConvolution::find_strides() {
  // Where a row has a single pixel, the distance to the next one is that of rows or images.
  const auto flat_stride = [&](const PlaneStrides& strides) {
    return uniform_pixel_stride(strides, 1, geometry_.output_height, geometry_.output_width).value_or(strides.w);
  };
  output_pixel_stride_ = plan_.by_rows ? geometry_.output.w : flat_stride(geometry_.output);
  if (plan_.source == ActivationsFrom::pixels) return;
  const std::size_t row_bytes = planes_ ? planes_->row_bytes() : as_size(geometry_.input.h);
  image_bytes_ = planes_ ? planes_->image_bytes() : as_size(geometry_.input.n);
  run_bytes_ = as_size(geometry_.stride_height) * row_bytes;
  const std::int64_t pixel_bytes = planes_         ? geometry_.input_channels
                                   : plan_.by_rows ? geometry_.input.w
                                                   : flat_stride(geometry_.input);
  pixel_bytes_ = as_size(geometry_.stride_width) * as_size(pixel_bytes);
  segment_offsets_.clear();
  const std::size_t tap_bytes =
      as_size(geometry_.dilation_width) * as_size(planes_ ? geometry_.input_channels : geometry_.input.w);
  const std::int64_t columns = static_cast<std::int64_t>(plan_.filter.order.segments) / geometry_.kernel_height;
  for (std::int64_t row = 0; row < geometry_.kernel_height; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      segment_offsets_.push_back(as_size(row * geometry_.dilation_height) * row_bytes + as_size(column) * tap_bytes);
    }
  }
}

ProductConvolution::Tile ProductConvolution::tile_of_task(std::int64_t task) const noexcept {
  const std::int64_t split = task % plan_.block_splits, tile = task / plan_.block_splits;
  const std::int64_t of_unit = tile % plan_.tiles_of_unit * plan_.tile_pixels;
  const std::int64_t count = std::min(plan_.tile_pixels, plan_.unit_pixels - of_unit);
  const std::int64_t first = tile / plan_.tiles_of_unit * plan_.unit_pixels + of_unit;
  const std::int64_t pixel = first % geometry_.image_pixels(), width = geometry_.output_width;
  return {.group = 0,
          .image = first / geometry_.image_pixels(),
          .row = pixel / width,
          .column = pixel % width,
          .runs = plan_.bands(geometry_) ? count / width : 1,
          .m = plan_.bands(geometry_) ? width : count,
          .first_block = plan_.blocks * split / plan_.block_splits,
          .end_block = plan_.blocks * (split + 1) / plan_.block_splits};
}

void ProductConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  if (planes_) planes_->fill(dispatch.source, *target_.kernels().pack, target_.num_threads, scratch);
  parallel_for(plan_.tasks(), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    std::uint8_t* own = scratch + plan_.participants_offset + as_size(slot) * plan_.participant_size;
    Tile tile = tile_of_task(static_cast<std::int64_t>(task));
    for (; tile.group < geometry_.groups; ++tile.group) run_tile(dispatch, scratch, tile, own);
  });
}

ProductConvolution::Activations ProductConvolution::prepare_activations(const ConvolutionDispatch& dispatch,
                                                                        const std::uint8_t* planes, const Tile& tile,
                                                                        std::uint8_t* own) const noexcept {
  const TermOrder& order = plan_.filter.order;
  if (plan_.source != ActivationsFrom::pixels) {
    const std::uint8_t* data = (planes_ ? planes : dispatch.source.data) + as_size(tile.image) * image_bytes_ +
                               as_size(tile.row) * run_bytes_ + as_size(tile.column) * pixel_bytes_ +
                               as_size(tile.group * geometry_.group_input_channels());
    return {data,           pixel_bytes_,        run_bytes_,          segment_offsets_.data(),
            order.segments, order.segment_terms, order.segment_padded};
  }
  std::uint8_t* packed = own + plan_.activations;
  const std::int64_t first = tile.image * geometry_.image_pixels() + tile.row * geometry_.output_width + tile.column;
  pack_activation_rows(geometry_, *target_.kernels().pack, dispatch.source, tile.group, first, tile.pixels(), order.k(),
                       packed);
  return {packed, order.k(), 0, segment_offsets_.data(), 1, as_size(geometry_.reduction()), order.k()};
}

// The sum of each pixel's window, which filters with zero points other than 0 need; sums has room for twice as many.
void ProductConvolution::sum_activations(const Activations& activations, const Tile& tile,
                                         std::int32_t* sums) const noexcept {
  std::int32_t* of_segment = sums + plan_.tile_pixels;
  const std::size_t m = as_size(tile.m);
  for (std::size_t run = 0; run < as_size(tile.runs); ++run, sums += m) {
    const std::uint8_t* rows = activations.data + run * activations.run_stride;
    for (std::size_t segment = 0; segment < activations.segments; ++segment) {
      target_.kernels().pack->sum_rows(rows + activations.offsets[segment], activations.row_stride, m,
                                       activations.terms, segment == 0 ? sums : of_segment);
      for (std::size_t i = 0; segment != 0 && i < m; ++i) {
        sums[i] =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) + static_cast<std::uint32_t>(of_segment[i]));
      }
    }
  }
}

void ProductConvolution::run_tile(const ConvolutionDispatch& dispatch, const std::uint8_t* planes, const Tile& tile,
                                  std::uint8_t* own) const noexcept {
  const Activations activations = prepare_activations(dispatch, planes, tile, own);
  auto* sums = reinterpret_cast<std::int32_t*>(own + plan_.activation_sums);
  if (dispatch.filter_zero_point != nullptr) sum_activations(activations, tile, sums);

  const PlaneStrides& strides = geometry_.output;
  const std::uint8_t* filter = dispatch.filter + as_size(tile.group) * plan_.filter.operand_size;
  for (std::int64_t block = tile.first_block; block < tile.end_block; ++block) {
    const std::int64_t of_group = block * plan_.block_channels;
    const std::int64_t channels = std::min(plan_.block_channels, geometry_.group_output_channels() - of_group);
    const std::int64_t channel = tile.group * geometry_.group_output_channels() + of_group;
    std::uint8_t* output = dispatch.output + geometry_.output_bytes * (tile.image * strides.n + channel * strides.c +
                                                                       tile.row * strides.h + tile.column * strides.w);
    const bool direct = strides.c == 1, ends_in_sums = geometry_.ends_in_sums();
    std::uint8_t* results = direct ? output : own + plan_.results;
    gemm_.multiply(
        {.a = activations.data,
         .a_row_stride = activations.row_stride,
         .a_run_stride = activations.run_stride,
         .a_offsets = activations.offsets,
         .segments = activations.segments,
         .b = filter + as_size(of_group) * plan_.filter.order.k(),
         .runs = as_size(tile.runs),
         .m = as_size(tile.m),
         .n = as_size(channels),
         .k = activations.k,
         .offset = dispatch.offset + channel,
         .multiplier = ends_in_sums ? nullptr : dispatch.multiplier + channel,
         .filter_zero_point = dispatch.filter_zero_point == nullptr ? nullptr : dispatch.filter_zero_point + channel,
         .activation_sum = sums,
         .output_zero_point = dispatch.output_zero_point,
         .flip = dispatch.output_flip,
         .output = ends_in_sums ? nullptr : results,
         .output_row_stride = as_size(direct ? output_pixel_stride_ : channels),
         .output_run_stride = as_size(direct ? strides.h : tile.m * channels),
         .sums = ends_in_sums ? reinterpret_cast<std::int32_t*>(results) : nullptr});
    if (!direct) spread(results, tile, channels, output);
  }
}

// Writes the results of a tile's pixels, whose channels follow each other, to an output where they do not.
void ProductConvolution::spread(const std::uint8_t* results, const Tile& tile, std::int64_t channels,
                                std::uint8_t* output) const noexcept {
  if (geometry_.output.h == tile.m * output_pixel_stride_) {  // the runs are one
    spread_run(results, tile.pixels(), channels, output);
    return;
  }
  for (std::int64_t run = 0; run < tile.runs; ++run) {
    spread_run(results + run * tile.m * channels * geometry_.output_bytes, tile.m, channels,
               output + run * geometry_.output.h * geometry_.output_bytes);
  }
}

void ProductConvolution::spread_run(const std::uint8_t* results, std::int64_t pixels, std::int64_t channels,
                                    std::uint8_t* output) const noexcept {
  if (geometry_.ends_in_sums()) {
    spread_sums(*target_.kernels().pack, reinterpret_cast<const std::int32_t*>(results), pixels, channels,
                reinterpret_cast<std::int32_t*>(output), output_pixel_stride_, geometry_.output.c);
    return;
  }
  if (output_pixel_stride_ == 1) {
    target_.kernels().pack->transpose({.input = results,
                                       .input_row_stride = as_size(channels),
                                       .rows = as_size(pixels),
                                       .columns = as_size(channels),
                                       .flip = 0,
                                       .output = output,
                                       .output_row_stride = as_size(geometry_.output.c)});
    return;
  }
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (std::int64_t c = 0; c < channels; ++c) {
      output[pixel * output_pixel_stride_ + c * geometry_.output.c] = results[pixel * channels + c];
    }
  }
}

std::string ProductConvolution::describe() const {
  std::ostringstream text;
  text << "algorithm: matrix product over an implicit im2col"
       << (geometry_.ends_in_sums() ? "\n" : ", requantized in the same pass\n") << "activations: "
       << (plan_.source == ActivationsFrom::input    ? "read in place from the input"
           : plan_.source == ActivationsFrom::planes ? "read in place from a padded copy of the input"
                                                     : "gathered from the input, packed a tile at a time")
       << "\nproduct: " << geometry_.reduction() << " terms, padded to " << plan_.filter.order.k() << "; "
       << plan_.blocks << " x " << plan_.block_channels << " channels in each of " << geometry_.groups << " groups"
       << "\ntile: " << plan_.tile_pixels << " output pixels" << (plan_.bands(geometry_) ? " of whole rows" : "")
       << ", " << plan_.tasks() << " tasks on " << plan_.participants << " threads";
  return text.str();
}

}  // namespace

std::unique_ptr<ConvolutionAlgorithm> make_product_convolution(const ConvolutionGeometry& geometry,
                                                               std::uint8_t input_flip, const ExecutionTarget& target) {
  return std::make_unique<ProductConvolution>(geometry, input_flip, target);
}

}  // namespace dmlcpu
