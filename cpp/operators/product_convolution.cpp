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
    position_bytes_ = as_size(readable_pixel_stride(geometry_, plan_.pixel_rows()).value_or(0));
    channel_bytes_ = as_size(geometry_.input.c);
    tap_offsets_ = {kNoOffset};
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
  void store(const ConvolutionDispatch& dispatch, const Tile& tile, std::int64_t channel, std::int64_t channels,
             std::uint8_t* own) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  const GemmKernels& gemm_;
  ProductPlan plan_;
  std::optional<PaddedPlanes> planes_;
  // In the source: from a position to the next, from a channel to the next, and from a position to each tap.
  std::size_t position_bytes_, channel_bytes_;
  std::vector<std::size_t> tap_offsets_;
};

void ProductConvolution::use_planes() {
  planes_.emplace(geometry_, plan_.pixel_rows());
  position_bytes_ = planes_->position_bytes();
  channel_bytes_ = planes_->channel_bytes();
  tap_offsets_.clear();
  for (std::int64_t row = 0; row < geometry_.kernel_height; ++row) {
    // Rows read in place take all columns from the first tap's.
    const std::int64_t columns = plan_.in_place ? 1 : geometry_.kernel_width;
    for (std::int64_t column = 0; column < columns; ++column) tap_offsets_.push_back(planes_->tap_offset(row, column));
  }
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
  return image + as_size(tile.group * geometry_.group_input_channels()) * channel_bytes_ +
         as_size(tile.first) * position_bytes_;
}

ProductConvolution::Activations ProductConvolution::prepare_activations(const ConvolutionDispatch& dispatch,
                                                                        const std::uint8_t* planes, const Tile& tile,
                                                                        std::uint8_t* own) const noexcept {
  const PackKernels& pack = *target_.kernels().pack;
  const TermOrder& order = plan_.filter.order;
  const std::size_t k = order.k(), channels = as_size(geometry_.group_input_channels());
  if (plan_.in_place) {
    return {source_at(dispatch, planes, tile),
            position_bytes_,
            tap_offsets_.data(),
            order.segments,
            order.segment_terms,
            order.segment_padded};
  }
  std::uint8_t* packed = own + plan_.activations;
  const std::int64_t first = tile.image * plan_.unit_distance + tile.first;
  if (plan_.pixel_rows()) {
    pack_activation_rows(geometry_, pack, dispatch.source, tile.group, first, tile.count, k, packed);
  } else if (plan_.source == ActivationsFrom::pixels) {
    pack_activation_columns(geometry_, pack, dispatch.source, tile.group, first, tile.count, gemm_.nr, k,
                            own + plan_.staging, packed);
  } else {
    const std::uint8_t flip = planes_ ? std::uint8_t{0} : dispatch.source.flip;
    interleave_columns(pack, source_at(dispatch, planes, tile), channels, channel_bytes_, tap_offsets_, flip,
                       as_size(tile.count), gemm_.nr, k, own + plan_.staging, packed);
  }
  return {packed, k, &kNoOffset, 1, k, k};
}

