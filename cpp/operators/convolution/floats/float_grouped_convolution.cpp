// A float convolution of many groups of few channels, as depthwise ones (kernels/float_depthwise) whose lanes are the
// groups: of runs of pixels of one output row, for which the same taps are in the padding. Those whose windows lie
// between the ends of the rows are one run, the others runs of one pixel.
//
// The input's channels lie by their place in the group, so that each is a tap of its own; of one channel a group, as
// they are. Several outputs of a group are as many convolutions, whose results are interleaved. Three groups a, b, c of
// two channels and two outputs:
//
//   input [a0 b0 c0] [a1 b1 c1]   ->   staged [a0 b0 c0] [a1 b1 c1]   ->   output [a0 a1 b0 b1 c0 c1]
//
// The filter lies chunk by chunk of groups, within these output by output, within these tap by tap.
//
// A first stage that clips is the kernels'. Others are applied to a run of a chunk, or to interleaved results.
//
// Windows of one channel, of a usual width and without dilation, slide: a run is a row of pixels then, padding and all.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "operators/buffer_layout.h"
#include "operators/convolution/floats/float_convolution_algorithm.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/element_rows.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Channels of a group, in and out: of more of them products are as fast.
constexpr std::int64_t kMostChannels = 8;
// The taps of all runs take 256 KiB then.
constexpr std::int64_t kMostTaps = 1024;
// Pixels that are staged at once where the output's channels are no neighbours: four cache lines of a channel of a
// planar output.
constexpr std::int64_t kStagedPixels = 64;
// Runs that go through a chunk of the filter together: at the edges of images they are single pixels, each of which
// would read it from the level-2 cache.
constexpr std::int64_t kRuns = 16;
// Of a chunk, half of a level-1 cache, and what its groups are multiples of: four of the widest vectors.
constexpr std::int64_t kVectorLanes = 16, kChunkBytes = 16384, kChunkLanes = 4 * kVectorLanes;

// Whether the kernels have these windows of one channel, and are faster with them than tap by tap.
bool windows_slide(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t kLeast = 3, kMost = 9, kNarrow = 16, kFewPlaces = 512;
  const std::int64_t columns = geometry.kernel_width, stride = geometry.stride_width;
  if (geometry.group_input_channels() != 1 || geometry.dilation_width != 1 || stride > 2) return false;
  if (columns < kLeast || columns > kMost || columns % 2 == 0) return false;
  if (geometry.output_width == 1) return false;  // there is nothing to slide along
  // Windows that overlap by one column share little but what padding there is, and pixels that are whole 2 KiB apart
  // share few places of a level-1 cache.
  return columns - stride > 1 || (geometry.output_width <= kNarrow && geometry.input.w % kFewPlaces != 0);
}

class FloatGroupedConvolution final : public FloatConvolutionAlgorithm {
 public:
  FloatGroupedConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(geometry), target_(target), slides_(windows_slide(geometry)) {
    // Tasks of one thread would only break up what goes through a chunk of the filter together.
    pixels_of_task_ = target.num_threads == 1 ? pixels() : divide_up(pixels(), target.num_threads * kTasksPerThread);
    const std::int64_t groups_of_chunk = kChunkBytes / static_cast<std::int64_t>(sizeof(float)) / taps();
    chunk_ = std::max(groups_of_chunk / kChunkLanes, std::int64_t{1}) * kChunkLanes;
    BufferLayout own;
    own.take(slides_ ? 0 : as_size(kRuns * taps()), sizeof(FloatDepthwiseTap));
    rows_at_ = own.take(slides_ ? as_size(kRuns * geometry.kernel_height) : 0, sizeof(const float*));
    const std::size_t pixel_bytes = as_size(geometry.output_channels) * sizeof(float);
    staged_at_ = own.take(stages() ? as_size(kStagedPixels) : 0, pixel_bytes);
    interleaved_at_ = own.take(interleaves() && geometry.output.c != 1 ? as_size(kStagedPixels) : 0, pixel_bytes);
    participant_size_ = own.size();
    BufferLayout shared;
    shared.take(as_size(groups()), sizeof(float));
    bias_at_ = shared.take(interleaves() ? as_size(geometry.output_channels) : 0, sizeof(float));
    shared_size_ = shared.size();
  }

