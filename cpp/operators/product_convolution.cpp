// Convolution as a matrix product: int32 accumulators, requantized in the same pass, one tile of output positions at a
// time.
//
//   copy the input into padded planes, where that pays        operators/padded_planes.h
//   for each tile of positions (in parallel), for each group:
//     pack the tile's activations, where they are not read in place
//                                                             operators/convolution_packing.h
//     for each block of output channels:
//       product into int32 accumulators                       kernels/gemm
//       requantize, write to the output                       kernels/requantize
#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

#include "operators/convolution_algorithm.h"
#include "operators/convolution_packing.h"
#include "operators/padded_planes.h"
#include "operators/product_plan.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::size_t kNoOffset = 0;

class ProductConvolution final : public ConvolutionAlgorithm {
 public:
  ProductConvolution(const ConvolutionGeometry& geometry, std::uint8_t input_flip, const ExecutionTarget& target)
      : geometry_(geometry),
        target_(target),
        gemm_(*target.kernels().gemm),
        plan_(plan_product(geometry, gemm_, input_flip, target.num_threads)) {
    position_bytes_ = as_size(readable_pixel_stride(geometry_).value_or(0));
    segment_offsets_ = {kNoOffset};
    if (plan_.source == ActivationsFrom::planes) use_planes();
  }

  std::size_t packed_filter_size() const override { return plan_.filter.size(); }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override {
    dmlcpu::pack_filter(geometry_, plan_.filter, filter, flip, packed);
  }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + plan_.filter.sums_offset());
  }
  std::size_t scratch_size() const override { return plan_.scratch_size; }
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  struct Tile {
    std::int64_t group;
    std::int64_t image, first, count;  // positions, from the image's first
    std::int64_t first_block, end_block;
  };
  // The product's activations: rows read in place, or the packed operand as a single segment.
  struct Activations {
    const std::uint8_t* data;
    std::size_t row_stride;
    const std::size_t* offsets;
    std::size_t segments, terms, k;  // terms and k of one segment
  };

  void use_planes();
  const std::uint8_t* source_at(const ConvolutionDispatch& dispatch, const std::uint8_t* planes,
                                const Tile& tile) const noexcept;
  Activations prepare_activations(const ConvolutionDispatch& dispatch, const std::uint8_t* planes, const Tile& tile,
                                  std::uint8_t* own) const noexcept;
  void sum_activations(const Activations& activations, const Tile& tile, std::uint8_t* own) const noexcept;
  void run_tile(const ConvolutionDispatch& dispatch, const std::uint8_t* planes, const Tile& tile,
                std::uint8_t* own) const noexcept;
  void spread_codes(const std::uint8_t* codes, std::int64_t pixels, std::int64_t channels, std::uint8_t* output,
                    std::int64_t pixel_stride) const noexcept;
  void store(const ConvolutionDispatch& dispatch, const Tile& tile, std::int64_t channel, std::int64_t channels,
             std::uint8_t* own) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  const GemmKernels& gemm_;
  ProductPlan plan_;
  std::optional<PaddedPlanes> planes_;
  // In the source: from a position to the next, and from a position to each segment of its terms.
  std::size_t position_bytes_;
  std::vector<std::size_t> segment_offsets_;
};

// Writes the codes of pixels whose channels follow each other to an output where they do not.
void ProductConvolution::spread_codes(const std::uint8_t* codes, std::int64_t pixels, std::int64_t channels,
                                      std::uint8_t* output, std::int64_t pixel_stride) const noexcept {
  if (pixel_stride == 1) {
    target_.kernels().pack->transpose({.input = codes,
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
      output[pixel * pixel_stride + c * geometry_.output.c] = codes[pixel * channels + c];
    }
  }
}

void ProductConvolution::use_planes() {
  planes_.emplace(geometry_);
  position_bytes_ = planes_->position_bytes();
  segment_offsets_.clear();
  for (std::int64_t row = 0; row < geometry_.kernel_height; ++row) segment_offsets_.push_back(planes_->row_offset(row));
}

void ProductConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  if (planes_) planes_->fill(dispatch.source, *target_.kernels().pack, target_.num_threads, scratch);
  parallel_for(plan_.tasks(), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    std::uint8_t* own = scratch + plan_.participants_offset + as_size(slot) * plan_.participant_size;
    const std::int64_t split = static_cast<std::int64_t>(task) % plan_.block_splits;
    const std::int64_t tile = static_cast<std::int64_t>(task) / plan_.block_splits;
    const std::int64_t first = tile % plan_.tiles_of_unit * plan_.tile_positions;
    for (std::int64_t group = 0; group < geometry_.groups; ++group) {
      run_tile(dispatch, scratch,
               {.group = group,
                .image = tile / plan_.tiles_of_unit,
                .first = first,
                .count = std::min(plan_.tile_positions, plan_.unit_positions - first),
                .first_block = plan_.blocks * split / plan_.block_splits,
                .end_block = plan_.blocks * (split + 1) / plan_.block_splits},
               own);
    }
  });
}

