// Convolution whose groups have one input channel and several output channels: a depthwise one of a copy of the input
// in which each channel stands as often as outputs are made of it, in as many images at a time as images_at_once()
// says.
//
//   input, {N, H, W, C}    [a b c]                      copy, for two outputs of each    [a a b b c c]
//   or planes              a.. | b.. | c..                                               a.. | a.. | b.. | b.. | ...
#include <algorithm>
#include <cstring>
#include <string>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/inner_convolution.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/channel_planes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Each code so many times, `copies`, which are up to kMostCopies: 8 bytes are stored for each but for the last ones.
constexpr std::size_t kMostCopies = 8;
void repeat_codes(const std::uint8_t* codes, std::size_t count, std::size_t copies, std::uint8_t* output) noexcept {
  if (copies == 2) {
    for (std::size_t i = 0; i < count; ++i) {
      output[2 * i] = codes[i];
      output[2 * i + 1] = codes[i];
    }
    return;
  }
  constexpr std::uint64_t kOfEachByte = 0x0101010101010101;
  const std::size_t wide = count - std::min(count, kMostCopies);
  std::size_t i = 0;
  for (; i < wide; ++i, output += copies) {
    const std::uint64_t repeated = kOfEachByte * codes[i];
    std::memcpy(output, &repeated, sizeof(repeated));
  }
  for (; i < count; ++i, output += copies) std::memset(output, codes[i], copies);
}

bool reads_channels_as_neighbours(const ConvolutionGeometry& geometry) { return geometry.input.c == 1; }

// The depthwise convolution of the copies of an image: of neighbouring channels, or of planes.
ConvolutionGeometry depthwise_of_copies(const ConvolutionGeometry& geometry) {
  ConvolutionGeometry inner = geometry;
  inner.input_channels = inner.groups = geometry.output_channels;
  const std::int64_t channels = inner.input_channels, height = geometry.input_height, width = geometry.input_width;
  inner.input = reads_channels_as_neighbours(geometry)
                    ? ChannelPlanes{channels, height, width, {}}.channels_last()
                    : PlaneStrides{channels * height * width, height * width, width, 1};
  return inner;
}

class RepeatedChannelsConvolution final : public InnerConvolution {
 public:
  RepeatedChannelsConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target, MakeAlgorithm* make)
      : geometry_(geometry), target_(target), copies_(as_size(geometry.group_output_channels())) {
    ConvolutionGeometry inner = depthwise_of_copies(geometry);
    image_bytes_ = as_size(inner.input.n);
    images_ = images_at_once(geometry.batch, image_bytes_);
    inner.batch = images_;
    algorithm_ = make(inner, target);
    BufferLayout layout;
    copy_ = layout.take(as_size(images_), image_bytes_);
    algorithm_scratch_ = layout.take(algorithm_->scratch_size());
    scratch_size_ = layout.size();
  }

  std::size_t scratch_size() const override { return scratch_size_; }
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override {
    return "copy: " + counted(geometry_.groups, "channel") + " of the input, each " + std::to_string(copies_) +
           " times, because as many outputs are made of each\n" + algorithm_->describe();
  }

 private:
  void copy_row(const std::uint8_t* image, std::int64_t row, std::uint8_t* target) const noexcept;
  void copy_plane(const std::uint8_t* image, std::int64_t channel, std::uint8_t* target) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  std::size_t copies_, image_bytes_ = 0;
  std::int64_t images_ = 1;
  std::size_t copy_ = 0, algorithm_scratch_ = 0, scratch_size_ = 0;
};

void RepeatedChannelsConvolution::copy_row(const std::uint8_t* image, std::int64_t row,
                                           std::uint8_t* target) const noexcept {
  const PlaneStrides& strides = geometry_.input;
  const bool joins_pixels = strides.w == geometry_.input_channels;
  const std::int64_t runs = joins_pixels ? 1 : geometry_.input_width;
  const std::size_t count = as_size(geometry_.input_channels * (joins_pixels ? geometry_.input_width : 1));
  target += as_size(row * geometry_.input_width * geometry_.output_channels);
  for (std::int64_t run = 0; run < runs; ++run, target += count * copies_) {
    repeat_codes(image + row * strides.h + run * strides.w, count, copies_, target);
  }
}

