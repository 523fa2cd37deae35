// Depthwise convolution of {N, H, W, C} memory: every channel is a group of its own, and channels are the lanes. A task
// walks down a strip of output columns (operators/convolution/padded/padded_strips.h), and kernels take four taps of a
// window in a step, whose codes are interleaved (operators/convolution/direct/interleaved_taps.h).
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/direct/interleaved_taps.h"
#include "operators/convolution/padded/padded_strips.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Outputs that stages follow together, of several rows where these are short, while they are in the level-1 cache.
constexpr std::int64_t kOutputsBeforeStages = 4096;

class DepthwiseConvolution final : public ConvolutionAlgorithm {
 public:
  DepthwiseConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(geometry),
        target_(target),
        channels_(as_size(geometry.output_channels)),
        padded_channels_(round_up(channels_, kDepthwiseLanes)),
        interleaved_(geometry, target),
        output_rows_(as_size(interleaved_.rows_of_buffer())),
        taps_present_(taps_present()) {}

  std::size_t packed_filter_size() const override { return sums_offset() + channels_ * sizeof(std::int32_t); }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + sums_offset());
  }
  std::size_t channels_at_once() const override { return kDepthwiseLanes; }
  std::size_t scratch_size() const override {
    return as_size(interleaved_.strips().participants()) * interleaved_.memory_bytes();
  }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override;
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  // A packed filter for each output row of a buffer: a group of four codes of each channel, and then of the next group.
  std::size_t filter_bytes() const { return groups().size() * padded_channels_ * 4; }
  std::size_t sums_offset() const { return round_up(output_rows_ * filter_bytes(), kAlignment); }
  const std::vector<TapGroups::Group>& groups() const { return interleaved_.taps().groups; }

  std::vector<std::int8_t> taps_present() const;
  void run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task,
                std::uint8_t* memory) const noexcept;
  // Outputs of one row, which is so many behind the first one of the buffers.
  void convolve(const ConvolutionDispatch& dispatch, std::int64_t first_row, std::int64_t row_of_buffer,
                std::int64_t columns, const std::uint8_t* memory, std::uint8_t* output) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  std::size_t channels_, padded_channels_;
  InterleavedTaps interleaved_;
  std::size_t output_rows_;                // of a buffer
  std::vector<std::int8_t> taps_present_;  // for each of them, 1 for each code of a group that is a tap
};

std::vector<std::int8_t> DepthwiseConvolution::taps_present() const {
  std::vector<std::int8_t> present(output_rows_ * groups().size() * 4, 0);
  for (std::size_t row = 0; row < output_rows_; ++row) {
    for (std::size_t group = 0; group < groups().size(); ++group) {
      for (std::size_t i = 0; i + row < 4; ++i) {
        if (groups()[group].taps[i].row >= 0) present[(row * groups().size() + group) * 4 + i + row] = 1;
      }
    }
  }
  return present;
}

void DepthwiseConvolution::pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const {
  auto* sums = reinterpret_cast<std::int32_t*>(packed + sums_offset());
  std::memset(packed, 0, packed_filter_size());
  for (std::size_t channel = 0; channel < channels_; ++channel) {
    const std::uint8_t* of_channel = filter + static_cast<std::int64_t>(channel) * geometry_.filter.n;
    for (std::size_t group = 0; group < groups().size(); ++group) {
      std::uint8_t* codes = packed + (group * padded_channels_ + channel) * 4;
      for (std::size_t i = 0; i < 4; ++i) {
        const Tap& tap = groups()[group].taps[i];
        if (tap.row < 0) continue;
        const auto code = static_cast<std::uint8_t>(
            of_channel[tap.row * geometry_.filter.h + tap.column * geometry_.filter.w] ^ flip);
        for (std::size_t row = 0; row < output_rows_; ++row) codes[row * filter_bytes() + i + row] = code;
        sums[channel] += static_cast<std::int8_t>(code);
      }
    }
  }
}

void DepthwiseConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  const PaddedStrips& strips = interleaved_.strips();
  parallel_for(strips.tasks(), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    run_task(dispatch, strips.task(task), scratch + as_size(slot) * interleaved_.memory_bytes());
  });
}

void DepthwiseConvolution::run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task,
                                    std::uint8_t* memory) const noexcept {
  std::int64_t loaded = 0;
  const auto rows_at_once = static_cast<std::int64_t>(output_rows_);
  const std::int64_t rows_before_stages = kOutputsBeforeStages / (task.columns * geometry_.output_channels);
  std::int64_t unfinished = task.first_row;
  for (std::int64_t row = task.first_row; row < task.end_row; row += rows_at_once) {
    loaded = interleaved_.load(dispatch.source, task, row, loaded, memory);
    const std::int64_t end = std::min(row + rows_at_once, task.end_row);
    for (std::int64_t i = 0; i < end - row; ++i) {
      convolve(dispatch, row, i, task.columns, memory, interleaved_.strips().output(dispatch, task, row + i));
    }
    if (end < task.end_row && end - unfinished < rows_before_stages) continue;
    interleaved_.strips().finish(dispatch, task, unfinished, end);
    unfinished = end;
  }
}

void DepthwiseConvolution::convolve(const ConvolutionDispatch& dispatch, std::int64_t first_row,
                                    std::int64_t row_of_buffer, std::int64_t columns, const std::uint8_t* memory,
                                    std::uint8_t* output) const noexcept {
  const std::size_t row = as_size(row_of_buffer);
  target_.kernels().depthwise->convolve(
      {.activations = interleaved_.codes(memory),
       .pixel_step = interleaved_.pixel_step(),
       .offsets = interleaved_.group_offsets(first_row),
       .groups = groups().size(),
       .filter = reinterpret_cast<const std::int8_t*>(dispatch.filter) + row * filter_bytes(),
       .taps = taps_present_.data() + row * groups().size() * 4,
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
         std::to_string(geometry_.reduction()) + " in " + counted(static_cast<std::int64_t>(groups().size()), "group") +
         " of four, from " +
         counted(static_cast<std::int64_t>(interleaved_.taps().buffers.size()), "interleaved buffer") +
         "\ntile: " + interleaved_.strips().describe();
}

}  // namespace

bool depthwise_applies(const ConvolutionGeometry& geometry, const ExecutionTarget&) {
  if (geometry.group_input_channels() != 1 || geometry.group_output_channels() != 1) return false;
  return InterleavedTaps::applies(geometry);
}

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_convolution(const ConvolutionGeometry& geometry,
                                                                 const ExecutionTarget& target) {
  if (depthwise_window_applies(geometry, target)) return make_depthwise_window_convolution(geometry, target);
  return std::make_unique<DepthwiseConvolution>(geometry, target);
}

}  // namespace dmlcpu
