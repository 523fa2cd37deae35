// Convolution with few output channels, from {N, C, H, W} or {N, H, W, C} memory to either: pixels of a row of outputs
// are the lanes (kernels/few_channels). A task walks down a strip of output columns (operators/convolution/
// padded_strips.h). The padded rows that its windows touch stand in a ring, each by groups of four channels, the last
// of them filled up, and within a group pixel by pixel:
//
//   a row    group 0   [x0: c0 c1 c2 c3] [x1: c0 c1 c2 c3] [x2: c0 c1 c2 c3] ...
//            group 1   [x0: c4 c5 c6 c7] [x1: c4 c5 c6 c7] ...
//
// so that a tap of the window is neighbours in memory for all outputs. Of {N, H, W, C} memory the output's rows, a
// channel each, are transposed.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/padded/padded_row.h"
#include "operators/convolution/padded/padded_strips.h"
#include "operators/convolution/padded/row_ring.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kGroup = 4;  // channels
// Output columns that a strip has at least, where there are as many, and in steps of.
constexpr std::int64_t kLeastStripColumns = 64;
// Output columns below which too many lanes are idle.
constexpr std::int64_t kLeastColumns = 28;

// Of pixels one after the other, windows of one pixel read a single row.
ConvolutionGeometry joined_rows(ConvolutionGeometry geometry) {
  const auto of_input = uniform_pixel_stride(geometry.input, 1, geometry.input_height, geometry.input_width);
  const auto of_output = uniform_pixel_stride(geometry.output, 1, geometry.output_height, geometry.output_width);
  if (!geometry.pointwise() || !of_input || !of_output) return geometry;
  geometry.input.w = *of_input;
  geometry.output.w = *of_output;
  geometry.input_width = geometry.output_width = geometry.image_pixels();
  geometry.input_height = geometry.output_height = 1;
  return geometry;
}

double strip_columns(const ConvolutionGeometry& geometry) {
  const double ring_bytes = static_cast<double>(cache_sizes().level_2) / 4.0;
  const double fit = ring_bytes / (geometry.window_rows() * as_number(geometry.input_channels));
  const double columns = std::max(fit, as_number(kLeastStripColumns));
  return std::min(columns, as_number(geometry.output_width));
}
std::int64_t columns_of_strip(const ConvolutionGeometry& geometry) {
  const auto most = static_cast<std::int64_t>(strip_columns(geometry));
  const std::int64_t equal = divide_up(geometry.output_width, divide_up(geometry.output_width, most));
  return std::min(divide_up(equal, kLeastStripColumns) * kLeastStripColumns, geometry.output_width);
}

class FewChannelsConvolution final : public ConvolutionAlgorithm {
 public:
  FewChannelsConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(joined_rows(geometry)),
        target_(target),
        kernels_(*target.kernels().few_channels),
        strips_(geometry_, target.num_threads, columns_of_strip(geometry_), 1, 0),
        channels_(as_size(geometry.output_channels)),
        groups_(divide_up(geometry.input_channels, kGroup)),
        strip_columns_(columns_of_strip(geometry_)),
        group_bytes_(as_size(strips_.columns_read(strip_columns_) * kGroup)),
        ring_(static_cast<std::int64_t>(geometry_.window_rows()), as_size(groups_) * group_bytes_) {
    for (std::int64_t column = 0; column < geometry_.kernel_width; ++column) {
      for (std::int64_t group = 0; group < groups_; ++group) {
        offsets_.push_back(as_size(group) * group_bytes_ + as_size(column * geometry_.dilation_width * kGroup));
      }
    }
    BufferLayout filter;
    filter.take(as_size(geometry_.kernel_height) * offsets_.size() * (channels_ + 1), factor_bytes());
    sums_ = filter.take(channels_, sizeof(std::int32_t));
    filter_size_ = filter.size();
    BufferLayout own;
    ring_at_ = own.take(ring_.bytes() + kFewChannelsPixels * as_size(kGroup));
    rows_ = own.take(as_size(geometry_.kernel_height), sizeof(const std::uint8_t*));
    codes_ = own.take(writes_rows() ? 0 : channels_ * as_size(strip_columns_));
    participant_size_ = own.size();
    scratch_size_ = own.size_of(as_size(strips_.participants()));
  }