// The first code of the group at the tile's first position, in the planes or in the input.
const std::uint8_t* ProductConvolution::source_at(const ConvolutionDispatch& dispatch, const std::uint8_t* planes,
                                                  const Tile& tile) const noexcept {
  const std::uint8_t* image = planes_ ? planes + as_size(tile.image) * planes_->image_bytes()
                                      : dispatch.source.data + tile.image * geometry_.input.n;
  return image + as_size(tile.group * geometry_.group_input_channels()) + as_size(tile.first) * position_bytes_;
}

ProductConvolution::Activations ProductConvolution::prepare_activations(const ConvolutionDispatch& dispatch,
                                                                        const std::uint8_t* planes, const Tile& tile,
                                                                        std::uint8_t* own) const noexcept {
  const TermOrder& order = plan_.filter.order;
  if (plan_.in_place) {
    return {source_at(dispatch, planes, tile),
            position_bytes_,
            segment_offsets_.data(),
            order.segments,
            order.segment_terms,
            order.segment_padded};
  }
  const std::size_t k = order.k();
  std::uint8_t* packed = own + plan_.activations;
  pack_activation_rows(geometry_, *target_.kernels().pack, dispatch.source, tile.group,
                       tile.image * plan_.unit_distance + tile.first, tile.count, k, packed);
  return {packed, k, &kNoOffset, 1, as_size(geometry_.reduction()), k};
}

// The sum of each position's window, which filters with zero points other than 0 need.
void ProductConvolution::sum_activations(const Activations& activations, const Tile& tile,
                                         std::uint8_t* own) const noexcept {
  const PackKernels& pack = *target_.kernels().pack;
  const std::size_t count = as_size(tile.count);
  auto* sums = reinterpret_cast<std::int32_t*>(own + plan_.activation_sums);
  std::int32_t* of_segment = sums + plan_.tile_positions;
  for (std::size_t segment = 0; segment < activations.segments; ++segment) {
    pack.sum_rows(activations.data + activations.offsets[segment], activations.row_stride, count, activations.terms,
                  segment == 0 ? sums : of_segment);
    for (std::size_t i = 0; segment != 0 && i < count; ++i) {
      const auto sum = static_cast<std::uint32_t>(sums[i]) + static_cast<std::uint32_t>(of_segment[i]);
      sums[i] = static_cast<std::int32_t>(sum);
    }
  }
}

void ProductConvolution::run_tile(const ConvolutionDispatch& dispatch, const std::uint8_t* planes, const Tile& tile,
                                  std::uint8_t* own) const noexcept {
  const Activations activations = prepare_activations(dispatch, planes, tile, own);
  if (dispatch.filter_zero_point != nullptr) sum_activations(activations, tile, own);

  const std::size_t k = plan_.filter.order.k();
  const std::uint8_t* filter = dispatch.filter + as_size(tile.group) * plan_.filter.operand_size;
  for (std::int64_t block = tile.first_block; block < tile.end_block; ++block) {
    const std::int64_t channel = block * plan_.block_channels;
    const std::int64_t channels = std::min(plan_.block_channels, geometry_.group_output_channels() - channel);
    gemm_.multiply({.a = activations.data,
                    .a_row_stride = activations.row_stride,
                    .a_offsets = activations.offsets,
                    .segments = activations.segments,
                    .b = filter + as_size(channel) * k,
                    .c = reinterpret_cast<std::int32_t*>(own + plan_.accumulators),
                    .c_row_stride = round_up(as_size(channels), gemm_.nr),
                    .m = as_size(tile.count),
                    .n = as_size(channels),
                    .k = activations.k});
    store(dispatch, tile, tile.group * geometry_.group_output_channels() + channel, channels, own);
  }
}