  std::size_t packed_filter_size() const override {
    return as_size(taps() * geometry_.output_channels) * sizeof(float);
  }
  void pack_filter(const float* filter, float* packed) const override {
    for (std::int64_t group = 0; group < groups(); group += chunk_) {
      const std::int64_t end = std::min(group + chunk_, groups());
      for (std::int64_t output = 0; output < outputs(); ++output) {
        for (std::int64_t tap = 0; tap < taps(); ++tap) {
          const float* from = filter + tap_offset(tap) + output * geometry_.filter.n;
          for (std::int64_t g = group; g < end; ++g) *packed++ = from[g * outputs() * geometry_.filter.n];
        }
      }
    }
  }

  std::size_t scratch_size() const override { return shared_size_ + as_size(participants()) * participant_size_; }
  std::vector<std::size_t> packing() const override { return {1, as_size(geometry_.groups)}; }

  void run(const FloatConvolutionDispatch& given, std::uint8_t* scratch) const override;

  std::string describe() const override {
    return std::string("algorithm: float32 depthwise, groups as lanes") + (slides_ ? ", windows slide" : "") +
           "\nkernel: " + kernel_words(target_, "float_depthwise") + "\n" +
           tasks_line(tasks(), participants(), counted(pixels_of_task_, "pixel"));
  }

 private:
  // What a participant works with, beside the tensors: runs that wait to be computed, the taps of each, or the rows of
  // the image where windows slide. The bias is that of each channel's first output, then of its second ...
  struct Waiting {
    const float *zeros, *bias;
    FloatDepthwiseTap* taps;
    const float** rows;
    float *staged, *interleaved;
    const FloatBounds* bounds;
    std::array<PixelRun, kRuns> runs;
    std::int64_t count = 0, pixels = 0;
  };

  // Of groups, for one of their outputs; its filter.
  struct ChunkOfOutput {
    std::int64_t group, count;
    const float *filter, *bias;
  };

  std::int64_t taps() const { return geometry_.reduction(); }
  std::int64_t pixels() const { return geometry_.batch * geometry_.image_pixels(); }
  std::int64_t tasks() const { return divide_up(pixels(), pixels_of_task_); }
  std::int64_t participants() const { return std::min<std::int64_t>(target_.num_threads, tasks()); }
  std::int64_t groups() const { return geometry_.groups; }
  std::int64_t outputs() const { return geometry_.group_output_channels(); }
  bool interleaves() const { return outputs() > 1; }
  bool stages() const { return geometry_.output.c != 1 || interleaves(); }
  // From pixel to pixel of what the kernels write.
  std::size_t output_step() const { return as_size(stages() ? groups() : geometry_.output.w); }

  // Of a tap in the filter of an output: the channel of the group is innermost.
  std::int64_t tap_offset(std::int64_t tap) const {
    const std::int64_t inputs = geometry_.group_input_channels(), place = tap / inputs;
    return place / geometry_.kernel_width * geometry_.filter.h + place % geometry_.kernel_width * geometry_.filter.w +
           tap % inputs * geometry_.filter.c;
  }

  void run_row(const FloatConvolutionDispatch& dispatch, const PixelRun& pixels, Waiting& waiting) const noexcept;
  void find_taps(const float* input, const PixelRun& pixels, const float* zeros, FloatDepthwiseTap* tap) const noexcept;
  void find_rows(const float* input, const PixelRun& pixels, const float** row) const noexcept;
  void convolve(const FloatConvolutionDispatch& dispatch, Waiting& waiting) const noexcept;
  void convolve_run(const Waiting& waiting, std::int64_t index, const ChunkOfOutput& chunk,
                    float* output) const noexcept;
  void apply(const FloatsEpilogue& epilogue, const PixelRun& run, FloatsPart part) const noexcept;
  void scatter(const float* staged, const PixelRun& run, float* interleaved, float* output,
               const FloatsEpilogue& epilogue) const noexcept;
  void interleave(const float* staged, std::int64_t pixels, float* output, std::int64_t pixel_step,
                  std::int64_t channel_step) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  bool slides_;
  std::int64_t pixels_of_task_ = 1, chunk_ = kChunkLanes;
  std::size_t rows_at_ = 0, staged_at_ = 0, interleaved_at_ = 0, participant_size_ = 0, bias_at_ = 0, shared_size_ = 0;
};

