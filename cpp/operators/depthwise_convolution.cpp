// Depthwise convolution: as many groups as channels, so each output code is the sum of its own window's taps.
//
// The codes of four taps are interleaved into groups of four neighbouring bytes, once for all outputs that use them,
// and one product step then does four taps of many lanes (kernels/depthwise). With several kernel rows the four taps
// are four rows of one column, so that one interleaved buffer serves every kernel column at another offset:
//
//   rows r0 r1 r2 of a 3x3 filter    buffer  [r0 r1 r2 -] [r0 r1 r2 -] [r0 r1 r2 -] [r0 r1 r2 -] ...
//                                    column 0^             1^            2^             one group each: 3 products
//
// With one kernel row the four taps are four columns of it.
//
//   channel_lanes   {N, H, W, C} output: lanes are channels. A task walks down a strip of output columns; the padded
//                   input rows of the window stand in a ring, each loaded once.
//   pixel_lanes     {N, C, H, W} output: lanes are the pixels of a band of rows of one channel, end to end, with the
//                   columns of a stride split by their remainder, so that outputs of neighbours read neighbours.
#include <algorithm>
#include <cstring>
#include <sstream>
#include <vector>

#include "operators/convolution_algorithm.h"
#include "operators/staging.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }
std::int64_t divide_up(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }

// A tap of the window, by kernel row and column; row -1 where a group has fewer than four.
struct Tap {
  std::int64_t row = -1, column = 0;
};

// Interleaved buffers and the groups that read them.
struct TapGroups {
  struct Buffer {
    Tap taps[4];
  };
  struct Group {
    std::size_t buffer;
    std::int64_t column;  // kernel column of its taps; 0 where the buffer's taps have columns of their own
    Tap taps[4];
  };
  std::vector<Buffer> buffers;
  std::vector<Group> groups;
};

// phases: the number of ways that kernel columns may fall on the columns of a stride; they need buffers of their own
// where outputs are read as neighbours.
TapGroups group_taps(const ConvolutionGeometry& geometry, std::int64_t phases) {
  TapGroups result;
  if (geometry.kernel_height == 1) {
    for (std::int64_t column = 0; column < geometry.kernel_width; column += 4) {
      TapGroups::Buffer buffer;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(4, geometry.kernel_width - column); ++i) {
        buffer.taps[i] = {0, column + i};
      }
      TapGroups::Group group{result.buffers.size(), 0, {}};
      std::copy(std::begin(buffer.taps), std::end(buffer.taps), group.taps);
      result.buffers.push_back(buffer);
      result.groups.push_back(group);
    }
    return result;
  }
  std::vector<std::int64_t> buffer_of_phase(as_size(phases), -1);
  for (std::int64_t row = 0; row < geometry.kernel_height; row += 4) {
    std::fill(buffer_of_phase.begin(), buffer_of_phase.end(), -1);
    for (std::int64_t column = 0; column < geometry.kernel_width; ++column) {
      TapGroups::Group group{0, column, {}};
      TapGroups::Buffer buffer;
      const std::int64_t phase = column * geometry.dilation_width % phases;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(4, geometry.kernel_height - row); ++i) {
        group.taps[i] = {row + i, column};
        buffer.taps[i] = {row + i, phase};
      }
      std::int64_t& index = buffer_of_phase[as_size(phase)];
      if (index < 0) {
        index = static_cast<std::int64_t>(result.buffers.size());
        result.buffers.push_back(buffer);
      }
      group.buffer = as_size(index);
      result.groups.push_back(group);
    }
  }
  return result;
}

class DepthwiseConvolution : public ConvolutionAlgorithm {
 public:
  std::size_t packed_filter_size() const override { return sums_offset() + channels_ * sizeof(std::int32_t); }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + sums_offset());
  }
  std::size_t scratch_size() const override { return as_size(participants_) * participant_size_; }

  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override {
    auto* sums = reinterpret_cast<std::int32_t*>(packed + sums_offset());
    std::memset(packed, 0, packed_filter_size());
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      for (std::size_t group = 0; group < taps_.groups.size(); ++group) {
        for (std::size_t i = 0; i < 4; ++i) {
          const Tap& tap = taps_.groups[group].taps[i];
          if (tap.row < 0) continue;
          const auto code =
              static_cast<std::uint8_t>(filter[static_cast<std::int64_t>(channel) * geometry_.filter.n +
                                               tap.row * geometry_.filter.h + tap.column * geometry_.filter.w] ^
                                        flip);
          packed[filter_index(group, channel) + i] = code;
          sums[channel] += static_cast<std::int8_t>(code);
        }
      }
    }
  }

 protected:
  DepthwiseConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target, bool channel_lanes,
                       std::int64_t phases)
      : geometry_(geometry),
        target_(target),
        taps_(group_taps(geometry, phases)),
        channels_(as_size(geometry.output_channels)),
        padded_channels_(round_up(channels_, kDepthwiseLanes)),
        channel_lanes_(channel_lanes),
        ones_(sums_offset()) {
    std::memset(ones_.data(), 0, ones_.size());
    for (std::size_t channel = 0; channel < channels_; ++channel) {
      for (std::size_t group = 0; group < taps_.groups.size(); ++group) {
        for (std::size_t i = 0; i < 4; ++i) {
          if (taps_.groups[group].taps[i].row >= 0) ones_.data()[filter_index(group, channel) + i] = 1;
        }
      }
    }
  }

  // Columns of the padded input that count outputs of one row read.
  std::int64_t columns_read(std::int64_t count) const {
    return (count - 1) * geometry_.stride_width + (geometry_.kernel_width - 1) * geometry_.dilation_width + 1;
  }

  // sums -= zero_point * (sum of the window's codes), for filters whose zero point is not 0.
  static void subtract(std::int32_t* sums, const std::int32_t* window_sums, const std::int32_t* zero_points,
                       std::size_t step, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) -
                                          static_cast<std::uint32_t>(zero_points[i * step]) *
                                              static_cast<std::uint32_t>(window_sums[i]));
    }
  }

  // The first byte of a group's four filter codes.
  std::size_t filter_index(std::size_t group, std::size_t channel) const {
    return (channel_lanes_ ? group * padded_channels_ + channel : channel * taps_.groups.size() + group) * 4;
  }
  std::size_t sums_offset() const {
    return round_up(taps_.groups.size() * (channel_lanes_ ? padded_channels_ : channels_) * 4, kAlignment);
  }

  std::string describe_groups() const {
    std::ostringstream text;
    text << "\ntaps: " << geometry_.reduction() << " in " << taps_.groups.size() << " groups of four, from "
         << taps_.buffers.size() << " interleaved buffers";
    return text.str();
  }

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  TapGroups taps_;
  std::size_t channels_, padded_channels_;
  bool channel_lanes_;
  AlignedBuffer ones_;  // a filter of ones: its sums are those of the windows' codes
  int participants_ = 1;
  std::size_t participant_size_ = 0;
};

