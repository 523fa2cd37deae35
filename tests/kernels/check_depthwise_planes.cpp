#include <algorithm>

#include "check.h"
#include "kernels/dispatch.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t rows, columns, channels, blocks, plane_step, row_stride;
  bool has_zero_points;

  std::size_t groups() const { return plane_groups(columns); }
};

// Blocks of any outputs, with taps anywhere among the bytes that may be read.
class Case {
 public:
  Case(Check& check, const Shape& shape)
      : shape_(shape),
        row_step_(static_cast<std::ptrdiff_t>(check.below(40))),
        output_step_(static_cast<std::ptrdiff_t>(16 + check.below(10))),
        input_((shape.channels - 1) * shape.plane_step + 1 + check.below(check.one_in(2) ? 300 : 900)),
        orders_(2 * shape.groups() * kPlaneBytes),
        filter_(shape.channels * shape.rows * shape.groups() * 4),
        offset_(shape.channels),
        zero_point_(shape.channels),
        multiplier_(shape.channels),
        input_flip_(check.flip()),
        flip_(check.flip()),
        padding_(check.code()),
        output_zero_point_(check.zero_point()) {
    for (std::uint8_t& code : input_) code = check.code();
    for (std::uint8_t& order : orders_) order = static_cast<std::uint8_t>(check.below(kPlaneBytes));
    draw_channels(check);
    for (std::size_t block = 0; block < shape.blocks; ++block) draw_block(check);
    plane_step_ = outputs_ + check.below(9);
  }

  void run(Check& check, DepthwisePlanesFunction convolve, Edge edge) const {
    std::vector<std::uint8_t> expected = canaries<std::uint8_t>((shape_.channels - 1) * plane_step_ + outputs_);
    fill_expected(expected);
    const GuardedBuffer<std::uint8_t> input(input_, edge), output(expected.size(), edge);
    const GuardedBuffer<std::int8_t> filter(filter_, edge);
    const GuardedBuffer<std::int32_t> offset(offset_, edge), zero_point(zero_point_, edge);
    const GuardedBuffer<float> multiplier(multiplier_, edge);
    const GuardedBuffer<std::uint8_t> orders(orders_, edge);
    const GuardedBuffer<std::uint64_t> inside(inside_, edge);
    convolve({.rows = shape_.rows,
              .columns = shape_.columns,
              .row_step = row_step_,
              .row_stride = shape_.row_stride,
              .output_step = output_step_,
              .blocks = blocks_.data(),
              .block_count = blocks_.size(),
              .orders = orders.data(),
              .inside = inside.data(),
              .input = input.data(),
              .input_plane_step = static_cast<std::ptrdiff_t>(shape_.plane_step),
              .readable = input.data(),
              .readable_end = input.data() + input_.size(),
              .input_flip = input_flip_,
              .padding = padding_,
              .channels = shape_.channels,
              .filter = filter.data(),
              .offset = offset.data(),
              .multiplier = multiplier.data(),
              .filter_zero_point = shape_.has_zero_points ? zero_point.data() : nullptr,
              .output_zero_point = output_zero_point_,
              .flip = flip_,
              .output = output.data(),
              .output_plane_step = static_cast<std::ptrdiff_t>(plane_step_)});
    check.equal(output, expected);
  }

 private:
  void draw_channels(Check& check) {
    for (std::size_t i = 0; i < filter_.size(); ++i) {
      const bool is_tap = i / 4 % shape_.groups() * 4 + i % 4 < shape_.columns;
      filter_[i] = is_tap ? static_cast<std::int8_t>(check.code()) : std::int8_t{0};
    }
    const bool has_large_multipliers = check.one_in(3);
    for (std::size_t channel = 0; channel < shape_.channels; ++channel) {
      offset_[channel] = static_cast<std::int32_t>(check.word() >> check.below(20));
      zero_point_[channel] = static_cast<std::int8_t>(check.code());
      multiplier_[channel] =
          has_large_multipliers && check.one_in(4) ? check.scale() : 0.0001F * static_cast<float>(check.code());
    }
  }

  // Behind all outputs of the blocks before.
  void draw_block(Check& check) {
    PlaneBlock block{};
    block.lanes = check.one_in(3) ? kPlaneLanes : 1 + check.below(kPlaneLanes);
    block.steps = shape_.row_stride == 0 ? 1 : check.one_in(4) ? kPlaneSteps : 1 + check.below(kPlaneSteps);
    // Mostly such that all channels have some taps.
    const std::size_t behind = input_.size() - (shape_.channels - 1) * shape_.plane_step;
    const std::size_t within = check.one_in(4) ? input_.size() : behind;
    block.first = static_cast<std::ptrdiff_t>(check.below(within + 70)) - 70;
    block.order = check.below(2) * shape_.groups() * kPlaneBytes;
    block.inside = inside_.size();
    block.output = outputs_;
    draw_masks(check, block);
    outputs_ += (block.steps - 1) * static_cast<std::size_t>(output_step_) + block.lanes + check.below(2);
    blocks_.push_back(block);
  }

