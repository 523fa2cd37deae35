// Depthwise convolution with pixels as lanes: one channel of one image at a time, copied into padded planes in which
// every tap is the same distance away for every output pixel (padded_planes.h), then in bands of output rows, end to
// end.
#include <algorithm>
#include <cstring>

#include "operators/depthwise_convolution.h"
#include "operators/padded_planes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

class PixelLanes final : public DepthwiseConvolution {
 public:
  PixelLanes(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : DepthwiseConvolution(geometry, target, false, geometry.stride_width), planes_(geometry, false) {
    row_positions_ = planes_.row_positions();
    band_rows_ = std::clamp<std::int64_t>(kInterleavedBytes / (row_positions_ * 4), 1, geometry_.output_height);
    participants_ =
        static_cast<int>(std::min<std::int64_t>(target.num_threads, geometry_.batch * geometry_.output_channels));

    const std::size_t lanes = round_up(as_size(band_rows_ * row_positions_), kDepthwiseLanes);
    // Groups begin up to a row behind the first lane, and so do the taps of one kernel row in the plane.
    buffer_bytes_ = round_up((lanes + as_size(row_positions_)) * 4, kAlignment);
    BufferLayout layout;
    plane_ = layout.take(planes_.channel_bytes() + as_size(row_positions_));
    interleaved_ = layout.take(taps_.buffers.size(), buffer_bytes_);
    sums_ = layout.take(lanes, sizeof(std::int32_t));
    window_sums_ = layout.take(lanes, sizeof(std::int32_t));
    codes_ = layout.take(lanes);
    participant_size_ = layout.size();

    for (const TapGroups::Group& group : taps_.groups) {
      const std::int64_t column = position_of(group.taps[0]) - position_of(taps_.buffers[group.buffer].taps[0]);
      offsets_.push_back(group.buffer * buffer_bytes_ + as_size(column) * 4);
    }
  }

  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override {
    const std::size_t tasks = as_size(geometry_.batch) * channels_;
    parallel_for(tasks, target_.num_threads, [&](std::size_t task, int slot) noexcept {
      run_channel(dispatch, static_cast<std::int64_t>(task / channels_), static_cast<std::int64_t>(task % channels_),
                  scratch + as_size(slot) * participant_size_);
    });
  }

  std::string describe() const override {
    return "algorithm: depthwise, lanes are pixels (the output's pixels are neighbours)" + describe_groups() +
           "\ntile: bands of " + std::to_string(band_rows_) + " output rows of one channel, on " +
           std::to_string(participants_) + " threads";
  }

 private:
  // The column of a tap among those of its remainder of the stride.
  std::int64_t position_of(const Tap& tap) const {
    return tap.column * geometry_.dilation_width / geometry_.stride_width;
  }

  void run_channel(const ConvolutionDispatch& dispatch, std::int64_t image, std::int64_t channel,
                   std::uint8_t* own) const {
    planes_.fill_channel(dispatch.source, *target_.kernels().pack, image, channel, own + plane_);
    for (std::int64_t row = 0; row < geometry_.output_height; row += band_rows_) {
      const std::int64_t rows = std::min(band_rows_, geometry_.output_height - row);
      interleave(row, rows, own);
      accumulate(dispatch, channel, rows, own);
      store(dispatch, image, channel, row, rows, own);
    }
  }

  void interleave(std::int64_t first_row, std::int64_t rows, std::uint8_t* own) const {
    const std::uint8_t* band = own + plane_ + as_size(first_row * row_positions_);
    for (std::size_t buffer = 0; buffer < taps_.buffers.size(); ++buffer) {
      InterleaveRun run =
          interleaved_buffer(own + interleaved_ + buffer * buffer_bytes_, as_size(rows * row_positions_));
      for (std::size_t i = 0; i < 4; ++i) {
        const Tap& tap = taps_.buffers[buffer].taps[i];
        run.rows[i] = tap.row < 0 ? band : band + planes_.tap_offset(tap.row, tap.column);
      }
      target_.kernels().pack->interleave(run);
    }
  }

  void accumulate(const ConvolutionDispatch& dispatch, std::int64_t channel, std::int64_t rows,
                  std::uint8_t* own) const {
    auto* sums = reinterpret_cast<std::int32_t*>(own + sums_);
    auto* window_sums = reinterpret_cast<std::int32_t*>(own + window_sums_);
    DepthwiseRun run = {
        .activations = own + interleaved_,
        .pixel_step = 0,
        .offsets = offsets_.data(),
        .groups = taps_.groups.size(),
        .filter = reinterpret_cast<const std::int8_t*>(dispatch.filter) + filter_index(0, as_size(channel)),
        .sums = sums,
        .sums_row_stride = 0,
        .pixels = 1,
        .lanes = as_size(rows * row_positions_)};
    target_.kernels().depthwise->pixel_lanes(run);
    if (dispatch.filter_zero_point == nullptr) return;
    run.filter = reinterpret_cast<const std::int8_t*>(ones_.data());
    run.sums = window_sums;
    target_.kernels().depthwise->pixel_lanes(run);
    subtract_zero_points(sums, window_sums, dispatch.filter_zero_point + channel, 0, run.lanes);
  }

  void store(const ConvolutionDispatch& dispatch, std::int64_t image, std::int64_t channel, std::int64_t first_row,
             std::int64_t rows, std::uint8_t* own) const {
    std::uint8_t* codes = own + codes_;
    target_.kernels().requantize->channel_rows({.accumulators = reinterpret_cast<const std::int32_t*>(own + sums_),
                                                .accumulator_row_stride = 0,
                                                .output = codes,
                                                .output_row_stride = 0,
                                                .rows = 1,
                                                .columns = as_size(rows * row_positions_),
                                                .offset = dispatch.offset + channel,
                                                .multiplier = dispatch.multiplier + channel,
                                                .filter_zero_point = nullptr,
                                                .activation_sum = nullptr,
                                                .output_zero_point = dispatch.output_zero_point,
                                                .flip = dispatch.output_flip});
    const PlaneStrides& strides = geometry_.output;
    for (std::int64_t row = 0; row < rows; ++row, codes += row_positions_) {
      std::uint8_t* output = dispatch.output + image * strides.n + channel * strides.c + (first_row + row) * strides.h;
      if (strides.w == 1 || geometry_.output_width == 1) {
        std::memcpy(output, codes, as_size(geometry_.output_width));
        continue;
      }
      for (std::int64_t column = 0; column < geometry_.output_width; ++column)
        output[column * strides.w] = codes[column];
    }
  }

  PaddedPlanes planes_;
  std::int64_t row_positions_, band_rows_;
  std::size_t buffer_bytes_;
  std::size_t plane_, interleaved_, sums_, window_sums_, codes_;
  std::vector<std::size_t> offsets_;
};

}  // namespace

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_pixel_lanes(const ConvolutionGeometry& geometry,
                                                                 const ExecutionTarget& target) {
  return std::make_unique<PixelLanes>(geometry, target);
}

}  // namespace dmlcpu
