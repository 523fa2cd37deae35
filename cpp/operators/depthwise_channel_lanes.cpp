// Depthwise convolution with channels as lanes. A task walks down a strip of output columns; the padded input rows of
// the window stand in a ring, each loaded once, and each output row interleaves the rows of its window anew.
#include <algorithm>
#include <cstring>

#include "operators/depthwise_convolution.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Output rows of one task: few enough to share the work, many enough to reuse the ring.
constexpr std::int64_t kRowsOfTask = 16;

class ChannelLanes final : public DepthwiseConvolution {
 public:
  ChannelLanes(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : DepthwiseConvolution(geometry, target, true, 1) {
    const std::int64_t bytes_of_output = geometry_.stride_width * geometry_.output_channels * 4;
    strip_columns_ =
        std::min(std::max(kInterleavedBytes / bytes_of_output, kLeastStripColumns), geometry_.output_width);
    strips_ = divide_up(geometry_.output_width, strip_columns_);
    bands_ = divide_up(geometry_.output_height, kRowsOfTask);
    participants_ = static_cast<int>(std::min<std::int64_t>(target.num_threads, geometry_.batch * strips_ * bands_));
    ring_rows_ = (geometry_.kernel_height - 1) * geometry_.dilation_height + 1;

    const std::size_t columns = as_size(columns_read(strip_columns_));
    row_bytes_ = columns * channels_;
    buffer_bytes_ = round_up(row_bytes_ * 4 + kDepthwiseLanes * 4, kAlignment);
    sums_row_ = padded_channels_;
    BufferLayout layout;
    rows_ = layout.take(as_size(ring_rows_), row_bytes_);
    interleaved_ = layout.take(taps_.buffers.size(), buffer_bytes_);
    sums_ = layout.take(as_size(strip_columns_) * sums_row_, sizeof(std::int32_t));
    window_sums_ = layout.take(as_size(strip_columns_) * sums_row_, sizeof(std::int32_t));
    codes_ = layout.take(as_size(strip_columns_), channels_);
    participant_size_ = layout.size();

    for (const TapGroups::Group& group : taps_.groups) {
      const std::int64_t column = group.taps[0].column - taps_.buffers[group.buffer].taps[0].column;
      offsets_.push_back(group.buffer * buffer_bytes_ + as_size(column * geometry_.dilation_width) * channels_ * 4);
    }
  }

  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override {
    const std::size_t tasks = as_size(geometry_.batch * strips_ * bands_);
    parallel_for(tasks, target_.num_threads, [&](std::size_t task, int slot) noexcept {
      const auto index = static_cast<std::int64_t>(task);
      const std::int64_t first_row = index % bands_ * kRowsOfTask;
      run_strip(dispatch, index / bands_ / strips_, index / bands_ % strips_ * strip_columns_, first_row,
                std::min(first_row + kRowsOfTask, geometry_.output_height),
                scratch + as_size(slot) * participant_size_);
    });
  }

  std::string describe() const override {
    return "algorithm: depthwise, lanes are channels (the output's channels are neighbours)" + describe_groups() +
           "\ntile: strips of " + std::to_string(strip_columns_) + " output columns, " + std::to_string(kRowsOfTask) +
           " rows a task, on " + std::to_string(participants_) + " threads";
  }

 private:
  void run_strip(const ConvolutionDispatch& dispatch, std::int64_t image, std::int64_t first_column,
                 std::int64_t first_row, std::int64_t end_row, std::uint8_t* own) const {
    const std::int64_t columns = std::min(strip_columns_, geometry_.output_width - first_column);
    std::int64_t loaded = first_row * geometry_.stride_height;  // padded rows before this one are in the ring
    for (std::int64_t row = first_row; row < end_row; ++row) {
      const std::int64_t top = row * geometry_.stride_height;
      for (loaded = std::max(loaded, top); loaded < top + ring_rows_; ++loaded) {
        load_row(dispatch.source, image, loaded, first_column, columns,
                 own + rows_ + as_size(loaded % ring_rows_) * row_bytes_);
      }
      interleave(top, columns, own);
      accumulate(dispatch, columns, own);
      store(dispatch, image, row, first_column, columns, own);
    }
  }

  // One padded input row, the columns that the strip's outputs read, channels together, as unsigned codes.
  void load_row(const ActivationSource& source, std::int64_t image, std::int64_t padded_row, std::int64_t first_column,
                std::int64_t outputs, std::uint8_t* target) const {
    const std::int64_t channels = geometry_.output_channels, count = columns_read(outputs);
    const std::int64_t row = padded_row - geometry_.padding_top;
    const std::int64_t column = first_column * geometry_.stride_width - geometry_.padding_left;
    std::int64_t begin = std::clamp<std::int64_t>(-column, 0, count);
    std::int64_t end = std::clamp<std::int64_t>(geometry_.input_width - column, begin, count);
    if (row < 0 || row >= geometry_.input_height) begin = end = count;
    std::memset(target, source.zero_point, as_size(begin * channels));
    std::memset(target + end * channels, source.zero_point, as_size((count - end) * channels));
    if (begin == end) return;
    const PackKernels& pack = *target_.kernels().pack;
    const std::uint8_t* first =
        source.data + image * geometry_.input.n + row * geometry_.input.h + (column + begin) * geometry_.input.w;
    if (geometry_.input.c == 1 && geometry_.input.w == channels) {
      pack.copy(first, as_size((end - begin) * channels), source.flip, target + begin * channels);
      return;
    }
    for (std::int64_t i = begin; i < end; ++i, first += geometry_.input.w) {
      for (std::int64_t c = 0; c < channels; ++c) {
        target[i * channels + c] = static_cast<std::uint8_t>(first[c * geometry_.input.c] ^ source.flip);
      }
    }
  }

  void interleave(std::int64_t top, std::int64_t outputs, std::uint8_t* own) const {
    const std::int64_t columns = columns_read(outputs);
    for (std::size_t buffer = 0; buffer < taps_.buffers.size(); ++buffer) {
      InterleaveRun run = interleaved_buffer(own + interleaved_ + buffer * buffer_bytes_, 0);
      std::int64_t furthest = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        const Tap& tap = taps_.buffers[buffer].taps[i];
        const std::int64_t row = top + std::max<std::int64_t>(tap.row, 0) * geometry_.dilation_height;
        const std::int64_t column = tap.row < 0 ? 0 : tap.column * geometry_.dilation_width;
        run.rows[i] = own + rows_ + as_size(row % ring_rows_) * row_bytes_ + as_size(column) * channels_;
        furthest = std::max(furthest, column);
      }
      run.count = as_size(columns - furthest) * channels_;
      target_.kernels().pack->interleave(run);
    }
  }