  std::size_t packed_filter_size() const override { return filter_size_; }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override;
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + sums_);
  }
  std::size_t scratch_size() const override { return scratch_size_; }
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  std::size_t factor_bytes() const { return as_size(kGroup) * (kernels_.widened ? 2 : 1); }
  // Whether a channel's codes of a row are neighbours in the output.
  bool writes_rows() const { return geometry_.output.w == 1; }

  void store_factor(std::int8_t code, std::size_t factors, std::int64_t place, std::uint8_t* packed) const;
  void run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task, std::uint8_t* own) const noexcept;
  void load_row(const ActivationSource& source, const PaddedStrips::Task& task, std::int64_t padded_row,
                std::uint8_t* target) const noexcept;
  void load_pixels(const ActivationSource& source, const std::uint8_t* codes, std::int64_t count,
                   std::uint8_t* target) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  const FewChannelsKernels& kernels_;
  PaddedStrips strips_;
  std::size_t channels_;
  std::int64_t groups_, strip_columns_;
  std::size_t group_bytes_;  // of a padded row
  RowRing ring_;
  std::vector<std::size_t> offsets_;  // of the segments of a row
  std::size_t sums_, filter_size_;    // in the packed filter
  // Of the scratch memory, and within a participant's part of it.
  std::size_t scratch_size_, ring_at_, rows_, codes_, participant_size_;
};

// The i-th of four codes in a filter's `factors`-th group of them.
void FewChannelsConvolution::store_factor(std::int8_t code, std::size_t factors, std::int64_t place,
                                          std::uint8_t* packed) const {
  const std::size_t i = as_size(place);
  if (kernels_.widened) {
    const std::int16_t wide = code;
    std::memcpy(packed + (factors * 4 + i % 2 * 2 + i / 2) * sizeof(wide), &wide, sizeof(wide));
  } else {
    packed[factors * 4 + i] = static_cast<std::uint8_t>(code);
  }
}

void FewChannelsConvolution::pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const {
  std::memset(packed, 0, filter_size_);
  auto* sums = reinterpret_cast<std::int32_t*>(packed + sums_);
  const PlaneStrides& strides = geometry_.filter;
  std::size_t factors = 0;
  for (std::int64_t tap = 0; tap < geometry_.kernel_height * geometry_.kernel_width; ++tap) {
    const std::uint8_t* of_tap =
        filter + tap / geometry_.kernel_width * strides.h + tap % geometry_.kernel_width * strides.w;
    for (std::int64_t group = 0; group < groups_; ++group, factors += channels_ + 1) {
      const std::int64_t first = group * kGroup, end = std::min(first + kGroup, geometry_.input_channels);
      for (std::int64_t c = first; c < end; ++c) {
        for (std::size_t channel = 0; channel < channels_; ++channel) {
          const auto code =
              static_cast<std::int8_t>(of_tap[static_cast<std::int64_t>(channel) * strides.n + c * strides.c] ^ flip);
          sums[channel] += code;
          store_factor(code, factors + channel, c - first, packed);
        }
        store_factor(1, factors + channels_, c - first, packed);
      }
    }
  }
}

void FewChannelsConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  parallel_for(strips_.tasks(), target_.num_threads, [&](std::size_t task, int slot) noexcept {
    run_task(dispatch, strips_.task(task), scratch + as_size(slot) * participant_size_);
  });
}

