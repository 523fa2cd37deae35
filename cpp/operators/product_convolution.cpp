// Convolution as a matrix product: packed operands, int32 accumulators, requantization, one tile of output pixels at a
// time.
//
//   for each tile of pixels (in parallel), for each group:
//     pack the tile's activations                              operators/convolution_packing.h
//     for each block of output channels:
//       product into int32 accumulators                        kernels/gemm
//       requantize, write to the output                        kernels/requantize
#include <algorithm>
#include <sstream>

#include "operators/convolution_algorithm.h"
#include "operators/convolution_packing.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

// How a compiled convolution is cut up, and where its parts lie in the scratch buffer.
struct Plan {
  Arrangement arrangement;
  PackedFilter filter;
  std::int64_t tile_pixels;    // output pixels of a tile
  std::int64_t tiles_of_unit;  // tiles in an image (channel rows) or in the whole batch (pixel rows)
  std::int64_t units;          // images, or 1
  std::int64_t unit_pixels;
  std::int64_t block_channels;  // output channels of one product, of one group
  std::int64_t blocks;          // of a group
  std::int64_t block_splits;    // parts that the blocks of a tile are divided into for more tasks
  int participants;

  std::size_t tasks() const { return as_size(units * tiles_of_unit * block_splits); }

  // The scratch buffer is one part for each participant; offsets into a part.
  std::size_t participant_size;
  std::size_t activations, staging, accumulators, activation_sums, codes;
};

std::int64_t divide_up(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

// A tile's packed activations and accumulators share half of the level-2 cache; the filter streams through the rest.
// With several threads tiles shrink until each thread has four, and where even single tiles are too few, the channel
// blocks of a tile become tasks of their own.
void choose_blocking(const ConvolutionGeometry& geometry, const GemmKernels& kernels, int num_threads, Plan& plan) {
  const bool pixel_rows = plan.arrangement == Arrangement::pixel_rows;
  const auto pixel_multiple = static_cast<std::int64_t>(pixel_rows ? kernels.mr : kernels.nr);
  const auto channel_multiple = static_cast<std::int64_t>(pixel_rows ? kernels.nr : kernels.mr);
  plan.units = pixel_rows ? 1 : geometry.batch;
  plan.unit_pixels = geometry.image_pixels() * (pixel_rows ? geometry.batch : 1);

  constexpr std::int64_t kMaxBlockChannels = 128, kMaxTilePixels = 256, kTilesPerThread = 4;
  const std::int64_t channels = geometry.group_output_channels();
  plan.block_channels = std::min(divide_up(channels, channel_multiple) * channel_multiple,
                                 divide_up(kMaxBlockChannels, channel_multiple) * channel_multiple);
  plan.blocks = divide_up(channels, plan.block_channels);

  const auto budget = static_cast<std::int64_t>(cache_sizes().level_2 / 2);
  const std::int64_t bytes_per_pixel = static_cast<std::int64_t>(plan.filter.k_padded) +
                                       plan.block_channels * static_cast<std::int64_t>(sizeof(std::int32_t));
  std::int64_t pixels = std::min(kMaxTilePixels, budget / bytes_per_pixel);
  if (num_threads > 1) {
    pixels = std::min(pixels, divide_up(plan.unit_pixels * plan.units, num_threads * kTilesPerThread));
  }
  pixels = std::max(pixels / pixel_multiple, std::int64_t{1}) * pixel_multiple;
  plan.tile_pixels = std::min(pixels, plan.unit_pixels);
  plan.tiles_of_unit = divide_up(plan.unit_pixels, plan.tile_pixels);

  const std::int64_t tiles = plan.units * plan.tiles_of_unit;
  plan.block_splits = std::clamp<std::int64_t>(divide_up(num_threads, tiles), 1, plan.blocks);
  plan.participants = static_cast<int>(std::min<std::int64_t>(num_threads, tiles * plan.block_splits));
}

void lay_out_scratch(const GemmKernels& kernels, Plan& plan) {
  const std::size_t pixels = as_size(plan.tile_pixels);
  const std::size_t columns = round_up(pixels, kernels.nr);
  const std::size_t block = as_size(plan.block_channels);
  const bool pixel_rows = plan.arrangement == Arrangement::pixel_rows;

  BufferLayout layout;
  plan.activations = layout.take(pixel_rows ? pixels : columns, plan.filter.k_padded);
  plan.staging = layout.take(pixel_rows ? 0 : columns, 4);
  plan.accumulators = layout.take(round_up(block, kernels.nr) * columns, sizeof(std::int32_t));
  plan.activation_sums = layout.take(columns, sizeof(std::int32_t));
  plan.codes = layout.take(block, columns);
  plan.participant_size = layout.size();
}

class ProductConvolution final : public ConvolutionAlgorithm {
 public:
  ProductConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(geometry), target_(target), gemm_(*target.kernels().gemm), plan_() {
    plan_.arrangement = channels_last(geometry_) ? Arrangement::pixel_rows : Arrangement::channel_rows;
    plan_.filter = packed_filter(geometry_, gemm_, plan_.arrangement);
    choose_blocking(geometry_, gemm_, target_.num_threads, plan_);
    lay_out_scratch(gemm_, plan_);
    if (__builtin_mul_overflow(as_size(plan_.participants), plan_.participant_size, &scratch_size_)) {
      throw std::bad_alloc();
    }
  }

  std::size_t packed_filter_size() const override { return plan_.filter.size(); }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override {
    dmlcpu::pack_filter(geometry_, plan_.filter, filter, flip, packed);
  }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + plan_.filter.sums_offset());
  }
  std::size_t scratch_size() const override { return scratch_size_; }
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  struct Tile {
    std::int64_t group, first, count;  // pixels, counted through the batch
    std::int64_t first_block, end_block;
  };

  void run_tile(const ConvolutionDispatch& dispatch, const Tile& tile, std::uint8_t* own) const noexcept;
  void store(const ConvolutionDispatch& dispatch, const Tile& tile, std::int64_t channel, std::int64_t channels,
             std::uint8_t* own) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  const GemmKernels& gemm_;
  Plan plan_;
  std::size_t scratch_size_ = 0;
};

void ProductConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  parallel_for(plan_.tasks(), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    std::uint8_t* own = scratch + as_size(slot) * plan_.participant_size;
    const std::int64_t split = static_cast<std::int64_t>(task) % plan_.block_splits;
    const std::int64_t tile = static_cast<std::int64_t>(task) / plan_.block_splits;
    const std::int64_t begin = tile % plan_.tiles_of_unit * plan_.tile_pixels;
    for (std::int64_t group = 0; group < geometry_.groups; ++group) {
      run_tile(dispatch,
               {.group = group,
                .first = tile / plan_.tiles_of_unit * plan_.unit_pixels + begin,
                .count = std::min(plan_.tile_pixels, plan_.unit_pixels - begin),
                .first_block = plan_.blocks * split / plan_.block_splits,
                .end_block = plan_.blocks * (split + 1) / plan_.block_splits},
               own);
    }
  });
}

void ProductConvolution::run_tile(const ConvolutionDispatch& dispatch, const Tile& tile,
                                  std::uint8_t* own) const noexcept {
  const PackKernels& pack = *target_.kernels().pack;
  const std::size_t k = plan_.filter.k_padded;
  const bool pixel_rows = plan_.arrangement == Arrangement::pixel_rows;
  std::uint8_t* activations = own + plan_.activations;
  auto* sums = reinterpret_cast<std::int32_t*>(own + plan_.activation_sums);

  if (pixel_rows) {
    pack_activation_rows(geometry_, pack, dispatch.source, tile.group, tile.first, tile.count, k, activations);
    if (dispatch.filter_zero_point != nullptr) pack.sum_rows(activations, k, as_size(tile.count), k, sums);
  } else {
    pack_activation_columns(geometry_, pack, dispatch.source, tile.group, tile.first, tile.count, gemm_.nr, k,
                            own + plan_.staging, activations);
    for (std::size_t column = 0; dispatch.filter_zero_point != nullptr && column < as_size(tile.count);
         column += gemm_.nr) {
      pack.sum_columns(activations + column * k, gemm_.nr, k, sums + column);
    }
  }

  const std::uint8_t* filter = dispatch.filter + as_size(tile.group) * plan_.filter.operand_size;
  for (std::int64_t block = tile.first_block; block < tile.end_block; ++block) {
    const std::int64_t channel = block * plan_.block_channels;
    const std::int64_t channels = std::min(plan_.block_channels, geometry_.group_output_channels() - channel);
    const std::uint8_t* filter_block = filter + as_size(channel) * k;
    const std::int64_t m = pixel_rows ? tile.count : channels, n = pixel_rows ? channels : tile.count;
    const GemmBlock product = {.a = pixel_rows ? activations : filter_block,
                               .a_row_stride = k,
                               .b = pixel_rows ? filter_block : activations,
                               .c = reinterpret_cast<std::int32_t*>(own + plan_.accumulators),
                               .c_row_stride = round_up(as_size(n), gemm_.nr),
                               .m = as_size(m),
                               .n = as_size(n),
                               .k = k};
    (pixel_rows ? gemm_.unsigned_by_signed : gemm_.signed_by_unsigned)(product);
    store(dispatch, tile, tile.group * geometry_.group_output_channels() + channel, channels, own);
  }
}

