// Depthwise convolution of {N, C, H, W} memory from planes to planes (kernels/depthwise_planes), which transposes
// neither. A task is some channels of an image, or a part of its blocks where channels are few.
#include <algorithm>
#include <cstring>
#include <sstream>

#include "kernels/depthwise/depthwise.h"
#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/direct/plane_blocks.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/channel_planes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kLanes = kPlaneLanes, kBytes = kPlaneBytes;
constexpr std::int64_t kMostTapsOfWindow = 64;  // there are masks of each
constexpr std::int64_t kLeastPixels = 64;       // of an image that copies do not beat
constexpr std::int64_t kLeastOfPhase = 8;  // outputs of a row, of which those as far apart as the taps are one phase
constexpr std::int64_t kChannelsOfTask = kPlaneTileChannels, kChannelsAtOnce = kPlaneChannels;
constexpr double kMostPlaneBytes = 1 << 30;  // from a plane's first code to its last

class DepthwisePlanesConvolution final : public ConvolutionAlgorithm {
 public:
  DepthwisePlanesConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(geometry),
        target_(target),
        blocks_(geometry),
        channel_bytes_(as_size(geometry.kernel_height) * plane_groups(as_size(geometry.kernel_width)) * 4) {
    BufferLayout filter;
    filter.take(as_size(geometry.output_channels), channel_bytes_);
    sums_ = filter.take(as_size(geometry.output_channels), sizeof(std::int32_t));
    filter_size_ = filter.size();
    // Of whole fours but for the last one, which has what is left as well.
    channel_parts_ = std::max(geometry.output_channels / kChannelsOfTask, std::int64_t{1});
    part_channels_ = geometry.output_channels / channel_parts_ / kChannelsAtOnce * kChannelsAtOnce;
    const std::int64_t tasks = geometry.batch * channel_parts_, threads = target.num_threads;
    const auto blocks = static_cast<std::int64_t>(blocks_.count());
    block_parts_ = tasks >= threads * kTasksPerThread || threads == 1
                       ? 1
                       : std::min(blocks, divide_up(threads * kTasksPerThread, tasks));
    part_blocks_ = divide_up(blocks, block_parts_);
    block_parts_ = divide_up(blocks, part_blocks_);
  }

  std::size_t packed_filter_size() const override { return filter_size_; }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override;
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + sums_);
  }
  std::size_t scratch_size() const override { return 0; }
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  std::int64_t tasks() const { return geometry_.batch * channel_parts_ * block_parts_; }
  std::int64_t last_part_channels() const { return geometry_.output_channels - (channel_parts_ - 1) * part_channels_; }
  void run_task(const ConvolutionDispatch& dispatch, std::int64_t task) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  PlaneBlocks blocks_;
  std::size_t channel_bytes_, sums_, filter_size_;
  std::int64_t part_channels_, channel_parts_, part_blocks_, block_parts_;
};

void DepthwisePlanesConvolution::pack_filter(const std::uint8_t* filter, std::uint8_t flip,
                                             std::uint8_t* packed) const {
  auto* const sums = reinterpret_cast<std::int32_t*>(packed + sums_);
  const std::int64_t columns = geometry_.kernel_width;
  const std::size_t row_bytes = channel_bytes_ / as_size(geometry_.kernel_height);
  std::memset(packed, 0, as_size(geometry_.output_channels) * channel_bytes_);
  for (std::int64_t channel = 0; channel < geometry_.output_channels; ++channel) {
    std::int32_t sum = 0;
    for (std::int64_t row = 0; row < geometry_.kernel_height; ++row, packed += row_bytes) {
      const std::uint8_t* codes = filter + channel * geometry_.filter.n + row * geometry_.filter.h;
      for (std::int64_t column = 0; column < columns; ++column) {
        packed[column] = codes[column * geometry_.filter.w] ^ flip;
        sum += static_cast<std::int8_t>(packed[column]);
      }
    }
    sums[channel] = sum;
  }
}

void DepthwisePlanesConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t*) const {
  parallel_for(as_size(tasks()), target_.num_threads,
               [&](std::size_t task, int) noexcept { run_task(dispatch, static_cast<std::int64_t>(task)); });
}