void FloatGroupedConvolution::run(const FloatConvolutionDispatch& given, std::uint8_t* scratch) const {
  FloatConvolutionDispatch dispatch = given;
  const std::optional<FloatBounds> bounds = dispatch.epilogue.take_bounds(*target_.kernels().float_functions);
  auto* zeros = reinterpret_cast<float*>(scratch);
  std::fill_n(zeros, groups(), 0.0F);
  const float* bias = dispatch.bias;
  if (bias != nullptr && interleaves()) {
    auto* apart = reinterpret_cast<float*>(scratch + bias_at_);
    copy_rows(bias, {1, outputs()}, apart, {groups(), 1}, outputs(), groups());
    bias = apart;
  }
  parallel_for(as_size(tasks()), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    std::uint8_t* own = scratch + shared_size_ + as_size(slot) * participant_size_;
    Waiting waiting = {.zeros = zeros,
                       .bias = bias,
                       .taps = reinterpret_cast<FloatDepthwiseTap*>(own),
                       .rows = reinterpret_cast<const float**>(own + rows_at_),
                       .staged = reinterpret_cast<float*>(own + staged_at_),
                       .interleaved = reinterpret_cast<float*>(own + interleaved_at_),
                       .bounds = bounds ? &*bounds : nullptr,
                       .runs = {}};
    const std::int64_t first = static_cast<std::int64_t>(task) * pixels_of_task_;
    for_each_pixel_run(geometry_, first, std::min(pixels_of_task_, pixels() - first),
                       [&](std::int64_t, const PixelRun& row) { run_row(dispatch, row, waiting); });
    convolve(dispatch, waiting);
  });
}

void FloatGroupedConvolution::run_row(const FloatConvolutionDispatch& dispatch, const PixelRun& pixels,
                                      Waiting& waiting) const noexcept {
  const auto inside = [&](std::int64_t kernel_column) {
    const std::int64_t column =
        pixels.column * geometry_.stride_width - geometry_.padding_left + kernel_column * geometry_.dilation_width;
    return indices_inside(column, geometry_.stride_width, geometry_.input_width, pixels.count);
  };
  // The first tap of a row is the last to enter the image, its last one the first to leave it.
  const std::int64_t begin = inside(0).begin, end = std::max(begin, inside(geometry_.kernel_width - 1).end);
  for (std::int64_t x = 0, count = 0; x < pixels.count; x += count) {
    count = slides_ ? pixels.count - x : begin <= x && x < end ? end - x : 1;
    if (stages()) count = std::min(count, kStagedPixels);
    if (waiting.count == kRuns || (stages() && waiting.pixels + count > kStagedPixels)) convolve(dispatch, waiting);
    const PixelRun run = {pixels.n, pixels.row, pixels.column + x, count};
    slides_ ? find_rows(dispatch.input, run, waiting.rows + waiting.count * geometry_.kernel_height)
            : find_taps(dispatch.input, run, waiting.zeros, waiting.taps + waiting.count * taps());
    waiting.runs[as_size(waiting.count++)] = run;
    waiting.pixels += count;
  }
}