// Requantizes one block of accumulators into the output: in one call where the tile is one regular stretch of it, by
// output rows where only those are, else through a buffer of codes.
void ProductConvolution::store(const ConvolutionDispatch& dispatch, const Tile& tile, std::int64_t channel,
                               std::int64_t channels, std::uint8_t* own) const noexcept {
  const bool pixel_rows = plan_.arrangement == Arrangement::pixel_rows;
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
  const std::int64_t images = pixel_rows ? geometry_.batch : 1;
  if (const auto stride = uniform_pixel_stride(strides, images, geometry_.output_height, geometry_.output_width)) {
    const std::int64_t image = tile.first / geometry_.image_pixels(), pixel = tile.first % geometry_.image_pixels();
    store_pixels(0, tile.count, pixel_address(image, 0, 0) + pixel * *stride, *stride);
    return;
  }
  for_each_pixel_run(geometry_, tile.first, tile.count, [&](std::int64_t offset, const PixelRun& run) {
    store_pixels(offset, run.count, pixel_address(run.n, run.row, run.column), strides.w);
  });
}

std::string ProductConvolution::describe() const {
  const bool pixel_rows = plan_.arrangement == Arrangement::pixel_rows;
  std::ostringstream text;
  text << "algorithm: matrix product over an implicit im2col, requantized in the same pass\n"
       << "arrangement: "
       << (pixel_rows ? "pixels as rows (the output's channels are neighbours)"
                      : "channels as rows (the output's pixels are neighbours)")
       << "\nproduct: " << geometry_.reduction() << " terms, padded to " << plan_.filter.k_padded << "; "
       << plan_.blocks << " x " << plan_.block_channels << " channels in each of " << geometry_.groups << " groups"
       << "\ntile: " << plan_.tile_pixels
       << " output pixels (packed activations and accumulators in half of the level-2 "
       << "cache), " << plan_.tasks() << " tasks on " << plan_.participants << " threads";
  return text.str();
}

}  // namespace

std::unique_ptr<ConvolutionAlgorithm> make_product_convolution(const ConvolutionGeometry& geometry,
                                                               const ExecutionTarget& target) {
  return std::make_unique<ProductConvolution>(geometry, target);
}

}  // namespace dmlcpu
