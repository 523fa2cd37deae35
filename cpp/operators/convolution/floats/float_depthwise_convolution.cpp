// A float depthwise convolution (kernels/float_depthwise): runs of pixels of one output row, for which the same taps
// are in the padding. Those whose windows lie between the ends of the rows are one run, the others runs of one pixel.
//
// The filter lies chunk by chunk, within these tap by tap.
#include <algorithm>
#include <array>

#include "operators/buffer_layout.h"
#include "operators/convolution/floats/float_convolution_algorithm.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// The taps of all runs take 256 KiB then.
constexpr std::int64_t kMostTaps = 1024;
// Pixels that are staged at once where the output's channels are no neighbours: four cache lines of a channel of a
// planar output.
constexpr std::int64_t kStagedPixels = 64;
// Runs that go through a chunk of the filter together: at the edges of images they are single pixels, each of which
// would read it from the level-2 cache.
constexpr std::int64_t kRuns = 16;
// Of a chunk, half of a level-1 cache, and what its channels are multiples of: four of the widest vectors.
constexpr std::int64_t kChunkBytes = 16384, kChunkLanes = 64;

class FloatDepthwiseConvolution final : public FloatConvolutionAlgorithm {
 public:
  FloatDepthwiseConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(geometry), target_(target) {
    // Tasks of one thread would only break up what goes through a chunk of the filter together.
    pixels_of_task_ = target.num_threads == 1 ? pixels() : divide_up(pixels(), target.num_threads * kTasksPerThread);
    const std::int64_t channels_of_chunk = kChunkBytes / static_cast<std::int64_t>(sizeof(float)) / taps();
    chunk_ = std::max(channels_of_chunk / kChunkLanes, std::int64_t{1}) * kChunkLanes;
    BufferLayout own;
    own.take(as_size(kRuns * taps()), sizeof(FloatDepthwiseTap));
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
    for (std::int64_t channel = 0; channel < geometry_.output_channels; channel += chunk_) {
      const std::int64_t end = std::min(channel + chunk_, geometry_.output_channels);
      for (std::int64_t tap = 0; tap < taps(); ++tap) {
        const float* from = filter + tap / geometry_.kernel_width * geometry_.filter.h +
                            tap % geometry_.kernel_width * geometry_.filter.w;
        for (std::int64_t c = channel; c < end; ++c) *packed++ = from[c * geometry_.filter.n];
      }
    }
  }

  std::size_t scratch_size() const override { return zeros_size_ + as_size(participants()) * participant_size_; }
  void run(const FloatConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;

  std::string describe() const override {
    return "algorithm: float32 depthwise, channels as lanes\nkernel: " + kernel_words(target_, "float_depthwise") +
           "\n" + tasks_line(tasks(), participants(), counted(pixels_of_task_, "pixel"));
  }

 private:
  // What a participant works with, beside the tensors: runs that wait to be computed, the taps of each.
  struct Waiting {
    const float* zeros;
    FloatDepthwiseTap* taps;
    float* staged;
    std::array<PixelRun, kRuns> runs;
    std::int64_t count = 0, pixels = 0;
  };

  std::int64_t taps() const { return geometry_.kernel_height * geometry_.kernel_width; }
  std::int64_t pixels() const { return geometry_.batch * geometry_.image_pixels(); }
  std::int64_t tasks() const { return divide_up(pixels(), pixels_of_task_); }
  std::int64_t participants() const { return std::min<std::int64_t>(target_.num_threads, tasks()); }
  bool stages() const { return geometry_.output.c != 1; }

  void run_row(const FloatConvolutionDispatch& dispatch, const PixelRun& pixels, Waiting& waiting) const noexcept;
  void find_taps(const float* input, const PixelRun& pixels, const float* zeros, FloatDepthwiseTap* tap) const noexcept;
  void convolve(const FloatConvolutionDispatch& dispatch, Waiting& waiting) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  std::int64_t pixels_of_task_ = 1, chunk_ = kChunkLanes;
  std::size_t staged_at_ = 0, participant_size_ = 0, zeros_size_ = 0;
};

void FloatDepthwiseConvolution::run(const FloatConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  auto* zeros = reinterpret_cast<float*>(scratch);
  std::fill_n(zeros, geometry_.input_channels, 0.0F);
  parallel_for(as_size(tasks()), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    std::uint8_t* own = scratch + zeros_size_ + as_size(slot) * participant_size_;
    Waiting waiting = {.zeros = zeros,
                       .taps = reinterpret_cast<FloatDepthwiseTap*>(own),
                       .staged = reinterpret_cast<float*>(own + staged_at_),
                       .runs = {}};
    const std::int64_t first = static_cast<std::int64_t>(task) * pixels_of_task_;
    for_each_pixel_run(geometry_, first, std::min(pixels_of_task_, pixels() - first),
                       [&](std::int64_t, const PixelRun& row) { run_row(dispatch, row, waiting); });
    convolve(dispatch, waiting);
  });
}

