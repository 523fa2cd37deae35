// A float depthwise convolution (kernels/float_depthwise): runs of pixels of one output row, for which the same taps
// are in the padding. Those whose windows lie between the ends of the rows are one run, the others runs of one pixel.
//
// The filter lies tap by tap, the channels of each together.
#include <algorithm>

#include "operators/buffer_layout.h"
#include "operators/convolution/float_convolution_algorithm.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kMostTaps = 1024;
// Multiply-adds of a task, about 5 us of them.
constexpr std::int64_t kTaskSteps = 1 << 18;
// Pixels that are staged at once where the output's channels are no neighbours.
constexpr std::int64_t kStagedPixels = 64;

class FloatDepthwiseConvolution final : public FloatConvolutionAlgorithm {
 public:
  FloatDepthwiseConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(geometry), target_(target) {
    const std::int64_t of_pixel = geometry.output_channels * taps();
    pixels_of_task_ = std::clamp<std::int64_t>(kTaskSteps / of_pixel, 4, pixels());
    if (pixels_of_task_ > geometry.output_width) pixels_of_task_ -= pixels_of_task_ % geometry.output_width;
    BufferLayout own;
    own.take(as_size(taps()), sizeof(FloatDepthwiseTap));
    staged_at_ = own.take(stages() ? as_size(kStagedPixels) : 0, as_size(geometry.output_channels) * sizeof(float));
    participant_size_ = own.size();
    BufferLayout shared;
    shared.take(as_size(geometry.input_channels), sizeof(float));
    zeros_size_ = shared.size();
  }

  std::size_t packed_filter_size() const override {
    return as_size(taps() * geometry_.output_channels) * sizeof(float);
  }
  void pack_filter(const float* filter, float* packed) const override {
    for (std::int64_t tap = 0; tap < taps(); ++tap) {
      const float* from = filter + tap / geometry_.kernel_width * geometry_.filter.h +
                          tap % geometry_.kernel_width * geometry_.filter.w;
      for (std::int64_t c = 0; c < geometry_.output_channels; ++c) *packed++ = from[c * geometry_.filter.n];
    }
  }

  std::size_t scratch_size() const override { return zeros_size_ + as_size(participants()) * participant_size_; }
  void run(const FloatConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;

  std::string describe() const override {
    return "algorithm: float32 depthwise, channels as lanes\nkernel: " + kernel_words(target_, "float_depthwise") +
           "\ntasks: " + std::to_string(tasks()) + " of " + counted(pixels_of_task_, "pixel") + ", on " +
           counted(participants(), "thread");
  }

 private:
  // What a participant works with, beside the tensors.
  struct Scratch {
    const float* zeros;
    FloatDepthwiseTap* taps;
    float* staged;
  };

  std::int64_t taps() const { return geometry_.kernel_height * geometry_.kernel_width; }
  std::int64_t pixels() const { return geometry_.batch * geometry_.image_pixels(); }
  std::int64_t tasks() const { return divide_up(pixels(), pixels_of_task_); }
  std::int64_t participants() const { return std::min<std::int64_t>(target_.num_threads, tasks()); }
  bool stages() const { return geometry_.output.c != 1; }

  void run_row(const FloatConvolutionDispatch& dispatch, const PixelRun& pixels, const Scratch& scratch) const noexcept;
  void find_taps(const float* input, const PixelRun& pixels, const Scratch& scratch) const noexcept;
  void convolve(const FloatConvolutionDispatch& dispatch, const PixelRun& pixels,
                const Scratch& scratch) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  std::int64_t pixels_of_task_ = 1;
  std::size_t staged_at_ = 0, participant_size_ = 0, zeros_size_ = 0;
};

void FloatDepthwiseConvolution::run(const FloatConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  auto* zeros = reinterpret_cast<float*>(scratch);
  std::fill_n(zeros, geometry_.input_channels, 0.0F);
  parallel_for(as_size(tasks()), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    std::uint8_t* own = scratch + zeros_size_ + as_size(slot) * participant_size_;
    const Scratch of_slot = {zeros, reinterpret_cast<FloatDepthwiseTap*>(own),
                             reinterpret_cast<float*>(own + staged_at_)};
    const std::int64_t first = static_cast<std::int64_t>(task) * pixels_of_task_;
    for_each_pixel_run(geometry_, first, std::min(pixels_of_task_, pixels() - first),
                       [&](std::int64_t, const PixelRun& row) { run_row(dispatch, row, of_slot); });
  });
}