  void accumulate(const ConvolutionDispatch& dispatch, std::int64_t columns, std::uint8_t* own) const {
    auto* sums = reinterpret_cast<std::int32_t*>(own + sums_);
    auto* window_sums = reinterpret_cast<std::int32_t*>(own + window_sums_);
    DepthwiseRun run = {.activations = own + interleaved_,
                        .pixel_step = as_size(geometry_.stride_width) * channels_ * 4,
                        .offsets = offsets_.data(),
                        .groups = taps_.groups.size(),
                        .filter = reinterpret_cast<const std::int8_t*>(dispatch.filter),
                        .sums = sums,
                        .sums_row_stride = sums_row_,
                        .pixels = as_size(columns),
                        .lanes = channels_};
    target_.kernels().depthwise->channel_lanes(run);
    if (dispatch.filter_zero_point == nullptr) return;
    run.filter = reinterpret_cast<const std::int8_t*>(ones_.data());
    run.sums = window_sums;
    target_.kernels().depthwise->channel_lanes(run);
    for (std::size_t column = 0; column < as_size(columns); ++column) {
      subtract_zero_points(sums + column * sums_row_, window_sums + column * sums_row_, dispatch.filter_zero_point, 1,
                           channels_);
    }
  }

  void store(const ConvolutionDispatch& dispatch, std::int64_t image, std::int64_t row, std::int64_t first_column,
             std::int64_t columns, std::uint8_t* own) const {
    const PlaneStrides& strides = geometry_.output;
    std::uint8_t* output = dispatch.output + image * strides.n + row * strides.h + first_column * strides.w;
    const bool direct = strides.c == 1 || channels_ == 1;
    std::uint8_t* codes = own + codes_;
    target_.kernels().requantize->pixel_rows({.accumulators = reinterpret_cast<const std::int32_t*>(own + sums_),
                                              .accumulator_row_stride = sums_row_,
                                              .output = direct ? output : codes,
                                              .output_row_stride = direct ? as_size(strides.w) : channels_,
                                              .rows = as_size(columns),
                                              .columns = channels_,
                                              .offset = dispatch.offset,
                                              .multiplier = dispatch.multiplier,
                                              .filter_zero_point = nullptr,
                                              .activation_sum = nullptr,
                                              .output_zero_point = dispatch.output_zero_point,
                                              .flip = dispatch.output_flip});
    for (std::int64_t column = 0; !direct && column < columns; ++column) {
      for (std::size_t c = 0; c < channels_; ++c) {
        output[column * strides.w + static_cast<std::int64_t>(c) * strides.c] = codes[as_size(column) * channels_ + c];
      }
    }
  }

  std::int64_t strip_columns_, strips_, bands_, ring_rows_;
  std::size_t row_bytes_, buffer_bytes_, sums_row_;
  std::size_t rows_, interleaved_, sums_, window_sums_, codes_;
  std::vector<std::size_t> offsets_;
};

}  // namespace

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_channel_lanes(const ConvolutionGeometry& geometry,
                                                                   const ExecutionTarget& target) {
  return std::make_unique<ChannelLanes>(geometry, target);
}

}  // namespace dmlcpu