void FloatDepthwiseConvolution::run_row(const FloatConvolutionDispatch& dispatch, const PixelRun& pixels,
                                        Waiting& waiting) const noexcept {
  const auto inside = [&](std::int64_t kernel_column) {
    const std::int64_t column =
        pixels.column * geometry_.stride_width - geometry_.padding_left + kernel_column * geometry_.dilation_width;
    return indices_inside(column, geometry_.stride_width, geometry_.input_width, pixels.count);
  };
  // The first tap of a row is the last to enter the image, its last one the first to leave it.
  const std::int64_t begin = inside(0).begin, end = std::max(begin, inside(geometry_.kernel_width - 1).end);
  for (std::int64_t x = 0, count = 0; x < pixels.count; x += count) {
    count = begin <= x && x < end ? end - x : 1;
    if (stages()) count = std::min(count, kStagedPixels);
    if (waiting.count == kRuns || (stages() && waiting.pixels + count > kStagedPixels)) convolve(dispatch, waiting);
    const PixelRun run = {pixels.n, pixels.row, pixels.column + x, count};
    find_taps(dispatch.input, run, waiting.zeros, waiting.taps + waiting.count * taps());
    waiting.runs[as_size(waiting.count++)] = run;
    waiting.pixels += count;
  }
}

void FloatDepthwiseConvolution::find_taps(const float* input, const PixelRun& pixels, const float* zeros,
                                          FloatDepthwiseTap* tap) const noexcept {
  const std::int64_t first_column = pixels.column * geometry_.stride_width - geometry_.padding_left;
  for (std::int64_t i = 0; i < geometry_.kernel_height; ++i) {
    const std::int64_t row =
        pixels.row * geometry_.stride_height - geometry_.padding_top + i * geometry_.dilation_height;
    const bool row_inside = row >= 0 && row < geometry_.input_height;
    for (std::int64_t j = 0; j < geometry_.kernel_width; ++j, ++tap) {
      const std::int64_t column = first_column + j * geometry_.dilation_width;
      if (row_inside && column >= 0 && column < geometry_.input_width) {
        *tap = {input + pixels.n * geometry_.input.n + row * geometry_.input.h + column * geometry_.input.w,
                as_size(geometry_.stride_width) * as_size(geometry_.input.w)};
      } else {
        *tap = {zeros, 0};
      }
    }
  }
}

void FloatDepthwiseConvolution::convolve(const FloatConvolutionDispatch& dispatch, Waiting& waiting) const noexcept {
  const std::int64_t channels = geometry_.output_channels;
  const auto output_of = [&](const PixelRun& run) {
    return dispatch.output + run.n * geometry_.output.n + run.row * geometry_.output.h +
           run.column * geometry_.output.w;
  };
  for (std::int64_t channel = 0; channel < channels; channel += chunk_) {
    const std::int64_t count = std::min(chunk_, channels - channel);
    float* staged = waiting.staged;
    for (std::int64_t i = 0; i < waiting.count; ++i) {
      const PixelRun& run = waiting.runs[as_size(i)];
      target_.kernels().float_depthwise->convolve(
          {.taps = waiting.taps + i * taps(),
           .tap_count = as_size(taps()),
           .filter = dispatch.filter + channel * taps(),
           .filter_row_stride = as_size(count),
           .bias = dispatch.bias == nullptr ? nullptr : dispatch.bias + channel,
           .pixels = as_size(run.count),
           .first_channel = as_size(channel),
           .channels = as_size(count),
           .output = (stages() ? staged : output_of(run)) + channel,
           .output_pixel_stride = as_size(stages() ? channels : geometry_.output.w)});
      if (stages()) staged += run.count * channels;
    }
  }
  const float* staged = waiting.staged;
  for (std::int64_t i = 0; stages() && i < waiting.count; ++i) {
    const PixelRun& run = waiting.runs[as_size(i)];
    scatter_pixels(*target_.kernels().pack, staged, run.count, channels, sizeof(float), output_of(run),
                   geometry_.output.w, geometry_.output.c);
    staged += run.count * channels;
  }
  waiting.count = waiting.pixels = 0;
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
