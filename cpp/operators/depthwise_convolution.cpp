// Depthwise convolution of {N, H, W, C} memory: every channel is a group of its own, and channels are the lanes. A task
// walks down a strip of output columns; the padded input rows of the window stand in a ring, each loaded once, and are
// interleaved for each output row (operators/tap_groups.h), or for two: four rows of codes serve a 3x3 filter on rows
// 0, 1, 2 and, with the filter's bytes moved by one, the next output row's on 1, 2, 3.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "operators/convolution_algorithm.h"
#include "operators/convolution_packing.h"
#include "operators/sizes.h"
#include "operators/tap_groups.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Output rows of one task: few enough to share the work, many enough to reuse the ring.
constexpr std::int64_t kLeastRowsOfTask = 4, kMostRowsOfTask = 16;
// Interleaved codes of a strip should stay in a level-1 cache.
constexpr std::int64_t kInterleavedBytes = 16384;
// Output columns that a strip has at least, where there are as many.
constexpr std::int64_t kLeastStripColumns = 8;

class DepthwiseConvolution final : public ConvolutionAlgorithm {
 public:
  DepthwiseConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(geometry),
        target_(target),
        taps_(group_taps(geometry)),
        channels_(as_size(geometry.output_channels)),
        padded_channels_(round_up(channels_, kDepthwiseLanes)) {
    const bool shared = geometry_.stride_height == 1 && geometry_.dilation_height == 1 && geometry_.kernel_height > 1;
    buffer_rows_ = shared ? std::clamp<std::int64_t>(5 - geometry_.kernel_height, 1, geometry_.output_height) : 1;
    mark_taps();
    const std::int64_t bytes_of_output = geometry_.stride_width * geometry_.output_channels * 4;
    strip_columns_ =
        std::min(std::max(kInterleavedBytes / bytes_of_output, kLeastStripColumns), geometry_.output_width);
    strips_ = divide_up(geometry_.output_width, strip_columns_);
    const std::int64_t rows_for_all =
        target.num_threads == 1
            ? kMostRowsOfTask
            : divide_up(geometry_.output_height * geometry_.batch * strips_, target.num_threads * kTasksPerThread);
    rows_of_task_ = std::clamp(rows_for_all, kLeastRowsOfTask, kMostRowsOfTask);
    bands_ = divide_up(geometry_.output_height, rows_of_task_);
    participants_ = static_cast<int>(std::min<std::int64_t>(target.num_threads, geometry_.batch * strips_ * bands_));
    ring_rows_ = (geometry_.kernel_height - 1) * geometry_.dilation_height + buffer_rows_;

    row_bytes_ = as_size(columns_read(strip_columns_)) * channels_;
    buffer_bytes_ = round_up(row_bytes_ * 4 + kDepthwiseLanes * 4, kAlignment);
    BufferLayout layout;
    rows_ = layout.take(as_size(ring_rows_), row_bytes_);
    interleaved_ = layout.take(taps_.buffers.size(), buffer_bytes_);
    participant_size_ = layout.size();

    for (const TapGroups::Group& group : taps_.groups) {
      const std::int64_t column = group.taps[0].column - taps_.buffers[group.buffer].taps[0].column;
      offsets_.push_back(group.buffer * buffer_bytes_ + as_size(column * geometry_.dilation_width) * channels_ * 4);
    }
  }

  std::size_t packed_filter_size() const override { return sums_offset() + channels_ * sizeof(std::int32_t); }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + sums_offset());
  }
  std::size_t scratch_size() const override { return as_size(participants_) * participant_size_; }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override;
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  // Columns of the padded input that count outputs of one row read.
  std::int64_t columns_read(std::int64_t count) const {
    return window_extent(count, geometry_.stride_width, geometry_.kernel_width, geometry_.dilation_width);
  }
  // The filter of each output row of a buffer: groups of four codes for each channel.
  std::size_t filter_bytes() const { return taps_.groups.size() * padded_channels_ * 4; }
  std::size_t sums_offset() const { return round_up(as_size(buffer_rows_) * filter_bytes(), kAlignment); }

  void mark_taps();
  void run_strip(const ConvolutionDispatch& dispatch, std::int64_t image, std::int64_t first_column,
                 std::int64_t first_row, std::int64_t end_row, std::uint8_t* own) const noexcept;
  void interleave(std::int64_t top, std::int64_t outputs, std::uint8_t* own) const noexcept;
  void convolve(const ConvolutionDispatch& dispatch, std::int64_t row_of_buffer, std::int64_t columns,
                const std::uint8_t* own, std::uint8_t* output) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  TapGroups taps_;
  std::size_t channels_, padded_channels_;
  std::int64_t buffer_rows_;            // output rows that interleaved buffers serve
  std::vector<std::int8_t> tap_marks_;  // of each of them, 1 for each byte of a group that is a tap
  int participants_ = 1;
  std::int64_t strip_columns_, strips_, rows_of_task_, bands_, ring_rows_;
  std::size_t row_bytes_, buffer_bytes_;
  // Offsets into a participant's scratch memory.
  std::size_t rows_, interleaved_, participant_size_;
  std::vector<std::size_t> offsets_;  // of each group, in the interleaved buffers
};

