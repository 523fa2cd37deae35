// Convolution of {N, H, W, C} memory whose groups have 4, 8 or 16 channels, as far as the vectors of the instruction
// set have room for more than three: groups side by side are the lanes of a vector (kernels/grouped), where the matrix
// product of one group would leave most of them empty. A task walks down a strip of output columns
// (operators/convolution/padded/padded_strips.h), all channels of a row at a time.
//
// Channels that would fill a part of the lanes share them with those of the next pixels, whose codes, windows and
// outputs follow in memory: to the kernel some pixels are one of as many times the channels.
//
//   8 channels, 64 lanes     [p0: c0 ... c7] [p1: c0 ... c7] ... [p7: c0 ... c7]      8 pixels are joined
//   24 channels              [p0: c0 ... c23] [p1: c0 ... c23] [p2: c0 ... c15]       8 pixels are three blocks
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/direct/arranged_convolution.h"
#include "operators/convolution/padded/padded_strips.h"
#include "operators/convolution/product/joined_groups.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// The ring of a strip stays in caches close to the core.
constexpr double kRingBytes = 1 << 16;
// Output columns that a strip has at least, where there are as many.
constexpr double kLeastStripColumns = 16.0;

double strip_columns(const ConvolutionGeometry& geometry) {
  const double column_bytes =
      as_number(geometry.stride_width) * as_number(geometry.input_channels) * geometry.window_rows();
  return std::min(std::max(std::floor(kRingBytes / column_bytes), kLeastStripColumns),
                  as_number(geometry.output_width));
}

std::size_t lanes_of_group(const ConvolutionGeometry& geometry) {
  return as_size(geometry.group_input_channels()) / kGroupedLaneChannels;
}

// Blocks of the kernel's lanes that so many pixels take if they are one to it.
std::int64_t blocks_of(const ConvolutionGeometry& geometry, const GroupedKernels& kernels, std::int64_t pixels) {
  return divide_up(pixels * geometry.output_channels, static_cast<std::int64_t>(kernels.lanes * kGroupedLaneChannels));
}

// The time of a row, in blocks of one pixel. The loads of a filter take as long as half of the pixels that share them.
double time_of_row(const ConvolutionGeometry& geometry, const GroupedKernels& kernels, std::int64_t joined) {
  const auto time_of = [&](std::int64_t pixels, std::int64_t pixels_of_each) {
    const auto sharing = static_cast<std::int64_t>(kernels.pixels_of_filter);
    return as_number(blocks_of(geometry, kernels, pixels_of_each)) *
           (as_number(pixels) + 0.5 * as_number(divide_up(pixels, sharing) * sharing));
  };
  return time_of(geometry.output_width / joined, joined) + time_of(1, geometry.output_width % joined);
}

// How many pixels are joined: as take the least time, if less by a tenth. Groups of 16 channels gain nothing by it
// beside products. Pixels of steps are apart, as are outputs amid other channels; of planes nothing is known before
// they are staged.
std::int64_t joined_pixels(const ConvolutionGeometry& geometry, const GroupedKernels& kernels) {
  constexpr std::int64_t kMostPixels = 8;
  constexpr double kMostOfTime = 0.9;
  if (lanes_of_group(geometry) == 4 || geometry.stride_width != 1 ||
      (geometry.output.c == 1 && geometry.output.w != geometry.output_channels)) {
    return 1;
  }
  std::int64_t joined = 1;
  double least = kMostOfTime * time_of_row(geometry, kernels, 1);
  for (std::int64_t pixels = 2; pixels <= std::min(kMostPixels, geometry.output_width); ++pixels) {
    const double time = time_of_row(geometry, kernels, pixels);
    if (time < least) {
      joined = pixels;
      least = time;
    }
  }
  return joined;
}

