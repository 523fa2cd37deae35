#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iterator>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t window, slices, stride, rows, pixels, channels, gap;
  bool has_filter, ends_in_sums;

  std::size_t pixel_stride() const { return channels + gap; }
  std::size_t row_stride() const { return pixels * pixel_stride() + gap; }
  std::size_t outputs() const { return (rows - 1) * row_stride() + (pixels - 1) * pixel_stride() + channels; }
};

// The codes of a 3x3 window, by rows, at the limits of kernels that add up products of pairs, and of sets of pairs, in
// 16 bits: 128 for those of a pair that are of one sign, and 257 in magnitude for those of columns 0 and 1 of rows 0
// and 1, and for all others. Beyond them is one code, one pair or one set, as `excess` says.
enum class Excess { none, code, pair, set };

using Taps = std::array<int, 9>;

bool pairs_are_within(const Taps& taps) {
  static constexpr std::size_t kPairs[][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}, {7, 8}};
  return std::all_of(std::begin(kPairs), std::end(kPairs), [&](const auto& pair) {
    const int a = taps[pair[0]], b = taps[pair[1]];
    return std::max(a, 0) + std::max(b, 0) <= 128 && std::max(-a, 0) + std::max(-b, 0) <= 128;
  });
}

Taps draw_limits(Check& check, Excess excess) {
  static constexpr std::size_t kFirstSet[] = {0, 1, 3, 4}, kSecondSet[] = {2, 5, 6, 7, 8};
  Taps taps = {};
  if (excess == Excess::code) {  // of filters with zero points
    taps[check.below(9)] = 128;
    return taps;
  }
  if (excess == Excess::pair) {
    const bool first = check.one_in(2);
    taps[first ? 0 : 7] = check.one_in(2) ? 127 : 2;
    taps[first ? 3 : 8] = 129 - taps[first ? 0 : 7];
    if (check.one_in(2)) std::transform(taps.begin(), taps.end(), taps.begin(), std::negate<int>());
    return taps;
  }
  const bool first_exceeds = check.one_in(2);
  const auto draw_set = [&](int sum, const auto& set) {
    for (const std::size_t tap : set) {
      const int most = std::min(sum, 127);
      taps[tap] =
          tap == set[std::size(set) - 1] ? sum : static_cast<int>(check.below(static_cast<std::size_t>(most) + 1));
      sum -= taps[tap];
      if (check.one_in(2)) taps[tap] = -taps[tap];
    }
    return std::abs(taps[set[std::size(set) - 1]]) <= 127;
  };
  const int excess_sum = excess == Excess::set ? 258 : 257;
  while (!(draw_set(first_exceeds ? excess_sum : 257, kFirstSet) &&
           draw_set(first_exceeds ? 257 : excess_sum, kSecondSet) && pairs_are_within(taps))) {
  }
  return taps;
}

// Operands of channels in their own order, and in that of the kernel.
class Case {
 public:
  Case(Check& check, const Shape& shape)
      : check_(check), shape_(shape), codes_(shape.rows * shape.slices * shape.window) {
    // From windows that begin or end in the padding to those that are within the input.
    const auto extent = static_cast<std::ptrdiff_t>((shape.pixels - 1) * shape.stride + shape.window);
    left_ = static_cast<std::ptrdiff_t>(check.below(shape.window + 6)) - 4;
    columns_ = std::max<std::ptrdiff_t>(1, extent - left_ - 3 + static_cast<std::ptrdiff_t>(check.below(16)));
    column_step_ = static_cast<std::ptrdiff_t>(shape.channels + shape.gap);
    padding_code_ = check.code();
    input_flip_ = check.flip();
    for (std::vector<std::uint8_t>& codes : codes_) {
      codes.resize(static_cast<std::size_t>((columns_ - 1) * column_step_) + shape.channels);
      for (std::uint8_t& code : codes) code = check.code();
    }
    filter_.resize(shape.channels * shape.slices * shape.window * shape.window);
    // With zeros, sums are offsets.
    if (!check.one_in(8)) {
      for (std::int8_t& code : filter_) code = static_cast<std::int8_t>(check.code());
    }
    for (std::size_t channel = 0; channel < shape.channels; ++channel) {
      const bool is_limit = check.one_in(16);
      const auto any = static_cast<std::int32_t>(check.word()) >> check.below(24);
      offset_.push_back(is_limit ? check.one_of<std::int32_t>({INT32_MAX, INT32_MIN}) : any);
      multiplier_.push_back(is_limit           ? check.one_of<float>({1.0F, -1.0F, 0x1.fffffep-1F, -0x1.fffffep-1F})
                            : check.one_in(16) ? check.scale()
                                               : 0.0001F * static_cast<float>(check.code()));
      filter_zero_point_.push_back(static_cast<std::int8_t>(check.code()));
    }
    output_zero_point_ = check.zero_point();
    output_flip_ = check.flip();
    if (shape.window == 3 && !check.one_in(3)) draw_limits_of_channels();
  }

