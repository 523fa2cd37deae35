// Depthwise convolution of {N, H, W, C} memory: every channel is a group of its own, and channels are the lanes. A task
// walks down a strip of output columns (operators/convolution/padded_strips.h), whose rows are interleaved for each
// output row (operators/convolution/tap_groups.h), or for two: four rows of codes serve a 3x3 filter on rows 0, 1, 2
// and, with the filter's bytes moved by one, the next output row's on 1, 2, 3. Of large windows with stride 2 pairs of
// rows are interleaved once for all, and stand in a ring themselves.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/padded_strips.h"
#include "operators/convolution/tap_groups.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Interleaved codes of a strip should stay in a level-1 cache.
constexpr std::int64_t kInterleavedBytes = 16384;
// Output columns that a strip has at least, where there are as many, and where neighbours interleave many columns that
// both read; then the codes of all buffers should stay in a level-2 cache.
constexpr std::int64_t kLeastStripColumns = 8, kEnoughStripColumns = 64;
constexpr double kInterleavedBytesOfAll = 1 << 20;

double interleaved_buffers(const ConvolutionGeometry& geometry) {
  return as_number(divide_up(geometry.kernel_height, 4));
}

// Twice as many outputs as strips have columns in common.
std::int64_t least_strip_columns(const ConvolutionGeometry& geometry) {
  const double least = as_number(kLeastStripColumns), enough = as_number(kEnoughStripColumns);
  const double shared = as_number(geometry.kernel_width - 1) * as_number(geometry.dilation_width);
  const double bytes_of_output =
      as_number(geometry.stride_width) * as_number(geometry.output_channels) * 4.0 * interleaved_buffers(geometry);
  const double most = std::clamp(kInterleavedBytesOfAll / bytes_of_output, least, enough);
  return static_cast<std::int64_t>(std::clamp(2.0 * shared / as_number(geometry.stride_width), least, most));
}

// Output rows that one state of the interleaved buffers serves.
std::int64_t rows_of_buffer(const ConvolutionGeometry& geometry) {
  const bool shared = geometry.stride_height == 1 && geometry.dilation_height == 1 && geometry.kernel_height > 1;
  return shared ? std::clamp<std::int64_t>(5 - geometry.kernel_height, 1, geometry.output_height) : 1;
}

// Of pairs, the ring has only those rows that are interleaved next.
std::int64_t rows_of_ring(const ConvolutionGeometry& geometry, const TapGroups& taps) {
  if (taps.pairs) return 2;
  return window_extent<std::int64_t>(rows_of_buffer(geometry), 1, geometry.kernel_height, geometry.dilation_height);
}

// The geometry of what is read: of pairs, whole ones.
ConvolutionGeometry geometry_read(const ConvolutionGeometry& geometry, const TapGroups& taps) {
  ConvolutionGeometry read = geometry;
  if (taps.pairs) read.kernel_width += read.kernel_width % 2;
  return read;
}

std::int64_t columns_of_strip(const ConvolutionGeometry& geometry, const TapGroups& taps) {
  const std::int64_t bytes_of_output = geometry.stride_width * geometry.output_channels * 4;
  const std::int64_t columns = std::max(kInterleavedBytes / bytes_of_output, least_strip_columns(geometry));
  // Kernels take four pixels at a time where a window has more groups than they hold filters of.
  const std::int64_t multiple = taps.groups.size() > 3 ? 4 : 1;
  return std::min(divide_up(columns, multiple) * multiple, geometry.output_width);
}

class DepthwiseConvolution final : public ConvolutionAlgorithm {
 public:
  DepthwiseConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(geometry),
        target_(target),
        taps_(group_taps(geometry)),
        channels_(as_size(geometry.output_channels)),
        padded_channels_(round_up(channels_, kDepthwiseLanes)),
        buffer_rows_(rows_of_buffer(geometry)),
        strips_(geometry_read(geometry, taps_), target.num_threads, columns_of_strip(geometry, taps_), buffer_rows_,
                rows_of_ring(geometry, taps_)) {
    mark_taps();
    buffer_bytes_ = round_up(strips_.ring().row_bytes() * (taps_.pairs ? 2 : 4) + kDepthwiseLanes * 4, kAlignment);
    BufferLayout layout;
    ring_ = layout.take(strips_.ring().bytes());
    interleaved_ = layout.take(taps_.buffers.size(), buffer_bytes_);
    participant_size_ = layout.size();

    // Buffers of pairs are a ring as well, the first of an output row anywhere in it.
    const std::size_t buffers = taps_.buffers.size();
    for (std::size_t first = 0; first < (taps_.pairs ? buffers : 1); ++first) {
      for (const TapGroups::Group& group : taps_.groups) {
        const std::int64_t columns = group.taps[0].column - taps_.buffers[group.buffer].taps[0].column;
        const std::int64_t pixels = taps_.pairs ? columns / 2 : columns * geometry_.dilation_width;
        offsets_.push_back((group.buffer + first) % buffers * buffer_bytes_ + as_size(pixels) * channels_ * 4);
      }
    }
  }