void FloatGroupedConvolution::find_taps(const float* input, const PixelRun& pixels, const float* zeros,
                                        FloatDepthwiseTap* tap) const noexcept {
  const std::int64_t first_column = pixels.column * geometry_.stride_width - geometry_.padding_left;
  const std::size_t step = as_size(geometry_.stride_width * geometry_.input.w);
  for (std::int64_t i = 0; i < geometry_.kernel_height; ++i) {
    const std::int64_t row =
        pixels.row * geometry_.stride_height - geometry_.padding_top + i * geometry_.dilation_height;
    const bool row_inside = row >= 0 && row < geometry_.input_height;
    for (std::int64_t j = 0; j < geometry_.kernel_width; ++j) {
      const std::int64_t column = first_column + j * geometry_.dilation_width;
      const bool inside = row_inside && column >= 0 && column < geometry_.input_width;
      const float* pixel =
          inside ? input + pixels.n * geometry_.input.n + row * geometry_.input.h + column * geometry_.input.w : zeros;
      for (std::int64_t channel = 0; channel < geometry_.group_input_channels(); ++channel) {
        *tap++ = inside ? FloatDepthwiseTap{pixel + channel * groups(), step} : FloatDepthwiseTap{zeros, 0};
      }
    }
  }
}

void FloatGroupedConvolution::find_rows(const float* input, const PixelRun& pixels, const float** row) const noexcept {
  const std::int64_t first = pixels.row * geometry_.stride_height - geometry_.padding_top;
  for (std::int64_t i = 0; i < geometry_.kernel_height; ++i) {
    const std::int64_t y = first + i * geometry_.dilation_height;
    const bool inside = y >= 0 && y < geometry_.input_height;
    row[i] = inside ? input + pixels.n * geometry_.input.n + y * geometry_.input.h : nullptr;
  }
}

void FloatGroupedConvolution::convolve(const FloatConvolutionDispatch& dispatch, Waiting& waiting) const noexcept {
  const auto output_of = [&](const PixelRun& run) {
    return dispatch.output + run.n * geometry_.output.n + run.row * geometry_.output.h +
           run.column * geometry_.output.w;
  };
  const float* filter = dispatch.filter;
  for (std::int64_t group = 0; group < groups(); group += chunk_) {
    const std::int64_t count = std::min(chunk_, groups() - group);
    for (std::int64_t output = 0; output < outputs(); ++output, filter += count * taps()) {
      const float* bias = waiting.bias == nullptr ? nullptr : waiting.bias + output * groups() + group;
      const ChunkOfOutput chunk = {.group = group, .count = count, .filter = filter, .bias = bias};
      float* staged = waiting.staged;
      for (std::int64_t i = 0; i < waiting.count; ++i) {
        const PixelRun& run = waiting.runs[as_size(i)];
        float* of_run = (stages() ? staged + output * run.count * groups() : output_of(run)) + group;
        convolve_run(waiting, i, chunk, of_run);
        if (!interleaves()) {
          apply(
              dispatch.epilogue, run,
              {.values = of_run, .pixel_stride = output_step(), .channel = as_size(group), .channels = as_size(count)});
        }
        staged += run.count * geometry_.output_channels;
      }
    }
  }
  const float* staged = waiting.staged;
  for (std::int64_t i = 0; stages() && i < waiting.count; ++i) {
    const PixelRun& run = waiting.runs[as_size(i)];
    scatter(staged, run, waiting.interleaved, output_of(run), dispatch.epilogue);
    staged += run.count * geometry_.output_channels;
  }
  waiting.count = waiting.pixels = 0;
}