void DepthwiseConvolution::mark_taps() {
  const std::size_t groups = taps_.groups.size();
  tap_marks_.assign(as_size(buffer_rows_) * groups * 4, 0);
  for (std::size_t row = 0; row < as_size(buffer_rows_); ++row) {
    for (std::size_t group = 0; group < groups; ++group) {
      for (std::size_t i = 0; i + row < 4; ++i) {
        if (taps_.groups[group].taps[i].row >= 0) tap_marks_[(row * groups + group) * 4 + i + row] = 1;
      }
    }
  }
}

void DepthwiseConvolution::pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const {
  auto* sums = reinterpret_cast<std::int32_t*>(packed + sums_offset());
  std::memset(packed, 0, packed_filter_size());
  for (std::size_t channel = 0; channel < channels_; ++channel) {
    const std::uint8_t* of_channel = filter + static_cast<std::int64_t>(channel) * geometry_.filter.n;
    for (std::size_t group = 0; group < taps_.groups.size(); ++group) {
      std::uint8_t* codes = packed + (group * padded_channels_ + channel) * 4;
      for (std::size_t i = 0; i < 4; ++i) {
        const Tap& tap = taps_.groups[group].taps[i];
        if (tap.row < 0) continue;
        const auto code = static_cast<std::uint8_t>(
            of_channel[tap.row * geometry_.filter.h + tap.column * geometry_.filter.w] ^ flip);
        for (std::size_t row = 0; row < as_size(buffer_rows_); ++row) codes[row * filter_bytes() + i + row] = code;
        sums[channel] += static_cast<std::int8_t>(code);
      }
    }
  }
}

void DepthwiseConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  const std::size_t tasks = as_size(geometry_.batch * strips_ * bands_);
  parallel_for(tasks, target_.num_threads, [&](std::size_t task, int slot) noexcept {
    const auto index = static_cast<std::int64_t>(task);
    const std::int64_t first_row = index % bands_ * rows_of_task_;
    run_strip(dispatch, index / bands_ / strips_, index / bands_ % strips_ * strip_columns_, first_row,
              std::min(first_row + rows_of_task_, geometry_.output_height),
              scratch + as_size(slot) * participant_size_);
  });
}

void DepthwiseConvolution::run_strip(const ConvolutionDispatch& dispatch, std::int64_t image, std::int64_t first_column,
                                     std::int64_t first_row, std::int64_t end_row, std::uint8_t* own) const noexcept {
  const std::int64_t columns = std::min(strip_columns_, geometry_.output_width - first_column);
  std::int64_t loaded = first_row * geometry_.stride_height;  // padded rows before this one are in the ring
  const PlaneStrides& strides = geometry_.output;
  for (std::int64_t row = first_row; row < end_row; row += buffer_rows_) {
    const std::int64_t top = row * geometry_.stride_height;
    for (loaded = std::max(loaded, top); loaded < top + ring_rows_; ++loaded) {
      pack_padded_row(geometry_, *target_.kernels().pack, dispatch.source, image, loaded,
                      first_column * geometry_.stride_width, columns_read(columns),
                      own + rows_ + as_size(loaded % ring_rows_) * row_bytes_);
    }
    interleave(top, columns, own);
    for (std::int64_t i = 0; i < std::min(buffer_rows_, end_row - row); ++i) {
      convolve(dispatch, i, columns, own,
               dispatch.output +
                   geometry_.output_bytes * (image * strides.n + (row + i) * strides.h + first_column * strides.w));
    }
  }
}