// Whole blocks of the kernel's lanes, and the packed filter of a channel.
std::size_t padded_channels(const ConvolutionGeometry& geometry, const GroupedKernels& kernels) {
  return as_size(blocks_of(geometry, kernels, joined_pixels(geometry, kernels))) * kernels.lanes * kGroupedLaneChannels;
}
std::size_t channel_bytes(const ConvolutionGeometry& geometry, const GroupedKernels& kernels) {
  const std::size_t tap_bytes = lanes_of_group(geometry) * kGroupedLaneChannels * (kernels.widened ? 2 : 1);
  return as_size(geometry.kernel_height * geometry.kernel_width) * tap_bytes;
}

// A lane has kGroupedLaneChannels channels, of which kernels read the first ones of all lanes of a block together.
// Those behind the last pixel are none of the output's.
std::vector<std::size_t> channel_order(const ConvolutionGeometry& geometry, const GroupedKernels& kernels) {
  const std::size_t channels = padded_channels(geometry, kernels), of_pixel = as_size(geometry.output_channels);
  const std::size_t end = as_size(joined_pixels(geometry, kernels)) * of_pixel;
  std::vector<std::size_t> ordered;
  ordered.reserve(channels);
  for (std::size_t block = 0; block < channels; block += kernels.lanes * kGroupedLaneChannels) {
    for (std::size_t t = 0; t < kGroupedLaneChannels; ++t) {
      for (std::size_t lane = 0; lane < kernels.lanes; ++lane) {
        const std::size_t channel = block + lane * kGroupedLaneChannels + t;
        ordered.push_back(channel < end ? channel % of_pixel : of_pixel);
      }
    }
  }
  return ordered;
}

class GroupedConvolution final : public ArrangedConvolution {
 public:
  GroupedConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : ArrangedConvolution(geometry, padded_channels(geometry, *target.kernels().grouped),
                            channel_bytes(geometry, *target.kernels().grouped),
                            channel_order(geometry, *target.kernels().grouped)),
        geometry_(geometry),
        target_(target),
        kernels_(*target.kernels().grouped),
        strips_(geometry, target.num_threads, static_cast<std::int64_t>(strip_columns(geometry)), 1,
                static_cast<std::int64_t>(geometry.window_rows())),
        channels_(as_size(geometry.output_channels)),
        taps_(as_size(geometry.kernel_height * geometry.kernel_width)),
        group_lanes_(lanes_of_group(geometry)),
        joined_(as_size(joined_pixels(geometry, kernels_))) {
    BufferLayout own;
    // Kernels read the last pixel's codes up to the end of a block.
    ring_at_ = own.take(strips_.ring().bytes() + kernels_.lanes * kGroupedLaneChannels);
    tap_offsets_ = own.take(taps_, sizeof(std::size_t));
    participant_size_ = own.size();
    scratch_size_ = own.size_of(as_size(strips_.participants()));
  }

  std::size_t scratch_size() const override { return scratch_size_; }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override;
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  bool pairs_fit(const std::uint8_t* filter, std::uint8_t flip) const;
  std::int32_t pack_tap(const std::uint8_t* filter, std::uint8_t flip, std::size_t channel, std::size_t tap,
                        std::uint8_t* packed) const;
  void run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task, std::uint8_t* own) const noexcept;
  // Pixels of a row, of which `run` tells all but how many.
  void convolve(GroupedRun run, std::size_t pixels) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  const GroupedKernels& kernels_;
  PaddedStrips strips_;
  std::size_t channels_, taps_, group_lanes_, joined_;
  // Of the scratch memory, and within a participant's part of it.
  std::size_t scratch_size_, ring_at_, tap_offsets_, participant_size_;
};

// Whether vpmaddubsw would multiply neighbouring input channels exactly (kernels/grouped/grouped.h).
bool GroupedConvolution::pairs_fit(const std::uint8_t* filter, std::uint8_t flip) const {
  constexpr int kMostOfPair = 128;
  const PlaneStrides& strides = geometry_.filter;
  for (std::int64_t channel = 0; channel < geometry_.output_channels; ++channel) {
    for (std::int64_t tap = 0; tap < geometry_.kernel_height * geometry_.kernel_width; ++tap) {
      const std::uint8_t* of_tap = filter + channel * strides.n + tap / geometry_.kernel_width * strides.h +
                                   tap % geometry_.kernel_width * strides.w;
      for (std::int64_t i = 0; i < geometry_.group_input_channels(); i += 2) {
        const int first = static_cast<std::int8_t>(of_tap[i * strides.c] ^ flip);
        const int second = static_cast<std::int8_t>(of_tap[(i + 1) * strides.c] ^ flip);
        const int positive = std::max(first, 0) + std::max(second, 0), negative = positive - first - second;
        if (std::max(positive, negative) > kMostOfPair) return false;
      }
    }
  }
  return true;
}