void FloatGroupedConvolution::convolve_run(const Waiting& waiting, std::int64_t index, const ChunkOfOutput& chunk,
                                           float* output) const noexcept {
  const PixelRun& run = waiting.runs[as_size(index)];
  if (!slides_) {
    target_.kernels().float_depthwise->convolve({.taps = waiting.taps + index * taps(),
                                                 .tap_count = as_size(taps()),
                                                 .filter = chunk.filter,
                                                 .filter_row_stride = as_size(chunk.count),
                                                 .bias = chunk.bias,
                                                 .pixels = as_size(run.count),
                                                 .first_channel = as_size(chunk.group),
                                                 .channels = as_size(chunk.count),
                                                 .output = output,
                                                 .output_pixel_stride = output_step(),
                                                 .bounds = waiting.bounds});
    return;
  }
  target_.kernels().float_depthwise->convolve_windows(
      {.image_rows = waiting.rows + index * geometry_.kernel_height,
       .image_columns = as_size(geometry_.input_width),
       .image_step = as_size(geometry_.input.w),
       .first_column = run.column * geometry_.stride_width - geometry_.padding_left,
       .stride = as_size(geometry_.stride_width),
       .rows = as_size(geometry_.kernel_height),
       .columns = as_size(geometry_.kernel_width),
       .filter = chunk.filter,
       .filter_row_stride = as_size(chunk.count),
       .bias = chunk.bias,
       .pixels = as_size(run.count),
       .first_channel = as_size(chunk.group),
       .channels = as_size(chunk.count),
       .output = output,
       .output_pixel_stride = output_step(),
       .bounds = waiting.bounds});
}

// To all pixels of a run; part has the other numbers.
void FloatGroupedConvolution::apply(const FloatsEpilogue& epilogue, const PixelRun& run,
                                    FloatsPart part) const noexcept {
  if (epilogue.empty()) return;
  part.pixel = as_size((run.n * geometry_.output_height + run.row) * geometry_.output_width + run.column);
  part.pixels = as_size(run.count);
  epilogue.apply(part);
}

void FloatGroupedConvolution::scatter(const float* staged, const PixelRun& run, float* interleaved, float* output,
                                      const FloatsEpilogue& epilogue) const noexcept {
  const PlaneStrides& strides = geometry_.output;
  if (!interleaves() || epilogue.empty()) return interleave(staged, run.count, output, strides.w, strides.c);
  const std::int64_t channels = geometry_.output_channels;
  const bool direct = strides.c == 1;
  float* together = direct ? output : interleaved;
  const std::int64_t step = direct ? strides.w : channels;
  interleave(staged, run.count, together, step, 1);
  apply(epilogue, run,
        {.values = together, .pixel_stride = as_size(step), .channel = 0, .channels = as_size(channels)});
  if (direct) return;
  scatter_pixels(*target_.kernels().pack, together, run.count, channels, sizeof(float), output, strides.w, strides.c);
}

// The results of the groups' first outputs, then of their second ones ..., brought to their channels.
void FloatGroupedConvolution::interleave(const float* staged, std::int64_t pixels, float* output,
                                         std::int64_t pixel_step, std::int64_t channel_step) const noexcept {
  for (std::int64_t i = 0; i < outputs(); ++i, staged += pixels * groups()) {
    scatter_pixels(*target_.kernels().pack, staged, pixels, groups(), sizeof(float), output + i * channel_step,
                   pixel_step, outputs() * channel_step);
  }
}

}  // namespace

bool float_grouped_applies(const ConvolutionGeometry& geometry) {
  const std::int64_t inputs = geometry.group_input_channels(), outputs = geometry.group_output_channels();
  if (geometry.groups == 1 || std::max(inputs, outputs) > kMostChannels) return false;
  // Channels are brought into another order, which has to serve several taps.
  const std::int64_t of_window = geometry.kernel_height * std::min(geometry.kernel_width, kMostTaps);
  if (inputs > 1 && of_window < 2 * geometry.stride_height * geometry.stride_width) return false;
  // Groups leave lanes of vectors idle as many times as there are pairs of an input and an output.
  const std::int64_t lanes = geometry.groups / divide_up(geometry.groups, kVectorLanes);
  if (inputs * outputs > std::max(lanes, lanes * lanes / 4)) return false;
  return geometry.kernel_height <= kMostTaps && geometry.kernel_width <= kMostTaps / inputs / geometry.kernel_height;
}

std::unique_ptr<FloatConvolutionAlgorithm> make_float_grouped_convolution(const ConvolutionGeometry& geometry,
                                                                          const ExecutionTarget& target) {
  return std::make_unique<FloatGroupedConvolution>(geometry, target);
}

}  // namespace dmlcpu
