#include "operators/depthwise_convolution.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "operators/padded_planes.h"

namespace dmlcpu {

namespace {

// Taps of one kernel row, four columns at a time.
TapGroups group_columns(const ConvolutionGeometry& geometry) {
  TapGroups result;
  for (std::int64_t column = 0; column < geometry.kernel_width; column += 4) {
    TapGroups::Buffer buffer;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(4, geometry.kernel_width - column); ++i) {
      buffer.taps[i] = {0, column + i};
    }
    TapGroups::Group group{result.buffers.size(), {}};
    std::copy(std::begin(buffer.taps), std::end(buffer.taps), group.taps);
    result.buffers.push_back(buffer);
    result.groups.push_back(group);
  }
  return result;
}

}  // namespace

TapGroups group_taps(const ConvolutionGeometry& geometry, std::int64_t phases) {
  if (geometry.kernel_height == 1) return group_columns(geometry);
  TapGroups result;
  constexpr std::size_t kNone = ~std::size_t{0};
  for (std::int64_t row = 0; row < geometry.kernel_height; row += 4) {
    std::vector<std::size_t> buffer_of_phase(as_size(phases), kNone);
    for (std::int64_t column = 0; column < geometry.kernel_width; ++column) {
      TapGroups::Buffer buffer;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(4, geometry.kernel_height - row); ++i) {
        buffer.taps[i] = {row + i, column};
      }
      std::size_t& index = buffer_of_phase[as_size(column * geometry.dilation_width % phases)];
      if (index == kNone) {
        index = result.buffers.size();
        result.buffers.push_back(buffer);
      }
      TapGroups::Group group{index, {}};
      std::copy(std::begin(buffer.taps), std::end(buffer.taps), group.taps);
      result.groups.push_back(group);
    }
  }
  return result;
}

DepthwiseConvolution::DepthwiseConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target,
                                           bool channel_lanes, std::int64_t phases)
    : geometry_(geometry),
      target_(target),
      taps_(group_taps(geometry, phases)),
      channels_(as_size(geometry.output_channels)),
      padded_channels_(round_up(channels_, kDepthwiseLanes)),
      channel_lanes_(channel_lanes),
      ones_(channel_lanes ? sums_offset() : taps_.groups.size() * 4) {
  std::memset(ones_.data(), 0, ones_.size());
  for (std::size_t channel = 0; channel < (channel_lanes ? channels_ : 1); ++channel) {
    for (std::size_t group = 0; group < taps_.groups.size(); ++group) {
      for (std::size_t i = 0; i < 4; ++i) {
        if (taps_.groups[group].taps[i].row >= 0) ones_.data()[filter_index(group, channel) + i] = 1;
      }
    }
  }
}

void DepthwiseConvolution::pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const {
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

std::string DepthwiseConvolution::describe_groups() const {
  std::ostringstream text;
  text << "\ntaps: " << geometry_.reduction() << " in " << taps_.groups.size() << " groups of four, from "
       << taps_.buffers.size() << " interleaved buffers";
  return text.str();
}

void subtract_zero_points(std::int32_t* sums, const std::int32_t* window_sums, const std::int32_t* zero_points,
                          std::size_t step, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) -
                                        static_cast<std::uint32_t>(zero_points[i * step]) *
                                            static_cast<std::uint32_t>(window_sums[i]));
  }
}

InterleaveRun interleaved_buffer(std::uint8_t* output, std::size_t count) {
  return {.rows = {}, .count = count, .flip = 0, .output = output, .run = kOneRun, .run_bytes = 0};
}

bool depthwise_applies(const ConvolutionGeometry& geometry) {
  if (geometry.group_input_channels() != 1 || geometry.group_output_channels() != 1) return false;
  constexpr std::int64_t kMostTaps = 4096;
  constexpr double kMostBytes = 1 << 25;
  if (geometry.reduction() > kMostTaps) return false;
  if (!channels_last(geometry)) {
    // A plane that is mostly padding costs more than gathering the windows.
    constexpr double kMostWaste = 64;
    const double pixels = static_cast<double>(geometry.input_height) * static_cast<double>(geometry.input_width) +
                          static_cast<double>(geometry.output_height) * static_cast<double>(geometry.output_width);
    const double codes = PaddedPlanes::possible(geometry) ? PaddedPlanes::channel_codes(geometry) : kMostBytes;
    return codes < std::min(kMostBytes, kMostWaste * pixels);
  }
  // In floating point: sizes of absurd descs overflow integers.
  const double columns = static_cast<double>(std::min(kLeastStripColumns, geometry.output_width) - 1) *
                             static_cast<double>(geometry.stride_width) +
                         static_cast<double>(geometry.kernel_width) * static_cast<double>(geometry.dilation_width);
  const double rows = static_cast<double>(geometry.kernel_height) * static_cast<double>(geometry.dilation_height);
  return columns * static_cast<double>(geometry.output_channels) *
             (rows + 4.0 * static_cast<double>(geometry.kernel_height + geometry.kernel_width)) <
         kMostBytes;
}

std::unique_ptr<ConvolutionAlgorithm> make_depthwise_convolution(const ConvolutionGeometry& geometry,
                                                                 const ExecutionTarget& target) {
  return channels_last(geometry) ? make_depthwise_channel_lanes(geometry, target)
                                 : make_depthwise_pixel_lanes(geometry, target);
}

}  // namespace dmlcpu