void DepthwisePlanesConvolution::run_task(const ConvolutionDispatch& dispatch, std::int64_t task) const noexcept {
  const PlaneStrides &input = geometry_.input, &output = geometry_.output;
  const std::int64_t first_block = task % block_parts_ * part_blocks_;
  const std::int64_t part = task / block_parts_ % channel_parts_, channel = part * part_channels_;
  const bool is_last = part + 1 == channel_parts_;
  const std::int64_t image = task / block_parts_ / channel_parts_;
  const std::int64_t to_last = (geometry_.batch - 1) * input.n + (geometry_.input_channels - 1) * input.c +
                               (geometry_.input_height - 1) * input.h + geometry_.input_width;
  const auto* const zero_point = dispatch.channels.filter_zero_point;
  target_.kernels().depthwise_planes->convolve(
      {.rows = as_size(geometry_.kernel_height),
       .columns = as_size(geometry_.kernel_width),
       .row_step = static_cast<std::ptrdiff_t>(geometry_.dilation_height * input.h),
       .row_stride = blocks_.row_stride(),
       .output_step = static_cast<std::ptrdiff_t>(geometry_.output_width),
       .blocks = blocks_.blocks() + first_block,
       .block_count = as_size(std::min(part_blocks_, static_cast<std::int64_t>(blocks_.count()) - first_block)),
       .orders = blocks_.orders(),
       .inside = blocks_.inside(),
       .input = dispatch.source.data + image * input.n + channel * input.c,
       .input_plane_step = static_cast<std::ptrdiff_t>(input.c),
       .readable = dispatch.source.data,
       .readable_end = dispatch.source.data + to_last,
       .input_flip = dispatch.source.flip,
       .padding = dispatch.source.zero_point,
       .channels = as_size(is_last ? last_part_channels() : part_channels_),
       .filter = reinterpret_cast<const std::int8_t*>(dispatch.filter) + as_size(channel) * channel_bytes_,
       .offset = dispatch.channels.offset + channel,
       .multiplier = dispatch.channels.multiplier + channel,
       .filter_zero_point = zero_point == nullptr ? nullptr : zero_point + channel,
       .output_zero_point = dispatch.output_zero_point,
       .flip = dispatch.output_flip,
       .output = dispatch.output + image * output.n + channel * output.c,
       .output_plane_step = static_cast<std::ptrdiff_t>(output.c)});
}

std::string DepthwisePlanesConvolution::describe() const {
  std::ostringstream text;
  text << "algorithm: depthwise, neighbouring outputs of a plane as lanes\nkernel: "
       << kernel_words(target_, "depthwise_planes")
       << "\nwhy: planes because both tensors are {N, C, H, W} in memory, and a load has the taps of several outputs"
       << "\ntaps: " << geometry_.reduction() << ", " << counted(geometry_.kernel_height, "row") << " of "
       << counted(static_cast<std::int64_t>(plane_groups(as_size(geometry_.kernel_width))), "group")
       << " of four columns\nlanes: "
       << (blocks_.descends() ? "neighbours of a row of outputs, from row to row down the image"
                              : "the next outputs of a plane, each with its own loads")
       << "\ntile: up to " << counted(last_part_channels(), "channel") << " by " << counted(part_blocks_, "block")
       << " of up to " << counted(kLanes, "lane") << ", " << counted(tasks(), "task") << " on "
       << counted(std::min<std::int64_t>(tasks(), target_.num_threads), "thread");
  return text.str();
}

bool has_packed_rows(const PlaneStrides& strides, std::int64_t height, std::int64_t width) {
  return (strides.w == 1 || width == 1) && (strides.h >= width || height == 1);
}

// Copies, with channels as lanes, have a kernel for windows of 3 x 3 and 5 x 5 (kernels/depthwise_window), which makes
// up for transpositions where images are small, or where taps are many and as much is written as read; but not where
// the dilation leaves it few outputs at a time. Of windows much higher than wide a load has few taps of an output,
// where copies have four rows of a channel side by side.
bool beats_copies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  ConvolutionGeometry copied = geometry;
  copied.input = ChannelPlanes{geometry.input_channels, geometry.input_height, geometry.input_width, geometry.input}
                     .channels_last();
  if (geometry.stride_height * geometry.stride_width > 1) return true;
  const bool is_tall = geometry.kernel_height > 4 * geometry.kernel_width;
  if (is_tall && geometry.output_channels >= static_cast<std::int64_t>(kDepthwiseLanes)) return false;
  if (!depthwise_window_applies(copied, target)) return true;
  if (geometry.dilation_width > 1 && geometry.output_width / kLeastOfPhase < geometry.dilation_width) return true;
  return geometry.kernel_width == 3 && geometry.image_pixels() >= kLeastPixels;
}

}  // namespace

bool depthwise_planes_applies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  constexpr std::int64_t kMostSide = 16;
  if (target.kernels().depthwise_planes == nullptr || !depthwise_applies(geometry, target) || geometry.ends_in_sums() ||
      !beats_copies(geometry, target)) {
    return false;
  }
  if (geometry.kernel_height > kMostSide || geometry.kernel_width > kMostSide ||
      geometry.kernel_height * geometry.kernel_width > kMostTapsOfWindow || geometry.dilation_width > kBytes ||
      window_columns(geometry) > kBytes) {
    return false;
  }
  const double rows = as_number(geometry.input_height) + as_number(geometry.padding_top) +
                      as_number(geometry.kernel_height) * as_number(geometry.dilation_height);
  return geometry.input.c != 1 && geometry.output.c != 1 &&
         has_packed_rows(geometry.input, geometry.input_height, geometry.input_width) &&
         uniform_pixel_stride(geometry.output, 1, geometry.output_height, geometry.output_width) == 1 &&
         has_few_plane_blocks(geometry) && rows * static_cast<double>(geometry.input.h) <= kMostPlaneBytes;
}

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_planes_convolution(const ConvolutionGeometry& geometry,
                                                                        const ExecutionTarget& target) {
  return std::make_unique<DepthwisePlanesConvolution>(geometry, target);
}

}  // namespace dmlcpu
