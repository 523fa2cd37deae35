// Depthwise convolution of {N, H, W, C} memory by windows of 3x3 and 5x5 taps, one or two columns apart
// (kernels/depthwise_window): the kernel reads the rows of the input as they stand, and makes the padding up. A task is
// a strip of output columns of a band of rows (operators/convolution/padded/padded_strips.h), narrow enough for the
// rows of a window to stay in caches close to the core.
//
// Taps that are d columns apart read every d-th column of the input. So do outputs that are d apart, stride 1, and
// all of these are convolutions of their own, of taps that are neighbours, which share no column (d = 2, here of 3):
//
//   input     0 1 2 3 4 5 6 7 ...     phase 0   0   2   4   6        phase 1     1   3   5   7
//   output 0  x   x   x                         x   x   x
//   output 1    x   x   x                                                        x   x   x
//   output 2      x   x   x                         x   x   x
#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/direct/arranged_convolution.h"
#include "operators/convolution/padded/padded_strips.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// What the rows of a window in a strip take of the caches that are close to the core. Kernels read a block of channels
// at a time, of which the cache lines are at most twice as many bytes.
constexpr std::int64_t kRowsBytes = 98304, kBlockBytes = 2 * static_cast<std::int64_t>(kWindowLanes);
// Output columns that a strip has at least, where there are as many: each strip interleaves the columns that it shares
// with its neighbours once more.
constexpr std::int64_t kLeastStripColumns = 16;
// Output rows that a kernel is called for, and where stages follow that read them again.
constexpr std::int64_t kRowsAtOnce = 16, kRowsBeforeStages = 4;
// Outputs of a phase: each interleaves the columns of a window to begin with.
constexpr std::int64_t kLeastPhasePixels = 2;
constexpr std::size_t kMostRows = static_cast<std::size_t>(kRowsAtOnce) * kMostWindow * kMostWindowSlices;
// Output columns of a strip at most whose sums wait for the next slice of the window, in the level-1 cache.
constexpr std::int64_t kMostPartialSums = 64;
// A row of padding is not larger.
constexpr double kMostPaddingBytes = 1 << 18;

// From the first code of a row to the last.
double row_bytes(const ConvolutionGeometry& geometry) {
  return static_cast<double>(geometry.input_width - 1) * static_cast<double>(geometry.input.w) +
         as_number(geometry.input_channels);
}

// Output columns, neighbours to begin with, whose windows have no column in common with those of the others. Outputs
// of a phase are that many apart, and their windows window_stride() of the columns that the phase reads.
std::int64_t phases_of(const ConvolutionGeometry& geometry) {
  return geometry.dilation_width / std::gcd(geometry.stride_width, geometry.dilation_width);
}
std::int64_t window_stride(const ConvolutionGeometry& geometry) {
  return geometry.stride_width / std::gcd(geometry.stride_width, geometry.dilation_width);
}

std::int64_t columns_of_strip(const ConvolutionGeometry& geometry) {
  const std::int64_t bytes_of_output = geometry.stride_width * geometry.depth.taps * geometry.kernel_height *
                                       std::min(geometry.output_channels, kBlockBytes);
  std::int64_t most =
      std::max({kRowsBytes / bytes_of_output, kLeastStripColumns, kLeastPhasePixels * phases_of(geometry)});
  if (geometry.of_volumes()) most = std::min(most, kMostPartialSums * phases_of(geometry));
  return divide_up(geometry.output_width, divide_up(geometry.output_width, most));
}

std::vector<WindowBlock> blocks_of(std::size_t channels) {
  std::vector<WindowBlock> blocks;
  for (std::size_t end = 0; end < channels; end = blocks.back().channel + blocks.back().channels) {
    blocks.push_back(next_window_block(channels, end));
  }
  return blocks;
}

