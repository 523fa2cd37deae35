// Pointwise convolution of {N, C, H, W} memory, as products of planes (kernels/gemm): rows are output channels and
// columns are pixels, so that codes are written where they belong, and of the input four planes at a time are
// interleaved in place of a transposition.
//
//   for each tile of an image's pixels, for each part of the output channels (in parallel):
//     interleave the pixels into panels, of 16 here           kernels/pack
//
//       plane 0   p0 p1 p2 p3 ...
//       plane 1   p0 p1 p2 p3 ...      ->  [p0: 0 1 2 3] [p1: 0 1 2 3] ... [p15: 0 1 2 3]   line 0 of panel 0
//       plane 2   ...                      [p0: 4 5 6 7] [p1: 4 5 6 7] ...                  line 1
//       plane 3
//
//     product of the filter's rows and the panels into the planes of the output
#include <algorithm>
#include <sstream>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"
#include "runtime/cache_line.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kLeastTilePixels = 64;      // a cache line of each plane
constexpr std::int64_t kLeastPixels = 32;          // of an image: the columns of two panels
constexpr std::int64_t kFewPixels = 64;            // which leave a good part of the columns empty
constexpr std::int64_t kLeastPixelsDivided = 256;  // of a thread's part of an image

bool are_packed_planes(const PlaneStrides& strides, const ConvolutionGeometry& geometry) {
  return strides.c != 1 && uniform_pixel_stride(strides, 1, geometry.output_height, geometry.output_width) == 1;
}

class PlanarProductConvolution final : public ConvolutionAlgorithm {
 public:
  PlanarProductConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(geometry), target_(target), gemm_(*target.kernels().gemm) {
    const auto channels = as_size(geometry.output_channels);
    k_ = round_up(as_size(geometry.input_channels), gemm_.kr);
    row_bytes_ = k_ + apart(k_);
    panel_bytes_ = k_ * gemm_.nr + apart(k_ * gemm_.nr);
    BufferLayout filter;
    filter.take(channels, row_bytes_);
    ones_ = filter.take(k_);
    sums_ = filter.take(channels, sizeof(std::int32_t));
    filter_size_ = filter.size();
    choose_tiles();
    BufferLayout own;
    own.take(panels_of_tile(), panel_bytes_);
    activation_sums_ = own.take(panels_of_tile() * gemm_.nr, sizeof(std::int32_t));
    own_size_ = own.size();
    scratch_size_ = own.size_of(as_size(target.num_threads));
  }

  std::size_t packed_filter_size() const override { return filter_size_; }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override;
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + sums_);
  }
  std::size_t scratch_size() const override { return scratch_size_; }
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  // Pixels of an image, and output channels.
  struct Tile {
    std::int64_t image, first_pixel, pixels, first_channel, channels;
  };

  // Rows at distances that are a multiple of some lines would share a few sets of the level-1 cache.
  static std::size_t apart(std::size_t bytes) { return bytes % 256 == 0 ? kCacheLine : 0; }
  std::size_t panels_of_tile() const { return round_up(as_size(tile_pixels_), gemm_.nr) / gemm_.nr; }
  std::int64_t tasks() const { return geometry_.batch * tiles_ * parts_; }

  void choose_tiles();
  Tile tile(std::int64_t task) const noexcept;
  void interleave(const ConvolutionDispatch& dispatch, const Tile& tile, std::uint8_t* panels) const noexcept;
  void run_tile(const ConvolutionDispatch& dispatch, const Tile& tile, std::uint8_t* own) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  const GemmKernels& gemm_;
  std::size_t k_, row_bytes_, panel_bytes_;
  std::size_t ones_, sums_, filter_size_;     // in the packed filter
  std::int64_t tile_pixels_ = 0, tiles_ = 0;  // of an image
  std::int64_t part_channels_ = 0, parts_ = 0;
  std::size_t activation_sums_, own_size_, scratch_size_;
};

// A tile's panels stay in the level-2 cache while all rows of the filter pass by. Threads divide the pixels while each
// has some lines of every plane, and the channels otherwise.
void PlanarProductConvolution::choose_tiles() {
  const std::int64_t pixels = geometry_.image_pixels(), threads = target_.num_threads;
  const auto tile_rows = static_cast<std::int64_t>(gemm_.mr);
  const auto fit = static_cast<std::int64_t>(cache_sizes().level_2 / 4 / k_);
  const std::int64_t most = std::max(fit / kLeastTilePixels * kLeastTilePixels, kLeastTilePixels);
  tiles_ = divide_up(pixels, most);
  parts_ = 1;
  if (geometry_.batch * tiles_ % threads != 0) {
    const std::int64_t divided = divide_up(tiles_, threads) * threads;
    if (pixels / divided >= kLeastPixelsDivided) {
      tiles_ = divided;
    } else {
      parts_ = std::min(threads, divide_up(geometry_.output_channels, 2 * tile_rows));
    }
  }
  tile_pixels_ = std::min(divide_up(divide_up(pixels, tiles_), kLeastTilePixels) * kLeastTilePixels, pixels);
  tiles_ = divide_up(pixels, tile_pixels_);
  part_channels_ = divide_up(divide_up(geometry_.output_channels, parts_), tile_rows) * tile_rows;
  parts_ = divide_up(geometry_.output_channels, part_channels_);
}