  std::size_t packed_filter_size() const override { return sums_offset() + channels_ * sizeof(std::int32_t); }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + sums_offset());
  }
  std::size_t channels_at_once() const override { return kDepthwiseLanes; }
  std::size_t scratch_size() const override { return as_size(strips_.participants()) * participant_size_; }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override;
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  // The filter of each output row of a buffer: groups of four codes for each channel.
  std::size_t filter_bytes() const { return taps_.groups.size() * padded_channels_ * 4; }
  std::size_t sums_offset() const { return round_up(as_size(buffer_rows_) * filter_bytes(), kAlignment); }

  void mark_taps();
  void run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task, std::uint8_t* own) const noexcept;
  void interleave(std::int64_t top, std::int64_t outputs, std::uint8_t* own) const noexcept;
  std::int64_t interleave_pairs(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task, std::int64_t row,
                                std::int64_t loaded, std::uint8_t* own) const noexcept;
  void interleave_pair(std::int64_t pair, std::int64_t outputs, std::uint8_t* own) const noexcept;
  void convolve(const ConvolutionDispatch& dispatch, std::int64_t first_row, std::int64_t row_of_buffer,
                std::int64_t columns, const std::uint8_t* own, std::uint8_t* output) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  TapGroups taps_;
  std::size_t channels_, padded_channels_;
  std::int64_t buffer_rows_;  // output rows that interleaved buffers serve
  PaddedStrips strips_;
  std::vector<std::int8_t> tap_marks_;  // of each of them, 1 for each byte of a group that is a tap
  std::size_t buffer_bytes_;
  // Offsets into a participant's scratch memory.
  std::size_t ring_, interleaved_, participant_size_;
  std::vector<std::size_t> offsets_;  // of each group, in the interleaved buffers; of pairs for each first buffer
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
  parallel_for(strips_.tasks(), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    run_task(dispatch, strips_.task(task), scratch + as_size(slot) * participant_size_);
  });
}

void DepthwiseConvolution::run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task,
                                    std::uint8_t* own) const noexcept {
  std::int64_t loaded = 0;
  const PlaneStrides& strides = geometry_.output;
  for (std::int64_t row = task.first_row; row < task.end_row; row += buffer_rows_) {
    if (taps_.pairs) {
      loaded = interleave_pairs(dispatch, task, row, loaded, own);
    } else {
      const std::int64_t top = row * geometry_.stride_height;
      loaded = strips_.load(dispatch.source, *target_.kernels().pack, task, top, loaded, own + ring_);
      interleave(top, task.columns, own);
    }
    for (std::int64_t i = 0; i < std::min(buffer_rows_, task.end_row - row); ++i) {
      std::uint8_t* output =
          dispatch.output +
          geometry_.output_bytes * (task.image * strides.n + (row + i) * strides.h + task.first_column * strides.w);
      convolve(dispatch, row, i, task.columns, own, output);
      if (dispatch.epilogue != nullptr) dispatch.epilogue->apply(output, as_size(task.columns), channels_, channels_);
    }
  }
}

void DepthwiseConvolution::interleave(std::int64_t top, std::int64_t outputs, std::uint8_t* own) const noexcept {
  const std::int64_t columns = strips_.columns_read(outputs);
  for (std::size_t buffer = 0; buffer < taps_.buffers.size(); ++buffer) {
    InterleaveRun run = {.rows = {}, .count = 0, .output = own + interleaved_ + buffer * buffer_bytes_};
    std::int64_t furthest = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const Tap& tap = taps_.buffers[buffer].taps[i];
      // A row that is no tap of the first output row may be one of the next: rows follow each other there.
      const std::int64_t next =
          buffer_rows_ > 1 ? std::min<std::int64_t>(static_cast<std::int64_t>(i), strips_.ring().rows() - 1) : 0;
      const std::int64_t row = top + (tap.row >= 0 ? tap.row * geometry_.dilation_height : next);
      const std::int64_t column = tap.row < 0 ? 0 : tap.column * geometry_.dilation_width;
      run.rows[i] = own + ring_ + strips_.ring().offset(row) + as_size(column) * channels_;
      furthest = std::max(furthest, column);
    }
    run.count = as_size(columns - furthest) * channels_;
    target_.kernels().pack->interleave(run);
  }
}