std::vector<std::size_t> channel_order(const std::vector<WindowBlock>& blocks) {
  std::vector<std::size_t> channels;
  channels.reserve(blocks.size() * kWindowLanes);
  for (const WindowBlock& block : blocks) {
    for (std::size_t lane = 0; lane < kWindowLanes; ++lane) {
      channels.push_back(block.channel + window_lane_channel(block.channels, lane));
    }
  }
  return channels;
}

// Of the packed filter.
std::size_t slice_bytes(std::size_t window) { return window_groups(window) * kWindowLanes * 4; }

class DepthwiseWindowConvolution final : public ArrangedConvolution {
 public:
  DepthwiseWindowConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target,
                             std::vector<WindowBlock> blocks)
      : ArrangedConvolution(geometry, blocks.size(),
                            as_size(geometry.depth.taps) * slice_bytes(as_size(geometry.kernel_height)),
                            channel_order(blocks)),
        geometry_(geometry),
        target_(target),
        strips_(geometry, target.num_threads, columns_of_strip(geometry), 1, 0),
        channels_(as_size(geometry.output_channels)),
        window_(as_size(geometry.kernel_height)),
        slices_(as_size(geometry.depth.taps)),
        stride_(as_size(window_stride(geometry))),
        phases_(phases_of(geometry)),
        padding_bytes_(round_up(static_cast<std::size_t>(row_bytes(geometry)), kWindowLanes)),
        blocks_(std::move(blocks)) {
    BufferLayout scratch;
    padding_ = scratch.take(padding_bytes_);
    if (slices_ > 1) partial_sums_ = scratch.take(as_size(strips_.participants()), partial_sums_bytes());
    scratch_size_ = scratch.size();
  }

  std::size_t scratch_size() const override { return scratch_size_; }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override;
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  std::int32_t pack_lane(const std::uint8_t* of_channel, std::uint8_t flip, std::uint8_t* codes) const;
  std::size_t partial_sums_bytes() const {
    return as_size(divide_up(columns_of_strip(geometry_), phases_)) * kWindowLanes * sizeof(std::int32_t);
  }
  void run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task, const std::uint8_t* padding,
                std::int32_t* partial_sums) const noexcept;
  // The rows of the windows of some output rows, of which those outside the input are the padding.
  void find_rows(const std::uint8_t* input, std::int64_t image, std::int64_t first_row, std::size_t output_rows,
                 const std::uint8_t* padding, const std::uint8_t** rows) const noexcept;
  // The part of rows in which a phase of the outputs of a strip is computed.
  void run_phase(DepthwiseWindowRun run, const PaddedStrips::Task& task, std::int64_t phase,
                 const std::uint8_t* const* rows) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  PaddedStrips strips_;
  std::size_t channels_, window_, slices_, stride_;
  std::int64_t phases_;
  std::size_t padding_bytes_;  // of a row, and 64 at least
  std::vector<WindowBlock> blocks_;
  std::size_t padding_ = 0, partial_sums_ = 0, scratch_size_ = 0;  // offsets into the scratch memory, and its size
};

// The groups of a lane of a block, kWindowLanes groups apart; returns the sum of its taps.
std::int32_t DepthwiseWindowConvolution::pack_lane(const std::uint8_t* of_channel, std::uint8_t flip,
                                                   std::uint8_t* codes) const {
  std::int32_t sum = 0;
  const std::size_t groups = window_groups(window_);
  for (std::size_t group = 0; group < slices_ * groups; ++group, codes += kWindowLanes * 4) {
    const std::uint8_t* of_slice = of_channel + static_cast<std::int64_t>(group / groups) * geometry_.filter.c;
    for (std::size_t i = 0; i < 4; ++i) {
      const WindowTap tap = window_tap(window_, stride_, group % groups, i);
      if (!tap.present) continue;
      const auto row = static_cast<std::int64_t>(tap.row), column = static_cast<std::int64_t>(tap.column);
      codes[i] = of_slice[row * geometry_.filter.h + column * geometry_.filter.w] ^ flip;
      sum += static_cast<std::int8_t>(codes[i]);
    }
  }
  return sum;
}