// The sum of each position's window, which filters with zero points other than 0 need.
void ProductConvolution::sum_activations(const Activations& activations, const Tile& tile,
                                         std::uint8_t* own) const noexcept {
  const PackKernels& pack = *target_.kernels().pack;
  const std::size_t count = as_size(tile.count);
  auto* sums = reinterpret_cast<std::int32_t*>(own + plan_.activation_sums);
  if (!plan_.pixel_rows()) {
    for (std::size_t column = 0; column < count; column += gemm_.nr) {
      pack.sum_columns(activations.data + column * activations.k, gemm_.nr, activations.k, sums + column);
    }
    return;
  }
  std::int32_t* of_segment = sums + round_up(as_size(plan_.tile_positions), gemm_.nr);
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
  const bool pixel_rows = plan_.pixel_rows();
  const std::uint8_t* filter = dispatch.filter + as_size(tile.group) * plan_.filter.operand_size;
  for (std::int64_t block = tile.first_block; block < tile.end_block; ++block) {
    const std::int64_t channel = block * plan_.block_channels;
    const std::int64_t channels = std::min(plan_.block_channels, geometry_.group_output_channels() - channel);
    const std::uint8_t* filter_block = filter + as_size(channel) * k;
    const std::size_t n = as_size(pixel_rows ? channels : tile.count);
    const GemmBlock product = {.a = pixel_rows ? activations.data : filter_block,
                               .a_row_stride = pixel_rows ? activations.row_stride : k,
                               .a_offsets = pixel_rows ? activations.offsets : &kNoOffset,
                               .segments = pixel_rows ? activations.segments : 1,
                               .b = pixel_rows ? filter_block : activations.data,
                               .c = reinterpret_cast<std::int32_t*>(own + plan_.accumulators),
                               .c_row_stride = round_up(n, gemm_.nr),
                               .m = as_size(pixel_rows ? tile.count : channels),
                               .n = n,
                               .k = pixel_rows ? activations.k : k};
    (pixel_rows ? gemm_.unsigned_by_signed : gemm_.signed_by_unsigned)(product);
    store(dispatch, tile, tile.group * geometry_.group_output_channels() + channel, channels, own);
  }
}

// Requantizes one block of accumulators into the output: in one call where the tile is one regular stretch of it, by
// output rows where only those are, else through a buffer of codes.
void ProductConvolution::store(const ConvolutionDispatch& dispatch, const Tile& tile, std::int64_t channel,
                               std::int64_t channels, std::uint8_t* own) const noexcept {
  const bool pixel_rows = plan_.pixel_rows();
  const PlaneStrides& strides = geometry_.output;
  const RequantizeKernels& kernels = *target_.kernels().requantize;
  const RequantizeFunction requantize = pixel_rows ? kernels.pixel_rows : kernels.channel_rows;
  const auto* accumulators = reinterpret_cast<const std::int32_t*>(own + plan_.accumulators);
  const auto* sums = reinterpret_cast<const std::int32_t*>(own + plan_.activation_sums);
  const std::size_t row_stride = round_up(as_size(pixel_rows ? channels : tile.count), gemm_.nr);

  // Pixels [offset, offset + count) of the tile, pixel_stride apart in the output.
  const auto store_pixels = [&](std::int64_t offset, std::int64_t count, std::uint8_t* output,
                                std::int64_t pixel_stride) {
    const std::int64_t column_stride = pixel_rows ? strides.c : pixel_stride;
    const std::int64_t output_row_stride = pixel_rows ? pixel_stride : strides.c;
    const std::int64_t rows = pixel_rows ? count : channels, columns = pixel_rows ? channels : count;
    const bool direct = column_stride == 1 || columns == 1;
    std::uint8_t* codes = own + plan_.codes;
    requantize(
        {.accumulators = accumulators + as_size(offset) * (pixel_rows ? row_stride : 1),
         .accumulator_row_stride = row_stride,
         .output = direct ? output : codes,
         .output_row_stride = as_size(direct ? output_row_stride : columns),
         .rows = as_size(rows),
         .columns = as_size(columns),
         .offset = dispatch.offset + channel,
         .multiplier = dispatch.multiplier + channel,
         .filter_zero_point = dispatch.filter_zero_point == nullptr ? nullptr : dispatch.filter_zero_point + channel,
         .activation_sum = sums + offset,
         .output_zero_point = dispatch.output_zero_point,
         .flip = dispatch.output_flip});
    for (std::int64_t row = 0; !direct && row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        output[row * output_row_stride + column * column_stride] = codes[row * columns + column];
      }
    }
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
       << "arrangement: "
       << (plan_.pixel_rows() ? "pixels as rows (the output's channels are neighbours)"
                              : "channels as rows (the output's pixels are neighbours)")
       << "\nactivations: "
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
