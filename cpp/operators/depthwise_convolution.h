// What the two depthwise algorithms share: taps in groups of four, the packed filter, filters with zero points.
//
// The codes of four taps are interleaved into groups of four neighbouring bytes, once for all outputs that use them,
// and one product step then does four taps of many lanes (kernels/depthwise). With several kernel rows the four taps
// are four rows of one column, so that one interleaved buffer serves every kernel column at another offset:
//
//   rows r0 r1 r2 of a 3x3 filter    buffer  [r0 r1 r2 -] [r0 r1 r2 -] [r0 r1 r2 -] [r0 r1 r2 -] ...
//                                    column 0^             1^            2^             one group each: 3 products
//
// With one kernel row the four taps are four columns of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "operators/convolution_algorithm.h"
#include "operators/sizes.h"

namespace dmlcpu {

// A tap of the window, by kernel row and column; row -1 where a group has fewer than four.
struct Tap {
  std::int64_t row = -1, column = 0;
};

// Interleaved buffers and the groups that read them: a group whose taps stand in other kernel columns than its buffer's
// reads it that many columns further on.
struct TapGroups {
  struct Buffer {
    Tap taps[4];
  };
  struct Group {
    std::size_t buffer;
    Tap taps[4];
  };
  std::vector<Buffer> buffers;
  std::vector<Group> groups;
};

// phases: the number of ways that kernel columns may fall on the columns of a stride; they need buffers of their own
// where outputs are read as neighbours.
TapGroups group_taps(const ConvolutionGeometry& geometry, std::int64_t phases);

// Interleaved codes of a strip or band should stay in a level-1 cache together with their sums.
inline constexpr std::int64_t kInterleavedBytes = 16384;
// Output columns that a strip has at least, where there are as many.
inline constexpr std::int64_t kLeastStripColumns = 8;

class DepthwiseConvolution : public ConvolutionAlgorithm {
 public:
  std::size_t packed_filter_size() const override { return sums_offset() + channels_ * sizeof(std::int32_t); }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + sums_offset());
  }
  std::size_t scratch_size() const override { return as_size(participants_) * participant_size_; }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override;

 protected:
  DepthwiseConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target, bool channel_lanes,
                       std::int64_t phases);

  // Columns of the padded input that count outputs of one row read.
  std::int64_t columns_read(std::int64_t count) const {
    return (count - 1) * geometry_.stride_width + (geometry_.kernel_width - 1) * geometry_.dilation_width + 1;
  }

  // The first byte of a group's four filter codes.
  std::size_t filter_index(std::size_t group, std::size_t channel) const {
    return (channel_lanes_ ? group * padded_channels_ + channel : channel * taps_.groups.size() + group) * 4;
  }
  std::size_t sums_offset() const {
    return round_up(taps_.groups.size() * (channel_lanes_ ? padded_channels_ : channels_) * 4, kAlignment);
  }

  std::string describe_groups() const;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  TapGroups taps_;
  std::size_t channels_, padded_channels_;
  bool channel_lanes_;
  // A filter of ones, of one channel for all where lanes are pixels: its sums are those of the windows' codes.
  AlignedBuffer ones_;
  int participants_ = 1;
  std::size_t participant_size_ = 0;
};

// sums -= zero_point * (sum of the window's codes), for filters whose zero point is not 0; step is 0 where all lanes
// share one zero point.
void subtract_zero_points(std::int32_t* sums, const std::int32_t* window_sums, const std::int32_t* zero_points,
                          std::size_t step, std::size_t count);

// The four rows of one interleaved buffer, all together.
InterleaveRun interleaved_buffer(std::uint8_t* output, std::size_t count);

// Lanes are channels: suits {N, H, W, C} output memory.
std::unique_ptr<ConvolutionAlgorithm> make_depthwise_channel_lanes(const ConvolutionGeometry& geometry,
                                                                   const ExecutionTarget& target);
// Lanes are pixels: suits {N, C, H, W} output memory.
std::unique_ptr<ConvolutionAlgorithm> make_depthwise_pixel_lanes(const ConvolutionGeometry& geometry,
                                                                 const ExecutionTarget& target);

}  // namespace dmlcpu