void DepthwiseWindowConvolution::pack_filter(const std::uint8_t* filter, std::uint8_t flip,
                                             std::uint8_t* packed) const {
  std::memset(packed, 0, packed_filter_size());
  std::int32_t* sums = packed_sums(packed);
  std::uint8_t* of_block = packed;
  for (const WindowBlock& block : blocks_) {
    for (std::size_t lane = 0; lane < kWindowLanes; ++lane) {
      const std::size_t channel = block.channel + window_lane_channel(block.channels, lane);
      const std::uint8_t* of_channel = filter + static_cast<std::int64_t>(channel) * geometry_.filter.n;
      sums[channel] = pack_lane(of_channel, flip, of_block + lane * 4);
    }
    of_block += slices_ * slice_bytes(window_);
  }
}

void DepthwiseWindowConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  std::uint8_t* padding = scratch + padding_;
  std::memset(padding, dispatch.source.zero_point ^ dispatch.source.flip, padding_bytes_);
  parallel_for(strips_.tasks(), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    std::uint8_t* sums = slices_ > 1 ? scratch + partial_sums_ + as_size(slot) * partial_sums_bytes() : nullptr;
    run_task(dispatch, strips_.task(task), padding, reinterpret_cast<std::int32_t*>(sums));
  });
}

void DepthwiseWindowConvolution::find_rows(const std::uint8_t* input, std::int64_t image, std::int64_t first_row,
                                           std::size_t output_rows, const std::uint8_t* padding,
                                           const std::uint8_t** rows) const noexcept {
  const DepthWindow& depth = geometry_.depth;
  const std::int64_t volume = image / depth.output, first_slice = image % depth.output * depth.stride - depth.padding;
  for (std::size_t i = 0; i < output_rows * slices_; ++i) {
    const std::int64_t slice = first_slice + static_cast<std::int64_t>(i % slices_) * depth.dilation;
    const bool has_slice = slice >= 0 && slice < depth.input;
    const std::int64_t top =
        (first_row + static_cast<std::int64_t>(i / slices_)) * geometry_.stride_height - geometry_.padding_top;
    for (std::size_t tap = 0; tap < window_; ++tap, ++rows) {
      const std::int64_t row = top + static_cast<std::int64_t>(tap) * geometry_.dilation_height;
      const bool is_padding = !has_slice || row < 0 || row >= geometry_.input_height;
      *rows =
          is_padding ? padding : input + (volume * depth.input + slice) * geometry_.input.n + row * geometry_.input.h;
    }
  }
}

void DepthwiseWindowConvolution::run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task,
                                          const std::uint8_t* padding, std::int32_t* partial_sums) const noexcept {
  const std::uint8_t* rows[kMostRows];
  DepthwiseWindowRun run = {
      .window = window_,
      .slices = slices_,
      .stride = stride_,
      .rows = nullptr,
      .column_step = geometry_.input_width == 1 ? 0 : geometry_.input.w * geometry_.dilation_width,
      .first_column = 0,
      .columns = 0,
      .padding = padding,
      .input_flip = dispatch.source.flip,
      .filter = reinterpret_cast<const std::int8_t*>(dispatch.filter),
      .output_rows = 0,
      .pixels = 0,
      .channels = channels_,
      .offset = dispatch.channels.offset,
      .multiplier = dispatch.channels.multiplier,
      .filter_zero_point = dispatch.channels.filter_zero_point,
      .output_zero_point = dispatch.output_zero_point,
      .flip = dispatch.output_flip,
      .output = nullptr,
      .output_pixel_stride = as_size(phases_ * geometry_.output.w),
      .output_row_stride = as_size(geometry_.output.h),
      .partial_sums = partial_sums};
  const bool has_stages = dispatch.epilogue != nullptr || dispatch.to_floats != nullptr;
  const std::int64_t at_once = has_stages ? kRowsBeforeStages : kRowsAtOnce;
  for (std::int64_t row = task.first_row; row < task.end_row; row += at_once) {
    const std::int64_t end = std::min(row + at_once, task.end_row);
    run.output_rows = as_size(end - row);
    find_rows(dispatch.source.data, task.image, row, run.output_rows, padding, rows);
    std::uint8_t* output = strips_.output(dispatch, task, row);
    if (geometry_.ends_in_sums()) {
      run.sums = reinterpret_cast<std::int32_t*>(output);
    } else {
      run.output = output;
    }
    for (std::int64_t phase = 0; phase < std::min(phases_, task.columns); ++phase) run_phase(run, task, phase, rows);
    strips_.finish(dispatch, task, row, end);
  }
}