// Requantizes one block of accumulators into the output: in one call where the tile is one regular stretch of it, by
// output rows where only those are, else through a buffer of codes.
void ProductConvolution::store(const ConvolutionDispatch& dispatch, const Tile& tile, std::int64_t channel,
                               std::int64_t channels, std::uint8_t* own) const noexcept {
  const PlaneStrides& strides = geometry_.output;
  const auto* accumulators = reinterpret_cast<const std::int32_t*>(own + plan_.accumulators);
  const auto* sums = reinterpret_cast<const std::int32_t*>(own + plan_.activation_sums);
  const std::size_t row_stride = round_up(as_size(channels), gemm_.nr);

  // Pixels [offset, offset + count) of the tile, pixel_stride apart in the output.
  const auto store_pixels = [&](std::int64_t offset, std::int64_t count, std::uint8_t* output,
                                std::int64_t pixel_stride) {
    const bool direct = strides.c == 1 || channels == 1;
    std::uint8_t* codes = own + plan_.codes;
    target_.kernels().requantize->run(
        {.accumulators = accumulators + as_size(offset) * row_stride,
         .accumulator_row_stride = row_stride,
         .output = direct ? output : codes,
         .output_row_stride = as_size(direct ? pixel_stride : channels),
         .rows = as_size(count),
         .columns = as_size(channels),
         .offset = dispatch.offset + channel,
         .multiplier = dispatch.multiplier + channel,
         .filter_zero_point = dispatch.filter_zero_point == nullptr ? nullptr : dispatch.filter_zero_point + channel,
         .activation_sum = sums + offset,
         .output_zero_point = dispatch.output_zero_point,
         .flip = dispatch.output_flip});
    if (!direct) spread_codes(codes, count, channels, output, pixel_stride);
  };

  const auto pixel_address = [&](std::int64_t n, std::int64_t row, std::int64_t column) {
    return dispatch.output + n * strides.n + channel * strides.c + row * strides.h + column * strides.w;
  };
  const std::int64_t first = tile.image * plan_.unit_distance + tile.first;
  const std::int64_t images = plan_.units == 1 ? geometry_.batch : 1;
  const auto stride = uniform_pixel_stride(strides, images, geometry_.output_height, geometry_.output_width);
  if (stride && plan_.row_positions == geometry_.output_width) {
    const std::int64_t image = first / geometry_.image_pixels(), pixel = first % geometry_.image_pixels();
    store_pixels(0, tile.count, pixel_address(image, 0, 0) + pixel * *stride, *stride);
    return;
  }
  for_each_pixel_run(geometry_, plan_.row_positions, first, tile.count, [&](std::int64_t offset, const PixelRun& run) {
    store_pixels(offset, run.count, pixel_address(run.n, run.row, run.column), strides.w);
  });
}

std::string ProductConvolution::describe() const {
  std::ostringstream text;
  text << "algorithm: matrix product over an implicit im2col, requantized in the same pass\n"
       << "activations: "
       << (plan_.source == ActivationsFrom::input    ? "the input itself"
           : plan_.source == ActivationsFrom::planes ? "a padded copy of the input"
                                                     : "windows gathered from the input")
       << (plan_.in_place ? ", read in place" : ", packed a tile at a time") << "\nproduct: " << geometry_.reduction()
       << " terms, padded to " << plan_.filter.order.k() << "; " << plan_.blocks << " x " << plan_.block_channels
       << " channels in each of " << geometry_.groups << " groups"
       << "\ntile: " << plan_.tile_positions << " output positions (activations and accumulators in half of the "
       << "level-2 cache), " << plan_.tasks() << " tasks on " << plan_.participants << " threads";
  return text.str();
}

}  // namespace

std::unique_ptr<ConvolutionAlgorithm> make_product_convolution(const ConvolutionGeometry& geometry,
                                                               std::uint8_t input_flip, const ExecutionTarget& target) {
  return std::make_unique<ProductConvolution>(geometry, input_flip, target);
}

}  // namespace dmlcpu