void RepeatedChannelsConvolution::copy_plane(const std::uint8_t* image, std::int64_t channel,
                                             std::uint8_t* target) const noexcept {
  const std::size_t width = as_size(geometry_.input_width), plane = as_size(geometry_.input_height) * width;
  target += as_size(channel) * copies_ * plane;
  for (std::int64_t row = 0; row < geometry_.input_height; ++row) {
    std::memcpy(target + as_size(row) * width, image + channel * geometry_.input.c + row * geometry_.input.h, width);
  }
  for (std::size_t copy = 1; copy < copies_; ++copy) std::memcpy(target + copy * plane, target, plane);
}

void RepeatedChannelsConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  const bool by_rows = reads_channels_as_neighbours(geometry_);
  const std::int64_t parts = by_rows ? geometry_.input_height : geometry_.input_channels;
  for (std::int64_t image = 0; image < geometry_.batch; image += images_) {
    ConvolutionDispatch part = dispatch;
    part.source.data += image * geometry_.input.n;
    part.output += image * geometry_.output.n * geometry_.output_bytes;
    parallel_for(as_size(images_ * parts), target_.num_threads, [&](std::size_t task, int) noexcept {
      const std::int64_t of_copies = static_cast<std::int64_t>(task) / parts;
      const std::int64_t index = static_cast<std::int64_t>(task) % parts;
      const std::uint8_t* from = part.source.data + of_copies * geometry_.input.n;
      std::uint8_t* to = scratch + copy_ + as_size(of_copies) * image_bytes_;
      by_rows ? copy_row(from, index, to) : copy_plane(from, index, to);
    });
    part.source.data = scratch + copy_;
    algorithm_->run(part, scratch + algorithm_scratch_);
  }
}

// Codes that are copied for an output pixel of a group: with more of them products are as fast, of few channels sooner.
constexpr std::int64_t kMostCopied = 40, kMostCopiedOfFew = 16, kManyChannels = 32;
// From so many on the window has to have twice as many taps as are copied of each channel.
constexpr std::int64_t kManyCopied = 8;

bool has_copies(const ConvolutionGeometry& geometry) {
  return geometry.group_input_channels() == 1 && geometry.groups > 1 && geometry.group_output_channels() > 1 &&
         as_size(geometry.group_output_channels()) <= kMostCopies && reads_most(geometry);
}

}  // namespace

bool repeated_planes_applies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  if (!has_copies(geometry) || geometry.input.c == 1) return false;
  const bool has_rows = geometry.input.w == 1 || geometry.input_width == 1;
  return has_rows && depthwise_planes_applies(depthwise_of_copies(geometry), target);
}

std::unique_ptr<ConvolutionAlgorithm> make_repeated_planes_convolution(const ConvolutionGeometry& geometry,
                                                                       const ExecutionTarget& target) {
  return std::make_unique<RepeatedChannelsConvolution>(geometry, target, make_depthwise_planes_convolution);
}

bool repeated_channels_applies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  if (!has_copies(geometry)) return false;
  const std::int64_t of_channel = geometry.stride_height * geometry.stride_width;
  const std::int64_t copied = geometry.group_output_channels() * of_channel;
  if (copied > (geometry.output_channels < kManyChannels ? kMostCopiedOfFew : kMostCopied)) return false;
  if (copied >= kManyCopied && 2 * of_channel > geometry.kernel_height * geometry.kernel_width) return false;
  ConvolutionGeometry inner = geometry;
  inner.input.c = 1;
  return depthwise_applies(depthwise_of_copies(inner), target);
}

std::unique_ptr<ConvolutionAlgorithm> make_repeated_channels_convolution(const ConvolutionGeometry& geometry,
                                                                         const ExecutionTarget& target) {
  return std::make_unique<RepeatedChannelsConvolution>(geometry, target, make_depthwise_convolution);
}

}  // namespace dmlcpu