void DepthwiseWindowConvolution::run_phase(DepthwiseWindowRun run, const PaddedStrips::Task& task, std::int64_t phase,
                                           const std::uint8_t* const* rows) const noexcept {
  const std::int64_t dilation = geometry_.dilation_width;
  const std::int64_t column = (task.first_column + phase) * geometry_.stride_width - geometry_.padding_left;
  // Which of the dilation's columns the phase reads, and where in these it begins.
  const std::int64_t rest = (column % dilation + dilation) % dilation;
  run.first_column = (column - rest) / dilation;
  run.columns = rest < geometry_.input_width ? divide_up(geometry_.input_width - rest, dilation) : 0;
  const std::int64_t first = run.columns == 0 ? 0 : rest * geometry_.input.w;
  const std::uint8_t* rows_of_phase[kMostRows];
  for (std::size_t i = 0; i < run.output_rows * slices_ * window_; ++i) {
    rows_of_phase[i] = rows[i] == run.padding ? rows[i] : rows[i] + first;
  }
  run.rows = rows_of_phase;
  run.pixels = as_size(divide_up(task.columns - phase, phases_));
  if (run.sums != nullptr) {
    run.sums += phase * geometry_.output.w;
  } else {
    run.output += phase * geometry_.output.w;
  }
  target_.kernels().depthwise_window->convolve(run);
}

std::string DepthwiseWindowConvolution::describe() const {
  const std::string of_slice = std::to_string(window_);
  const std::string window = (slices_ > 1 ? std::to_string(slices_) + "x" : "") + of_slice + "x" + of_slice;
  return "algorithm: depthwise, channels as lanes, a window of " + window +
         " from the rows of the input\nkernel: " + kernel_words(target_, "depthwise_window") +
         "\nwhy: every channel is a group of its own, and its product would have one column\ntaps: " +
         std::to_string(geometry_.reduction()) + " in " +
         counted(static_cast<std::int64_t>(slices_ * window_groups(window_)), "group") +
         " of four, interleaved in registers" +
         (phases_ > 1 ? "\nphases: " + std::to_string(phases_) + ", of columns that no window has in common" : "") +
         "\ntile: " + strips_.describe();
}

}  // namespace

bool depthwise_window_applies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  return depthwise_applies(geometry, target) && geometry.input.c == 1 &&
         geometry.output_channels >= static_cast<std::int64_t>(kLeastWindowChannels) &&
         (row_bytes(geometry) <= kMostPaddingBytes || geometry.of_volumes()) &&
         geometry.kernel_height == geometry.kernel_width &&
         (geometry.kernel_width == 3 || geometry.kernel_width == 5) &&
         (window_stride(geometry) == 1 || window_stride(geometry) == 2) &&
         geometry.output_width / kLeastPhasePixels >= phases_of(geometry);
}

// As the input will be staged.
bool depthwise_volumes_applies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  if (!geometry.of_volumes()) return false;
  ConvolutionGeometry staged = geometry;
  if (reads_most(geometry)) staged.input.c = 1;
  return depthwise_window_applies(staged, target);
}

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_window_convolution(const ConvolutionGeometry& geometry,
                                                                        const ExecutionTarget& target) {
  return std::make_unique<DepthwiseWindowConvolution>(geometry, target, blocks_of(as_size(geometry.output_channels)));
}

}  // namespace dmlcpu
