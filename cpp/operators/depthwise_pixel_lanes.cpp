// Depthwise convolution with pixels as lanes: a band of rows of one channel, end to end, with the columns of a stride
// split by their remainder, so that outputs of neighbours read neighbours.
#include <algorithm>
#include <cstring>

#include "operators/depthwise_convolution.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

class PixelLanes final : public DepthwiseConvolution {
 public:
  PixelLanes(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : DepthwiseConvolution(geometry, target, false, geometry.stride_width) {
    phase_columns_ = divide_up(columns_read(geometry_.output_width), geometry_.stride_width);
    band_rows_ = std::clamp<std::int64_t>(kInterleavedBytes / (phase_columns_ * 4), 1, geometry_.output_height);
    bands_ = divide_up(geometry_.output_height, band_rows_);
    const std::int64_t tasks = geometry_.batch * geometry_.output_channels * bands_;
    participants_ = static_cast<int>(std::min<std::int64_t>(target.num_threads, tasks));

    const std::size_t lanes = round_up(as_size(band_rows_ * phase_columns_), kDepthwiseLanes);
    row_planes_ = geometry_.kernel_height * geometry_.stride_width;
    // A group's window may begin up to a row after the last lane.
    plane_bytes_ = lanes + as_size(phase_columns_);
    buffer_bytes_ = round_up(plane_bytes_ * 4, kAlignment);
    BufferLayout layout;
    planes_ = layout.take(as_size(row_planes_) * plane_bytes_ + as_size(phase_columns_));
    interleaved_ = layout.take(taps_.buffers.size(), buffer_bytes_);
    sums_ = layout.take(lanes, sizeof(std::int32_t));
    window_sums_ = layout.take(lanes, sizeof(std::int32_t));
    codes_ = layout.take(lanes);
    participant_size_ = layout.size();

    for (const TapGroups::Group& group : taps_.groups) {
      const std::int64_t column = group.column * geometry_.dilation_width / geometry_.stride_width;
      offsets_.push_back(group.buffer * buffer_bytes_ + as_size(column) * 4);
    }
  }

  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override {
    const std::size_t tasks = as_size(geometry_.batch * bands_) * channels_;
    parallel_for(tasks, target_.num_threads, [&](std::size_t task, int slot) noexcept {
      const auto index = static_cast<std::int64_t>(task);
      const std::int64_t channel = index / bands_ % geometry_.output_channels;
      const std::int64_t first_row = index % bands_ * band_rows_;
      run_band(dispatch, index / bands_ / geometry_.output_channels, channel, first_row,
               std::min(band_rows_, geometry_.output_height - first_row), scratch + as_size(slot) * participant_size_);
    });
  }

  std::string describe() const override {
    return "algorithm: depthwise, lanes are pixels (the output's pixels are neighbours)" + describe_groups() +
           "\ntile: bands of " + std::to_string(band_rows_) + " output rows of one channel, on " +
           std::to_string(participants_) + " threads";
  }

 private:
  void run_band(const ConvolutionDispatch& dispatch, std::int64_t image, std::int64_t channel, std::int64_t first_row,
                std::int64_t rows, std::uint8_t* own) const {
    for (std::int64_t kernel_row = 0; kernel_row < geometry_.kernel_height; ++kernel_row) {
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t input_row = (first_row + row) * geometry_.stride_height - geometry_.padding_top +
                                       kernel_row * geometry_.dilation_height;
        for (std::int64_t phase = 0; phase < geometry_.stride_width; ++phase) {
          load_row(dispatch.source, image, channel, input_row, phase,
                   plane(kernel_row, phase, own) + row * phase_columns_);
        }
      }
    }
    interleave(rows, own);
    accumulate(dispatch, channel, rows, own);
    store(dispatch, image, channel, first_row, rows, own);
  }

  // The codes of one kernel row and one remainder of the stride, for all rows of a band.
  std::uint8_t* plane(std::int64_t kernel_row, std::int64_t phase, std::uint8_t* own) const {
    return own + planes_ + as_size(kernel_row * geometry_.stride_width + phase) * plane_bytes_;
  }