void FloatDepthwiseConvolution::run_row(const FloatConvolutionDispatch& dispatch, const PixelRun& pixels,
                                        const Scratch& scratch) const noexcept {
  const auto inside = [&](std::int64_t kernel_column) {
    const std::int64_t column =
        pixels.column * geometry_.stride_width - geometry_.padding_left + kernel_column * geometry_.dilation_width;
    return indices_inside(column, geometry_.stride_width, geometry_.input_width, pixels.count);
  };
  // The first tap of a row is the last to enter the image, its last one the first to leave it.
  const std::int64_t begin = inside(0).begin, end = std::max(begin, inside(geometry_.kernel_width - 1).end);
  for (std::int64_t x = 0, count = 0; x < pixels.count; x += count) {
    count = x == begin && begin < end ? end - begin : 1;
    if (stages()) count = std::min(count, kStagedPixels);
    convolve(dispatch, {pixels.n, pixels.row, pixels.column + x, count}, scratch);
  }
}

void FloatDepthwiseConvolution::find_taps(const float* input, const PixelRun& pixels,
                                          const Scratch& scratch) const noexcept {
  FloatDepthwiseTap* tap = scratch.taps;
  const std::int64_t first_column = pixels.column * geometry_.stride_width - geometry_.padding_left;
  for (std::int64_t i = 0; i < geometry_.kernel_height; ++i) {
    const std::int64_t row =
        pixels.row * geometry_.stride_height - geometry_.padding_top + i * geometry_.dilation_height;
    const bool row_inside = row >= 0 && row < geometry_.input_height;
    for (std::int64_t j = 0; j < geometry_.kernel_width; ++j, ++tap) {
      const std::int64_t column = first_column + j * geometry_.dilation_width;
      if (row_inside && column >= 0 && column < geometry_.input_width) {
        *tap = {input + pixels.n * geometry_.input.n + row * geometry_.input.h + column * geometry_.input.w,
                as_size(geometry_.stride_width * geometry_.input.w)};
      } else {
        *tap = {scratch.zeros, 0};
      }
    }
  }
}

void FloatDepthwiseConvolution::convolve(const FloatConvolutionDispatch& dispatch, const PixelRun& pixels,
                                         const Scratch& scratch) const noexcept {
  find_taps(dispatch.input, pixels, scratch);
  float* output = dispatch.output + pixels.n * geometry_.output.n + pixels.row * geometry_.output.h +
                  pixels.column * geometry_.output.w;
  const std::int64_t channels = geometry_.output_channels;
  target_.kernels().float_depthwise->convolve(
      {.taps = scratch.taps,
       .tap_count = as_size(taps()),
       .filter = dispatch.filter,
       .filter_row_stride = as_size(channels),
       .bias = dispatch.bias,
       .pixels = as_size(pixels.count),
       .channels = as_size(channels),
       .output = stages() ? scratch.staged : output,
       .output_pixel_stride = as_size(stages() ? channels : geometry_.output.w)});
  if (stages()) {
    spread_floats(*target_.kernels().pack, scratch.staged, pixels.count, channels, output, geometry_.output.w,
                  geometry_.output.c);
  }
}

}  // namespace

bool float_depthwise_applies(const ConvolutionGeometry& geometry) {
  return geometry.groups > 1 && geometry.groups == geometry.input_channels &&
         geometry.groups == geometry.output_channels && geometry.kernel_height <= kMostTaps &&
         geometry.kernel_width <= kMostTaps / geometry.kernel_height;
}

std::unique_ptr<FloatConvolutionAlgorithm> make_float_depthwise_convolution(const ConvolutionGeometry& geometry,
                                                                            const ExecutionTarget& target) {
  return std::make_unique<FloatDepthwiseConvolution>(geometry, target);
}

}  // namespace dmlcpu