  void draw_masks(Check& check, const PlaneBlock& block) {
    for (std::size_t row = 0; row < rows_of(block); ++row) {
      for (std::size_t group = 0; group < shape_.groups(); ++group) {
        std::uint64_t mask = 0;
        for (std::size_t byte = 0; byte < kPlaneBytes; ++byte) {
          if (all_have(byte_of_tap(block, row, group, byte)) && !check.one_in(5)) mask |= std::uint64_t{1} << byte;
        }
        inside_.push_back(mask);
      }
    }
  }

  std::size_t rows_of(const PlaneBlock& block) const { return (block.steps - 1) * shape_.row_stride + shape_.rows; }

  // From the beginning of a plane.
  std::ptrdiff_t byte_of_tap(const PlaneBlock& block, std::size_t row, std::size_t group, std::size_t byte) const {
    const std::uint8_t order = orders_[block.order + group * kPlaneBytes + byte];
    return block.first + static_cast<std::ptrdiff_t>(row) * row_step_ + order;
  }

  // Whether all channels have the tap.
  bool all_have(std::ptrdiff_t tap) const {
    return tap >= 0 && static_cast<std::size_t>(tap) + (shape_.channels - 1) * shape_.plane_step < input_.size();
  }

  std::uint8_t expected_code(std::size_t channel, const PlaneBlock& block, std::size_t step, std::size_t lane) const {
    std::int64_t sum = offset_[channel], codes = 0;
    for (std::size_t r = 0; r < shape_.rows; ++r) {
      const std::size_t row = step * shape_.row_stride + r;
      for (std::size_t k = 0; k < shape_.columns; ++k) {
        const std::size_t group = k / 4, byte = lane * 4 + k % 4;
        std::uint8_t code = padding_;
        if ((inside_[block.inside + row * shape_.groups() + group] >> byte & 1) != 0) {
          const auto tap = static_cast<std::size_t>(byte_of_tap(block, row, group, byte));
          code = input_[channel * shape_.plane_step + tap] ^ input_flip_;
        }
        sum += code * filter_[((channel * shape_.rows + r) * shape_.groups() + group) * 4 + k % 4];
        codes += code;
      }
    }
    if (shape_.has_zero_points) sum -= codes * zero_point_[channel];
    const float scaled = static_cast<float>(reference_wrap(sum)) * multiplier_[channel];
    return reference_code(scaled, output_zero_point_, flip_);
  }

  void fill_expected(std::vector<std::uint8_t>& expected) const {
    for (std::size_t channel = 0; channel < shape_.channels; ++channel) {
      for (const PlaneBlock& block : blocks_) {
        for (std::size_t step = 0; step < block.steps; ++step) {
          const std::size_t output = block.output + step * static_cast<std::size_t>(output_step_);
          for (std::size_t lane = 0; lane < block.lanes; ++lane) {
            expected[channel * plane_step_ + output + lane] = expected_code(channel, block, step, lane);
          }
        }
      }
    }
  }

  Shape shape_;
  std::ptrdiff_t row_step_, output_step_;
  std::vector<std::uint8_t> input_;
  std::vector<PlaneBlock> blocks_;
  std::size_t outputs_ = 0, plane_step_ = 0;
  std::vector<std::uint8_t> orders_;
  std::vector<std::uint64_t> inside_;
  std::vector<std::int8_t> filter_;
  std::vector<std::int32_t> offset_, zero_point_;
  std::vector<float> multiplier_;
  std::uint8_t input_flip_, flip_, padding_;
  float output_zero_point_;
};

void check_kernels(Check& check, const DepthwisePlanesKernels& kernels) {
  struct Window {
    std::size_t rows, columns, row_stride;
  };
  for (const Edge edge : kEdges) {
    for (const std::size_t channels : Sizes{1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 18, 35}) {
      for (const Window& window : std::initializer_list<Window>{{3, 3, 0},
                                                                {3, 3, 1},
                                                                {3, 3, 2},
                                                                {3, 1, 0},
                                                                {5, 5, 0},
                                                                {5, 5, 1},
                                                                {5, 5, 2},
                                                                {1, 1, 0},
                                                                {2, 4, 0},
                                                                {1, 9, 0},
                                                                {7, 7, 0},
                                                                {4, 2, 0}}) {
        for (const std::size_t plane_step : Sizes{0, 9, 49, 130, 400}) {
          for (const bool has_zero_points : {false, true}) {
            const Shape shape = {.rows = window.rows,
                                 .columns = window.columns,
                                 .channels = channels,
                                 .blocks = 1 + check.below(4),
                                 .plane_step = plane_step,
                                 .row_stride = window.row_stride,
                                 .has_zero_points = has_zero_points};
            describe_case(
                "depthwise planes, window %zu x %zu, row stride %zu, channels %zu, planes %zu apart, zero points %d, "
                "edge %d",
                window.rows, window.columns, window.row_stride, channels, plane_step, has_zero_points,
                static_cast<int>(edge));
            Case(check, shape).run(check, kernels.convolve, edge);
          }
        }
      }
    }
  }
}

}  // namespace

void check_depthwise_planes(Check& check) {
  if (check.table.depthwise_planes != nullptr) check_kernels(check, *check.table.depthwise_planes);
}

}  // namespace dmlcpu::test