void GroupedConvolution::pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const {
  std::int32_t* sums = packed_sums(packed);
  std::memset(packed, 0, packed_filter_size());
  packed[own_byte()] = kernels_.widened && !pairs_fit(filter, flip) ? 1 : 0;
  for (std::size_t channel = 0; channel < channels_; ++channel) {
    const std::uint8_t* of_channel = filter + static_cast<std::int64_t>(channel) * geometry_.filter.n;
    std::uint32_t sum = 0;
    std::size_t tap = 0;
    for (std::int64_t row = 0; row < geometry_.kernel_height; ++row) {
      for (std::int64_t column = 0; column < geometry_.kernel_width; ++column, ++tap) {
        const std::uint8_t* of_tap = of_channel + row * geometry_.filter.h + column * geometry_.filter.w;
        sum += static_cast<std::uint32_t>(pack_tap(of_tap, flip, channel, tap, packed));
        for (std::size_t pixel = 1; pixel < joined_; ++pixel) {
          pack_tap(of_tap, flip, pixel * channels_ + channel, tap, packed);
        }
      }
    }
    sums[channel] = static_cast<std::int32_t>(sum);
  }
}

// One tap of an output channel, each lane of its group in its own exchange; returns the sum of the codes. The filter's
// own byte tells whether they have 16 bits.
std::int32_t GroupedConvolution::pack_tap(const std::uint8_t* filter, std::uint8_t flip, std::size_t channel,
                                          std::size_t tap, std::uint8_t* packed) const {
  const std::size_t lanes = kernels_.lanes, lane = channel / kGroupedLaneChannels, t = channel % kGroupedLaneChannels;
  std::int32_t sum = 0;
  for (std::size_t input_lane = 0; input_lane < group_lanes_; ++input_lane) {
    const std::size_t exchange = input_lane ^ lane % group_lanes_;
    const std::size_t vector = ((lane / lanes * taps_ + tap) * group_lanes_ + exchange) * kGroupedLaneChannels + t;
    for (std::size_t i = 0; i < 4; ++i, filter += geometry_.filter.c) {
      const auto code = static_cast<std::int8_t>(*filter ^ flip);
      sum += code;
      if (packed[own_byte()] != 0) {
        const std::int16_t wide = code;
        const std::size_t index = ((vector * 2 + i % 2) * lanes + lane % lanes) * 2 + i / 2;
        std::memcpy(packed + index * sizeof(wide), &wide, sizeof(wide));
      } else {
        packed[(vector * lanes + lane % lanes) * 4 + i] = static_cast<std::uint8_t>(code);
      }
    }
  }
  return sum;
}

void GroupedConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  parallel_for(strips_.tasks(), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    run_task(dispatch, strips_.task(task), scratch + as_size(slot) * participant_size_);
  });
}