  void run(Edge edge) {
    std::deque<GuardedBuffer<std::uint8_t>> guarded_rows;
    std::vector<const std::uint8_t*> rows;
    for (const std::vector<std::uint8_t>& codes : codes_) {
      rows.push_back(guarded_rows.emplace_back(codes, edge).data());
    }
    const GuardedBuffer<std::uint8_t> padding(std::vector<std::uint8_t>(kWindowLanes, padding_code_), edge);
    // Whole lines, so that the filter is aligned at either edge.
    const GuardedBuffer<std::int8_t> filter(packed_filter(), edge);
    const GuardedBuffer<std::int32_t> offset(in_lanes(offset_), edge), zero_point(in_lanes(filter_zero_point_), edge);
    const GuardedBuffer<float> multiplier(in_lanes(multiplier_), edge);
    const GuardedBuffer<std::uint8_t> output(shape_.ends_in_sums ? 0 : shape_.outputs(), edge);
    const GuardedBuffer<std::int32_t> sums(shape_.ends_in_sums ? shape_.outputs() : 0, edge);
    const GuardedBuffer<std::int32_t> partial(shape_.slices > 1 ? shape_.pixels * kWindowLanes : 0, edge);
    check_.table.depthwise_window->convolve({.window = shape_.window,
                                             .slices = shape_.slices,
                                             .stride = shape_.stride,
                                             .rows = rows.data(),
                                             .column_step = column_step_,
                                             .first_column = -left_,
                                             .columns = columns_,
                                             .padding = padding.data(),
                                             .input_flip = input_flip_,
                                             .filter = filter.data(),
                                             .output_rows = shape_.rows,
                                             .pixels = shape_.pixels,
                                             .channels = shape_.channels,
                                             .offset = offset.data(),
                                             .multiplier = shape_.ends_in_sums ? nullptr : multiplier.data(),
                                             .filter_zero_point = shape_.has_filter ? zero_point.data() : nullptr,
                                             .output_zero_point = output_zero_point_,
                                             .flip = output_flip_,
                                             .output = shape_.ends_in_sums ? nullptr : output.data(),
                                             .output_pixel_stride = shape_.pixel_stride(),
                                             .output_row_stride = shape_.row_stride(),
                                             .sums = shape_.ends_in_sums ? sums.data() : nullptr,
                                             .partial_sums = shape_.slices > 1 ? partial.data() : nullptr});

    std::vector<std::uint8_t> expected = canaries<std::uint8_t>(output.size());
    std::vector<std::int32_t> expected_sums = canaries<std::int32_t>(sums.size());
    for (std::size_t row = 0; row < shape_.rows; ++row) {
      for (std::size_t pixel = 0; pixel < shape_.pixels; ++pixel) {
        for (std::size_t channel = 0; channel < shape_.channels; ++channel) {
          const std::int32_t sum = reference_sum(row, pixel, channel);
          const std::size_t element = row * shape_.row_stride() + pixel * shape_.pixel_stride() + channel;
          if (shape_.ends_in_sums) {
            expected_sums[element] = sum;
          } else {
            const float scaled = static_cast<float>(sum) * multiplier_[channel];
            expected[element] = reference_code(scaled, output_zero_point_, output_flip_);
          }
        }
      }
    }
    check_.equal(output, expected);
    check_.equal(sums, expected_sums);
  }

 private:
  // All channels at the limits, in most cases but one, whose codes exceed them; activations mostly as well.
  void draw_limits_of_channels() {
    const std::size_t exceeding = check_.below(2 * shape_.channels);
    const Excess excess = shape_.has_filter ? check_.one_of({Excess::code, Excess::pair, Excess::set})
                                            : check_.one_of({Excess::pair, Excess::set});
    for (std::size_t channel = 0; channel < shape_.channels; ++channel) {
      for (std::size_t slice = 0; slice < shape_.slices; ++slice) {
        const Taps taps = draw_limits(check_, channel == exceeding ? excess : Excess::none);
        const auto [least, most] = std::minmax_element(taps.begin(), taps.end());
        int zero_point = 0;
        if (shape_.has_filter) {
          // Slices share it.
          if (slice > 0) continue;
          zero_point = -128 - *least + static_cast<int>(check_.below(static_cast<std::size_t>(256 - *most + *least)));
          filter_zero_point_[channel] = zero_point;
        }
        std::transform(taps.begin(), taps.end(), &filter_[(channel * shape_.slices + slice) * 9],
                       [&](int tap) { return static_cast<std::int8_t>(tap + zero_point); });
      }
    }
    if (check_.one_in(4)) return;
    const std::uint8_t least = check_.one_in(2) ? 0 : 255;
    for (std::vector<std::uint8_t>& codes : codes_) {
      for (std::uint8_t& code : codes) code = (check_.one_in(2) ? least : 255) ^ input_flip_;
    }
  }