void DepthwiseConvolution::interleave(std::int64_t top, std::int64_t outputs, std::uint8_t* own) const noexcept {
  const std::int64_t columns = columns_read(outputs);
  for (std::size_t buffer = 0; buffer < taps_.buffers.size(); ++buffer) {
    InterleaveRun run = {.rows = {}, .count = 0, .output = own + interleaved_ + buffer * buffer_bytes_};
    std::int64_t furthest = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const Tap& tap = taps_.buffers[buffer].taps[i];
      // A row that is no tap of the first output row may be one of the next: rows follow each other there.
      const std::int64_t next =
          buffer_rows_ > 1 ? std::min<std::int64_t>(static_cast<std::int64_t>(i), ring_rows_ - 1) : 0;
      const std::int64_t row = top + (tap.row >= 0 ? tap.row * geometry_.dilation_height : next);
      const std::int64_t column = tap.row < 0 ? 0 : tap.column * geometry_.dilation_width;
      run.rows[i] = own + rows_ + as_size(row % ring_rows_) * row_bytes_ + as_size(column) * channels_;
      furthest = std::max(furthest, column);
    }
    run.count = as_size(columns - furthest) * channels_;
    target_.kernels().pack->interleave(run);
  }
}

void DepthwiseConvolution::convolve(const ConvolutionDispatch& dispatch, std::int64_t row_of_buffer,
                                    std::int64_t columns, const std::uint8_t* own,
                                    std::uint8_t* output) const noexcept {
  const std::size_t groups = taps_.groups.size(), row = as_size(row_of_buffer);
  target_.kernels().depthwise->convolve(
      {.activations = own + interleaved_,
       .pixel_step = as_size(geometry_.stride_width) * channels_ * 4,
       .offsets = offsets_.data(),
       .groups = groups,
       .filter = reinterpret_cast<const std::int8_t*>(dispatch.filter) + row * filter_bytes(),
       .taps = tap_marks_.data() + row * groups * 4,
       .pixels = as_size(columns),
       .channels = channels_,
       .offset = dispatch.offset,
       .multiplier = dispatch.multiplier,
       .filter_zero_point = dispatch.filter_zero_point,
       .output_zero_point = dispatch.output_zero_point,
       .flip = dispatch.output_flip,
       .output = geometry_.ends_in_sums() ? nullptr : output,
       .output_pixel_stride = as_size(geometry_.output.w),
       .sums = geometry_.ends_in_sums() ? reinterpret_cast<std::int32_t*>(output) : nullptr});
}

std::string DepthwiseConvolution::describe() const {
  return "algorithm: depthwise, channels as lanes\ntaps: " + std::to_string(geometry_.reduction()) + " in " +
         std::to_string(taps_.groups.size()) + " groups of four, from " + std::to_string(taps_.buffers.size()) +
         " interleaved buffers\ntile: strips of " + std::to_string(strip_columns_) + " output columns, " +
         std::to_string(rows_of_task_) + " rows a task, on " + std::to_string(participants_) + " threads";
}

}  // namespace

bool depthwise_applies(const ConvolutionGeometry& geometry) {
  if (geometry.group_input_channels() != 1 || geometry.group_output_channels() != 1) return false;
  constexpr std::int64_t kMostTaps = 4096;
  if (geometry.kernel_height > kMostTaps || geometry.kernel_width > kMostTaps || geometry.reduction() > kMostTaps) {
    return false;
  }
  // In floating point: sizes of absurd descs overflow integers.
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double kernel_height = number(geometry.kernel_height), kernel_width = number(geometry.kernel_width);
  const double stride_width = number(geometry.stride_width), dilation_width = number(geometry.dilation_width);
  const double dilation_height = number(geometry.dilation_height), output_width = number(geometry.output_width);
  const double channels = number(geometry.output_channels);

  // The rows of a strip and their interleaved copies.
  constexpr double kMostBytes = 1 << 25;
  const double strip = std::min(
      std::max(number(kInterleavedBytes) / (stride_width * channels * 4.0), number(kLeastStripColumns)), output_width);
  const double rows =
      window_extent(1.0, 1.0, kernel_height, dilation_height) + 3.0 + 4.0 * (kernel_height + kernel_width);
  if (window_extent(strip, stride_width, kernel_width, dilation_width) * channels * rows >= kMostBytes) return false;

  // Codes between the taps of windows far apart are loaded as well.
  constexpr double kMostWaste = 16.0;
  const double read =
      window_extent(number(geometry.output_height), number(geometry.stride_height), kernel_height, dilation_height) *
      window_extent(output_width, stride_width, kernel_width, dilation_width);
  return read <= kMostWaste * number(geometry.image_pixels()) * kernel_height * kernel_width;
}

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_convolution(const ConvolutionGeometry& geometry, std::uint8_t,
                                                                 const ExecutionTarget& target) {
  return std::make_unique<DepthwiseConvolution>(geometry, target);
}

}  // namespace dmlcpu