void GroupedConvolution::run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task,
                                  std::uint8_t* own) const noexcept {
  auto* offsets = reinterpret_cast<std::size_t*>(own + tap_offsets_);
  std::int64_t loaded = 0;
  for (std::int64_t row = task.first_row; row < task.end_row; ++row) {
    const std::int64_t top = row * geometry_.stride_height;
    loaded = strips_.load(dispatch.source, *target_.kernels().pack, task, top, loaded, own + ring_at_);
    std::size_t tap = 0;
    for (std::int64_t r = 0; r < geometry_.kernel_height; ++r) {
      const std::size_t of_row = strips_.ring().offset(top + r * geometry_.dilation_height);
      for (std::int64_t c = 0; c < geometry_.kernel_width; ++c, ++tap) {
        offsets[tap] = of_row + as_size(c * geometry_.dilation_width) * channels_;
      }
    }
    std::uint8_t* output = strips_.output(dispatch, task, row);
    const bool ends_in_sums = geometry_.ends_in_sums();
    convolve({.activations = own + ring_at_,
              .pixel_step = as_size(geometry_.stride_width) * channels_,
              .offsets = offsets,
              .taps = taps_,
              .group_lanes = group_lanes_,
              .filter = dispatch.filter,
              .pairs_fit = dispatch.filter[own_byte()] == 0,
              .pixels = 0,
              .channels = channels_,
              .offset = dispatch.channels.offset,
              .multiplier = dispatch.channels.multiplier,
              .filter_zero_point = dispatch.channels.filter_zero_point,
              .output_zero_point = dispatch.output_zero_point,
              .flip = dispatch.output_flip,
              .output = ends_in_sums ? nullptr : output,
              .output_pixel_stride = as_size(geometry_.output.w),
              .sums = ends_in_sums ? reinterpret_cast<std::int32_t*>(output) : nullptr},
             as_size(task.columns));
    strips_.finish(dispatch, task, row, row + 1);
  }
}

void GroupedConvolution::convolve(GroupedRun run, std::size_t pixels) const noexcept {
  const std::size_t rest = pixels % joined_;
  run.pixels = pixels / joined_;
  if (joined_ > 1) {
    run.pixel_step *= joined_;
    run.channels *= joined_;
    run.output_pixel_stride *= joined_;
  }
  if (run.pixels > 0) kernels_.convolve(run);
  if (rest == 0) return;
  run.activations += run.pixels * run.pixel_step;
  if (run.sums != nullptr) {
    run.sums += run.pixels * run.output_pixel_stride;
  } else {
    run.output += run.pixels * run.output_pixel_stride;
  }
  run.pixels = 1;
  run.channels = rest * channels_;
  kernels_.convolve(run);
}

std::string GroupedConvolution::describe() const {
  const std::string lanes = std::to_string(kernels_.lanes), channels = std::to_string(geometry_.group_input_channels());
  return "algorithm: grouped, " + counted(geometry_.groups, "group") + " of " + channels +
         " channels as lanes\nkernel: " + kernel_words(target_, "grouped") + ", " + lanes + " lanes of " +
         std::to_string(kGroupedLaneChannels) + " channels" +
         (joined_ > 1 ? ", for " + std::to_string(joined_) + " pixels at a time" : "") + "\nwhy: " + channels +
         " channels of a group would fill a part of a product's columns\ntaps: " + std::to_string(taps_) +
         "\ntile: " + strips_.describe();
}

}  // namespace

bool grouped_applies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  const GroupedKernels& kernels = *target.kernels().grouped;
  const std::int64_t channels = geometry.group_input_channels();
  if (channels != geometry.group_output_channels() || (channels != 4 && channels != 8 && channels != 16) ||
      as_size(channels) > kernels.most_group_lanes * kGroupedLaneChannels) {
    return false;
  }
  if (joins_groups(geometry, target)) return false;
  // Planes would be brought into channels that are neighbours, and others read them as they lie.
  if (geometry.input.c != 1 && few_channels_applies(geometry, target)) return false;
  // A block takes as long as the products of so many of its groups, whether it is full or not.
  const double blocks = as_number(blocks_of(geometry, kernels, 1)) *
                        time_of_row(geometry, kernels, joined_pixels(geometry, kernels)) /
                        time_of_row(geometry, kernels, 1);
  const double groups_of_block =
      lanes_of_group(geometry) == 4 ? kernels.groups_of_block_by_four : kernels.groups_of_block;
  if (as_number(geometry.groups) <= groups_of_block * blocks) return false;
  return PaddedStrips::applies(geometry, strip_columns(geometry), geometry.window_rows());
}

std::unique_ptr<ConvolutionAlgorithm> make_grouped_convolution(const ConvolutionGeometry& geometry,
                                                               const ExecutionTarget& target) {
  return std::make_unique<GroupedConvolution>(geometry, target);
}

}  // namespace dmlcpu