  // Columns phase, phase + stride, ... of one padded input row.
  void load_row(const ActivationSource& source, std::int64_t image, std::int64_t channel, std::int64_t row,
                std::int64_t phase, std::uint8_t* target) const {
    const std::int64_t step = geometry_.stride_width, column = phase - geometry_.padding_left;
    std::int64_t begin = std::clamp<std::int64_t>(column >= 0 ? 0 : divide_up(-column, step), 0, phase_columns_);
    std::int64_t end = std::clamp<std::int64_t>(
        column >= geometry_.input_width ? 0 : divide_up(geometry_.input_width - column, step), begin, phase_columns_);
    if (row < 0 || row >= geometry_.input_height) begin = end = phase_columns_;
    std::memset(target, source.zero_point, as_size(begin));
    std::memset(target + end, source.zero_point, as_size(phase_columns_ - end));
    if (begin == end) return;
    const std::uint8_t* first = source.data + image * geometry_.input.n + channel * geometry_.input.c +
                                row * geometry_.input.h + (column + begin * step) * geometry_.input.w;
    const std::int64_t distance = step * geometry_.input.w;
    if (distance == 1) {
      target_.kernels().pack->copy(first, as_size(end - begin), source.flip, target + begin);
      return;
    }
    for (std::int64_t i = begin; i < end; ++i, first += distance) {
      target[i] = static_cast<std::uint8_t>(*first ^ source.flip);
    }
  }

  void interleave(std::int64_t rows, std::uint8_t* own) const {
    const std::size_t codes = as_size(rows * phase_columns_);
    for (std::size_t buffer = 0; buffer < taps_.buffers.size(); ++buffer) {
      InterleaveRun run = interleaved_buffer(own + interleaved_ + buffer * buffer_bytes_, codes);
      for (std::size_t i = 0; i < 4; ++i) {
        const Tap& tap = taps_.buffers[buffer].taps[i];
        const std::int64_t column = tap.row < 0 ? 0 : tap.column * column_unit();
        run.rows[i] = plane(std::max<std::int64_t>(tap.row, 0), column % geometry_.stride_width, own) +
                      column / geometry_.stride_width;
      }
      target_.kernels().pack->interleave(run);
    }
  }

  // Buffers of several kernel rows count their column in remainders of the stride, those of one row in kernel columns.
  std::int64_t column_unit() const { return geometry_.kernel_height == 1 ? geometry_.dilation_width : 1; }

  void accumulate(const ConvolutionDispatch& dispatch, std::int64_t channel, std::int64_t rows,
                  std::uint8_t* own) const {
    auto* sums = reinterpret_cast<std::int32_t*>(own + sums_);
    auto* window_sums = reinterpret_cast<std::int32_t*>(own + window_sums_);
    const std::size_t filter = filter_index(0, as_size(channel));
    DepthwiseRun run = {.activations = own + interleaved_,
                        .pixel_step = 0,
                        .offsets = offsets_.data(),
                        .groups = taps_.groups.size(),
                        .filter = reinterpret_cast<const std::int8_t*>(dispatch.filter) + filter,
                        .sums = sums,
                        .sums_row_stride = 0,
                        .pixels = 1,
                        .lanes = as_size(rows * phase_columns_)};
    target_.kernels().depthwise->pixel_lanes(run);
    if (dispatch.filter_zero_point == nullptr) return;
    run.filter = reinterpret_cast<const std::int8_t*>(ones_.data()) + filter;
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
                                                .columns = as_size(rows * phase_columns_),
                                                .offset = dispatch.offset + channel,
                                                .multiplier = dispatch.multiplier + channel,
                                                .filter_zero_point = nullptr,
                                                .activation_sum = nullptr,
                                                .output_zero_point = dispatch.output_zero_point,
                                                .flip = dispatch.output_flip});
    const PlaneStrides& strides = geometry_.output;
    for (std::int64_t row = 0; row < rows; ++row, codes += phase_columns_) {
      std::uint8_t* output = dispatch.output + image * strides.n + channel * strides.c + (first_row + row) * strides.h;
      if (strides.w == 1 || geometry_.output_width == 1) {
        std::memcpy(output, codes, as_size(geometry_.output_width));
        continue;
      }
      for (std::int64_t column = 0; column < geometry_.output_width; ++column)
        output[column * strides.w] = codes[column];
    }
  }

  std::int64_t phase_columns_, band_rows_, bands_, row_planes_;
  std::size_t plane_bytes_, buffer_bytes_;
  std::size_t planes_, interleaved_, sums_, window_sums_, codes_;
  std::vector<std::size_t> offsets_;
};

}  // namespace

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_pixel_lanes(const ConvolutionGeometry& geometry,
                                                                 const ExecutionTarget& target) {
  return std::make_unique<PixelLanes>(geometry, target);
}

}  // namespace dmlcpu