// Interleaved codes of a strip or band should stay in a level-1 cache together with their sums.
constexpr std::int64_t kInterleavedBytes = 16384;
constexpr std::int64_t kRowsOfTask = 16;
constexpr std::int64_t kLeastColumns = 8;

class ChannelLanes final : public DepthwiseConvolution {
 public:
  ChannelLanes(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : DepthwiseConvolution(geometry, target, true, 1) {
    const std::int64_t bytes_of_output = geometry_.stride_width * geometry_.output_channels * 4;
    strip_columns_ = std::min(std::max(kInterleavedBytes / bytes_of_output, kLeastColumns), geometry_.output_width);
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
      const std::int64_t column = group.column * geometry_.dilation_width;
      offsets_.push_back(group.buffer * buffer_bytes_ + as_size(column) * channels_ * 4);
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
      const std::uint8_t* rows[4];
      std::int64_t furthest = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        const Tap& tap = taps_.buffers[buffer].taps[i];
        const std::int64_t row = top + std::max<std::int64_t>(tap.row, 0) * geometry_.dilation_height;
        const std::int64_t column = tap.row < 0 ? 0 : tap.column * geometry_.dilation_width;
        rows[i] = own + rows_ + as_size(row % ring_rows_) * row_bytes_ + as_size(column) * channels_;
        furthest = std::max(furthest, column);
      }
      target_.kernels().pack->interleave(rows, as_size(columns - furthest) * channels_, 0,
                                         own + interleaved_ + buffer * buffer_bytes_);
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
      subtract(sums + column * sums_row_, window_sums + column * sums_row_, dispatch.filter_zero_point, 1, channels_);
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
      const std::uint8_t* sources[4];
      for (std::size_t i = 0; i < 4; ++i) {
        const Tap& tap = taps_.buffers[buffer].taps[i];
        const std::int64_t column = tap.row < 0 ? 0 : tap.column * column_unit();
        sources[i] = plane(std::max<std::int64_t>(tap.row, 0), column % geometry_.stride_width, own) +
                     column / geometry_.stride_width;
      }
      target_.kernels().pack->interleave(sources, codes, 0, own + interleaved_ + buffer * buffer_bytes_);
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
    subtract(sums, window_sums, dispatch.filter_zero_point + channel, 0, run.lanes);
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

bool depthwise_applies(const ConvolutionGeometry& geometry) {
  if (geometry.group_input_channels() != 1 || geometry.group_output_channels() != 1) return false;
  constexpr std::int64_t kMostTaps = 4096;
  constexpr double kMostBytes = 1 << 25;
  if (geometry.reduction() > kMostTaps) return false;
  // In floating point: sizes of absurd descs overflow integers.
  const double columns = static_cast<double>(std::min(kLeastColumns, geometry.output_width) - 1) *
                             static_cast<double>(geometry.stride_width) +
                         static_cast<double>(geometry.kernel_width) * static_cast<double>(geometry.dilation_width);
  const double row = static_cast<double>(geometry.output_width) * static_cast<double>(geometry.stride_width) + columns;
  const double rows = static_cast<double>(geometry.kernel_height) * static_cast<double>(geometry.dilation_height);
  const double codes = channels_last(geometry) ? columns * static_cast<double>(geometry.output_channels) : row;
  return codes * (rows + 4.0 * static_cast<double>(geometry.kernel_height + geometry.kernel_width)) < kMostBytes;
}

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_convolution(const ConvolutionGeometry& geometry,
                                                                 const ExecutionTarget& target) {
  if (channels_last(geometry)) return std::make_unique<ChannelLanes>(geometry, target);
  return std::make_unique<PixelLanes>(geometry, target);
}

}  // namespace dmlcpu