void FewChannelsConvolution::run_task(const ConvolutionDispatch& dispatch, const PaddedStrips::Task& task,
                                      std::uint8_t* own) const noexcept {
  const auto** rows = reinterpret_cast<const std::uint8_t**>(own + rows_);
  std::uint8_t* const ring = own + ring_at_;
  FewChannelsRun run = {.rows = rows,
                        .row_count = as_size(geometry_.kernel_height),
                        .offsets = offsets_.data(),
                        .segments = offsets_.size(),
                        .filter = dispatch.filter,
                        .pixels = as_size(task.columns),
                        .channels = channels_,
                        .offset = dispatch.channels.offset,
                        .multiplier = dispatch.channels.multiplier,
                        .filter_zero_point = dispatch.channels.filter_zero_point,
                        .output_zero_point = dispatch.output_zero_point,
                        .flip = dispatch.output_flip,
                        .output = own + codes_,
                        .output_channel_stride = as_size(strip_columns_)};
  std::int64_t loaded = 0;
  for (std::int64_t row = task.first_row; row < task.end_row; ++row) {
    const std::int64_t top = row * geometry_.stride_height;
    loaded = ring_.fill(top, loaded, ring, [&](std::int64_t padded_row, std::uint8_t* target) {
      load_row(dispatch.source, task, padded_row, target);
    });
    for (std::int64_t r = 0; r < geometry_.kernel_height; ++r) {
      rows[r] = ring + ring_.offset(top + r * geometry_.dilation_height);
    }
    std::uint8_t* output = strips_.output(dispatch, task, row);
    if (writes_rows()) {
      run.output = output;
      run.output_channel_stride = as_size(geometry_.output.c);
    }
    kernels_.convolve(run);
    if (!writes_rows()) {
      target_.kernels().pack->transpose({.input = own + codes_,
                                         .input_row_stride = as_size(strip_columns_),
                                         .rows = channels_,
                                         .columns = run.pixels,
                                         .flip = 0,
                                         .output = output,
                                         .output_row_stride = as_size(geometry_.output.w)});
    }
    strips_.finish(dispatch, task, row, row + 1);
  }
}

// A padded row's part in a strip, as windows read it.
void FewChannelsConvolution::load_row(const ActivationSource& source, const PaddedStrips::Task& task,
                                      std::int64_t padded_row, std::uint8_t* target) const noexcept {
  const std::int64_t count = strips_.columns_read(task.columns), row = padded_row - geometry_.padding_top;
  const std::int64_t column = task.first_column - geometry_.padding_left;
  const auto [begin, end] = columns_inside(geometry_, padded_row, task.first_column, count);
  for (std::int64_t group = 0; group < groups_; ++group) {
    std::uint8_t* of_group = target + as_size(group) * group_bytes_;
    std::memset(of_group, source.zero_point, as_size(begin * kGroup));
    std::memset(of_group + end * kGroup, source.zero_point, as_size((count - end) * kGroup));
  }
  if (begin == end) return;
  load_pixels(
      source,
      source.data + task.image * geometry_.input.n + row * geometry_.input.h + (column + begin) * geometry_.input.w,
      end - begin, target + begin * kGroup);
}

void FewChannelsConvolution::load_pixels(const ActivationSource& source, const std::uint8_t* codes, std::int64_t count,
                                         std::uint8_t* target) const noexcept {
  const PackKernels& pack = *target_.kernels().pack;
  const PlaneStrides& strides = geometry_.input;
  if (strides.w != 1) {
    pack.gather_groups({.columns = codes,
                        .column_stride = as_size(strides.w),
                        .count = as_size(count),
                        .k = as_size(geometry_.input_channels),
                        .flip = source.flip,
                        .output = target,
                        .group_stride = group_bytes_});
    return;
  }
  // Planes behind the last one meet zeros of the filter: any are read.
  const std::int64_t last = geometry_.input_channels - 1;
  const std::size_t nr = round_up(as_size(count), kFewChannelsPixels);
  for (std::int64_t channel = 0; channel <= last; channel += kGroup, target += group_bytes_) {
    const auto plane = [&](std::int64_t i) { return codes + std::min(channel + i, last) * strides.c; };
    pack.interleave_panels({.rows = {plane(0), plane(1), plane(2), plane(3)},
                            .count = as_size(count),
                            .flip = source.flip,
                            .nr = nr,
                            .panel_stride = 0,
                            .output = target});
  }
}