  std::int32_t reference_sum(std::size_t output_row, std::size_t pixel, std::size_t channel) const {
    std::int64_t sum = offset_[channel], codes = 0;
    const std::size_t rows = shape_.slices * shape_.window;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t k = 0; k < shape_.window; ++k) {
        const auto column = static_cast<std::ptrdiff_t>(pixel * shape_.stride + k) - left_;
        const bool is_padding = column < 0 || column >= columns_;
        const std::size_t element = static_cast<std::size_t>(column * column_step_) + channel;
        const std::uint8_t stored = is_padding ? padding_code_ : codes_[output_row * rows + row][element];
        const std::int64_t code = static_cast<std::uint8_t>(stored ^ input_flip_);
        sum += code * filter_[(channel * rows + row) * shape_.window + k];
        codes += code;
      }
    }
    if (shape_.has_filter) sum -= filter_zero_point_[channel] * codes;
    return reference_wrap(sum);
  }

  // Calls body(block, lane, channel) for the lanes of every block.
  template <class Body>
  void for_each_lane(const Body& body) const {
    std::size_t block = 0;
    for (std::size_t end = 0; end < shape_.channels; ++block) {
      const std::size_t left = shape_.channels - end;
      const std::size_t channels = left > 32 && shape_.channels >= 64 ? 64 : left > 16 ? 32 : 16;
      end = std::min(end + channels, shape_.channels);
      for (std::size_t vector = 0; vector < 4; ++vector) {
        for (std::size_t quarter = 0; quarter < 4; ++quarter) {
          for (std::size_t i = 0; i < 4; ++i) {
            const std::size_t channel = end - channels + quarter % (channels / 16) * 16 + vector * 4 + i;
            body(block, vector * 16 + quarter * 4 + i, channel);
          }
        }
      }
    }
  }

  template <class T>
  std::vector<T> in_lanes(const std::vector<T>& of_channels) const {
    std::vector<T> lanes;
    for_each_lane([&](std::size_t, std::size_t, std::size_t channel) { lanes.push_back(of_channels[channel]); });
    return lanes;
  }

  std::vector<std::int8_t> packed_filter() const {
    const std::size_t window = shape_.window, groups = window == 3 ? 3 : 7;
    std::vector<std::int8_t> packed;
    for_each_lane([&](std::size_t block, std::size_t lane, std::size_t channel) {
      packed.resize((block + 1) * shape_.slices * groups * kWindowLanes * 4);
      for (std::size_t slice = 0; slice < shape_.slices; ++slice) {
        const std::size_t of_block = block * shape_.slices + slice, of_channel = channel * shape_.slices + slice;
        put_slice(&packed[(of_block * groups * kWindowLanes + lane) * 4], &filter_[of_channel * window * window]);
      }
    });
    return packed;
  }

  // Puts the taps of a slice into the groups of a lane.
  void put_slice(std::int8_t* packed, const std::int8_t* taps) const {
    const std::size_t window = shape_.window;
    const auto put = [&](std::size_t group, std::size_t i, std::size_t row, std::size_t column) {
      packed[group * kWindowLanes * 4 + i] = taps[row * window + column];
    };
    for (std::size_t column = 0; column < window; ++column) {
      for (std::size_t row = 0; row < std::min<std::size_t>(window, 4); ++row) put(column, row, row, column);
    }
    for (std::size_t column = 0; window == 5 && column < 5; ++column) {
      // The last row: [0 - - -] [1 2 3 4] with stride 1, [0 1 2 3] [- - 4 -] with stride 2.
      const bool second = shape_.stride == 1 ? column > 0 : column == 4;
      put(second ? 6 : 5, second ? column - shape_.stride : column, 4, column);
    }
  }

  Check& check_;
  const Shape shape_;
  std::vector<std::vector<std::uint8_t>> codes_;  // of the rows of each output row
  std::ptrdiff_t left_, columns_, column_step_;
  std::uint8_t padding_code_, input_flip_, output_flip_;
  std::vector<std::int8_t> filter_;
  std::vector<std::int32_t> offset_, filter_zero_point_;
  std::vector<float> multiplier_;
  float output_zero_point_;
};

}  // namespace

void check_depthwise_window(Check& check) {
  for (const std::size_t window : Sizes{3, 5}) {
    for (const std::size_t stride : Sizes{1, 2}) {
      for (const std::size_t channels : Sizes{32, 33, 47, 48, 49, 63, 64, 65, 79, 80, 81, 95, 96, 97, 112, 144, 271}) {
        for (const std::size_t pixels : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 30, 33, 66}) {
          for (const Edge edge : kEdges) {
            const Shape shape = {.window = window,
                                 .slices = check.one_in(2) ? 1 : 2 + check.below(kMostWindowSlices - 1),
                                 .stride = stride,
                                 .rows = 1 + check.below(3),
                                 .pixels = pixels,
                                 .channels = channels,
                                 .gap = check.below(2) * 3,
                                 .has_filter = check.one_in(2),
                                 .ends_in_sums = check.one_in(3)};
            describe_case(
                "window %zu, slices %zu, stride %zu, rows %zu, pixels %zu, channels %zu, gap %zu, zero points %d, sums "
                "%d, edge %d",
                window, shape.slices, stride, shape.rows, pixels, channels, shape.gap, shape.has_filter,
                shape.ends_in_sums, static_cast<int>(edge));
            Case(check, shape).run(edge);
          }
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