void PlanarProductConvolution::pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const {
  const PackKernels& pack = *target_.kernels().pack;
  const auto channels = as_size(geometry_.output_channels), terms = as_size(geometry_.input_channels);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    std::uint8_t* const row = packed + channel * row_bytes_;
    copy_codes(pack, filter + static_cast<std::int64_t>(channel) * geometry_.filter.n, geometry_.filter.c,
               geometry_.input_channels, flip, row);
    std::fill(row + terms, row + row_bytes_, std::uint8_t{0});
  }
  std::fill_n(packed + ones_, terms, std::uint8_t{1});
  std::fill(packed + ones_ + terms, packed + ones_ + k_, std::uint8_t{0});
  pack.sum_rows({.a = packed,
                 .a_row_stride = row_bytes_,
                 .a_offsets = &kOnlySegment,
                 .m = channels,
                 .k = k_,
                 .a_is_signed = true},
                reinterpret_cast<std::int32_t*>(packed + sums_));
}

PlanarProductConvolution::Tile PlanarProductConvolution::tile(std::int64_t task) const noexcept {
  const std::int64_t first_channel = task % parts_ * part_channels_, of_batch = task / parts_;
  const std::int64_t first_pixel = of_batch % tiles_ * tile_pixels_;
  return {.image = of_batch / tiles_,
          .first_pixel = first_pixel,
          .pixels = std::min(tile_pixels_, geometry_.image_pixels() - first_pixel),
          .first_channel = first_channel,
          .channels = std::min(part_channels_, geometry_.output_channels - first_channel)};
}

void PlanarProductConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  parallel_for(as_size(tasks()), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    run_tile(dispatch, tile(static_cast<std::int64_t>(task)), scratch + as_size(slot) * own_size_);
  });
}

// Planes behind the last one meet zeros of the filter: any are read, and lines of whole steps are left as they are.
void PlanarProductConvolution::interleave(const ConvolutionDispatch& dispatch, const Tile& tile,
                                          std::uint8_t* panels) const noexcept {
  const PackKernels& pack = *target_.kernels().pack;
  const std::uint8_t* data = dispatch.source.data + tile.image * geometry_.input.n + tile.first_pixel;
  const std::int64_t last = geometry_.input_channels - 1;
  for (std::int64_t channel = 0; channel <= last; channel += 4, panels += 4 * gemm_.nr) {
    const auto plane = [&](std::int64_t i) { return data + std::min(channel + i, last) * geometry_.input.c; };
    pack.interleave_panels({.rows = {plane(0), plane(1), plane(2), plane(3)},
                            .count = as_size(tile.pixels),
                            .flip = dispatch.source.flip,
                            .nr = gemm_.nr,
                            .panel_stride = panel_bytes_,
                            .output = panels});
  }
}

void PlanarProductConvolution::run_tile(const ConvolutionDispatch& dispatch, const Tile& tile,
                                        std::uint8_t* own) const noexcept {
  interleave(dispatch, tile, own);
  const auto* const zero_point = dispatch.channels.filter_zero_point;
  auto* const activation_sums = reinterpret_cast<std::int32_t*>(own + activation_sums_);
  const std::int64_t channel = tile.first_channel;
  GemmBlock block = {
      .a = dispatch.filter + as_size(channel) * row_bytes_,
      .a_row_stride = row_bytes_,
      .b = own,
      .b_panel_stride = panel_bytes_,
      .m = as_size(tile.channels),
      .n = as_size(tile.pixels),
      .k = k_,
      .offset = dispatch.channels.offset + channel,
      .multiplier = dispatch.channels.multiplier + channel,
      .filter_zero_point = zero_point == nullptr ? nullptr : zero_point + channel,
      .activation_sum = activation_sums,
      .output_zero_point = dispatch.output_zero_point,
      .flip = dispatch.output_flip,
      .output = dispatch.output + tile.image * geometry_.output.n + channel * geometry_.output.c + tile.first_pixel,
      .output_row_stride = as_size(geometry_.output.c),
      .is_of_planes = true};
  if (zero_point != nullptr) {  // a filter of ones makes the sums of activations
    constexpr std::int32_t kNoOffset = 0;
    GemmBlock sums = block;
    sums.a = dispatch.filter + ones_;
    sums.m = 1;
    sums.offset = &kNoOffset;
    sums.filter_zero_point = nullptr;
    sums.sums = activation_sums;
    gemm_.multiply(sums);
  }
  gemm_.multiply(block);
}

std::string PlanarProductConvolution::describe() const {
  std::ostringstream text;
  text << "algorithm: matrix product of planes, requantized in the same pass\nkernel: " << product_kernel_words(target_)
       << "\nactivations: interleaved by four channels, a tile at a time"
       << "\nwhy: planes because both tensors are {N, C, H, W} in memory, and the kernel takes channels as rows"
       << "\nproduct: " << counted(geometry_.reduction(), "term") << ", padded to " << k_ << "; " << parts_ << " x "
       << part_channels_ << " channels in 1 group\ntile: " << counted(tile_pixels_, "output pixel") << ", "
       << tasks_on_threads(tasks(), target_.num_threads);
  return text.str();
}

}  // namespace

bool planar_product_applies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  return target.kernels().gemm->multiplies_planes && geometry.groups == 1 && geometry.pointwise() &&
         !geometry.ends_in_sums() && geometry.image_pixels() >= kLeastPixels &&
         (geometry.image_pixels() >= kFewPixels || geometry.output_channels > geometry.input_channels) &&
         are_packed_planes(geometry.input, geometry) && are_packed_planes(geometry.output, geometry);
}

std::unique_ptr<ConvolutionAlgorithm> make_planar_product_convolution(const ConvolutionGeometry& geometry,
                                                                      const ExecutionTarget& target) {
  return std::make_unique<PlanarProductConvolution>(geometry, target);
}

}  // namespace dmlcpu