std::string FewChannelsConvolution::describe() const {
  return "algorithm: direct, neighbouring outputs of a row as lanes\nkernel: " + kernel_words(target_, "few_channels") +
         "\nwhy: " + counted(geometry_.output_channels, "channel") +
         " would fill a part of a product's columns\ntaps: " +
         std::to_string(geometry_.kernel_height * geometry_.kernel_width) + " of " + counted(groups_, "group") +
         " of four channels\ntile: " + strips_.describe();
}

// The share of a window's taps along an axis that are inside the input.
double share_inside(std::int64_t outputs, std::int64_t stride, std::int64_t kernel, std::int64_t dilation,
                    std::int64_t padding, std::int64_t input) {
  double inside = 0.0;
  for (std::int64_t tap = 0; tap < kernel; ++tap) {
    inside += as_number(indices_inside(tap * dilation - padding, stride, input, outputs).count());
  }
  return inside / (as_number(outputs) * as_number(kernel));
}

// Beyond which a product is as fast: of some vectors of pixels whose windows have many codes more than of others.
double most_channels(const ConvolutionGeometry& geometry, const FewChannelsKernels& kernels) {
  constexpr std::int64_t kManyColumns = 64, kManyTaps = 9, kManyChannels = 16;
  const bool has_many = geometry.output_width >= kManyColumns && geometry.input_channels >= kManyChannels &&
                        geometry.kernel_height * geometry.kernel_width >= kManyTaps;
  return has_many ? kernels.most_channels_of_many : kernels.most_channels;
}

// Whether the output channels are few enough, all counted in channels of a window's products: of a last group that is
// not full as many more products are zeros, rows are interleaved once a band, and products can leave out taps of
// dilated windows in the padding.
bool are_few(const ConvolutionGeometry& geometry, const FewChannelsKernels& kernels) {
  constexpr double kInterleaving = 3.6, kRowsOfBand = 16.0;
  const double channels = as_number(geometry.output_channels) *
                          as_number(divide_up(geometry.input_channels, kGroup) * kGroup) /
                          as_number(geometry.input_channels);
  const double taps = as_number(geometry.kernel_height) * as_number(geometry.kernel_width);
  const double rows_loaded = (kRowsOfBand + geometry.window_rows() - 1.0) / kRowsOfBand;
  double share = 1.0;
  if (geometry.dilation_height > 1) {
    share *= share_inside(geometry.output_height, geometry.stride_height, geometry.kernel_height,
                          geometry.dilation_height, geometry.padding_top, geometry.input_height);
  }
  if (geometry.dilation_width > 1) {
    share *= share_inside(geometry.output_width, geometry.stride_width, geometry.kernel_width, geometry.dilation_width,
                          geometry.padding_left, geometry.input_width);
  }
  return channels + kInterleaving * rows_loaded / taps <= most_channels(geometry, kernels) * share;
}

}  // namespace

bool few_channels_applies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  const FewChannelsKernels* kernels = target.kernels().few_channels;
  if (kernels == nullptr || geometry.groups != 1 || geometry.ends_in_sums() || geometry.stride_width != 1) return false;
  const ConvolutionGeometry joined = joined_rows(geometry);
  return joined.output_width >= kLeastColumns && (joined.input.c == 1 || joined.input.w == 1) &&
         (joined.output.c == 1 || joined.output.w == 1) &&
         PaddedStrips::applies(joined, strip_columns(joined) + as_number(kLeastStripColumns), joined.window_rows()) &&
         are_few(geometry, *kernels);
}

std::unique_ptr<ConvolutionAlgorithm> make_few_channels_convolution(const ConvolutionGeometry& geometry,
                                                                    const ExecutionTarget& target) {
  return std::make_unique<FewChannelsConvolution>(geometry, target);
}

}  // namespace dmlcpu