// Output row r reads pairs r, r + 1, ...: loads and interleaves those from padded row `loaded` on; returns the end of
// what is interleaved then. A task begins with 0.
std::int64_t DepthwiseConvolution::interleave_pairs(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task,
                                                    std::int64_t row, std::int64_t loaded,
                                                    std::uint8_t* own) const noexcept {
  const std::int64_t end = 2 * (row + static_cast<std::int64_t>(taps_.buffers.size()));
  loaded = std::max(loaded, 2 * row);
  while (loaded < end) {
    const std::int64_t pair = loaded / 2;
    loaded = strips_.load(dispatch.source, *target_.kernels().pack, task, loaded, loaded, own + ring_);
    interleave_pair(pair, task.columns, own);
  }
  return loaded;
}

// Rows 2 * pair and the next one of the padded input, which stand in the ring, for the outputs of a strip.
void DepthwiseConvolution::interleave_pair(std::int64_t pair, std::int64_t outputs, std::uint8_t* own) const noexcept {
  const std::uint8_t *upper = own + ring_, *lower = upper + strips_.ring().row_bytes();
  std::uint8_t* output = own + interleaved_ + as_size(pair) % taps_.buffers.size() * buffer_bytes_;
  for (std::int64_t column = 0; column < strips_.columns_read(outputs); column += 2) {
    target_.kernels().pack->interleave(
        {.rows = {upper, upper + channels_, lower, lower + channels_}, .count = channels_, .output = output});
    upper += 2 * channels_;
    lower += 2 * channels_;
    output += 4 * channels_;
  }
}

void DepthwiseConvolution::convolve(const ConvolutionDispatch& dispatch, std::int64_t first_row,
                                    std::int64_t row_of_buffer, std::int64_t columns, const std::uint8_t* own,
                                    std::uint8_t* output) const noexcept {
  const std::size_t groups = taps_.groups.size(), row = as_size(row_of_buffer);
  const std::size_t first_buffer = taps_.pairs ? as_size(first_row) % taps_.buffers.size() : 0;
  target_.kernels().depthwise->convolve(
      {.activations = own + interleaved_,
       .pixel_step = as_size(taps_.pairs ? 1 : geometry_.stride_width) * channels_ * 4,
       .offsets = offsets_.data() + first_buffer * groups,
       .groups = groups,
       .filter = reinterpret_cast<const std::int8_t*>(dispatch.filter) + row * filter_bytes(),
       .taps = tap_marks_.data() + row * groups * 4,
       .pixels = as_size(columns),
       .channels = channels_,
       .offset = dispatch.channels.offset,
       .multiplier = dispatch.channels.multiplier,
       .filter_zero_point = dispatch.channels.filter_zero_point,
       .output_zero_point = dispatch.output_zero_point,
       .flip = dispatch.output_flip,
       .output = geometry_.ends_in_sums() ? nullptr : output,
       .output_pixel_stride = as_size(geometry_.output.w),
       .sums = geometry_.ends_in_sums() ? reinterpret_cast<std::int32_t*>(output) : nullptr});
}

std::string DepthwiseConvolution::describe() const {
  return "algorithm: depthwise, channels as lanes\nkernel: " + kernel_words(target_, "depthwise") +
         ", four taps a step\nwhy: every channel is a group of its own, and its product would have one column\ntaps: " +
         std::to_string(geometry_.reduction()) + " in " +
         counted(static_cast<std::int64_t>(taps_.groups.size()), "group") + " of four, from " +
         counted(static_cast<std::int64_t>(taps_.buffers.size()), "interleaved buffer") +
         "\ntile: " + strips_.describe();
}

}  // namespace

bool depthwise_applies(const ConvolutionGeometry& geometry, const ExecutionTarget&) {
  if (geometry.group_input_channels() != 1 || geometry.group_output_channels() != 1) return false;
  const double kernel_height = as_number(geometry.kernel_height);
  const double bytes_of_output = as_number(geometry.stride_width) * as_number(geometry.output_channels) * 4.0;
  // Rounded up to a multiple of four.
  const double columns = std::max(as_number(kInterleavedBytes) / bytes_of_output, as_number(kLeastStripColumns)) + 3.0;
  const double strip = std::min(columns, as_number(geometry.output_width));
  // The rows of a strip and their interleaved copies.
  const double rows = window_extent(1.0, 1.0, kernel_height, as_number(geometry.dilation_height)) + 3.0 +
                      4.0 * interleaved_buffers(geometry);
  return PaddedStrips::applies(geometry, strip, rows);
}

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_convolution(const ConvolutionGeometry& geometry,
                                                                 const ExecutionTarget& target) {
  if (depthwise_window_applies(geometry, target)) return make_depthwise_window_convolution(geometry, target);
  return std::make_unique<DepthwiseConvolution>(geometry, target);
}

}  // namespace dmlcpu
