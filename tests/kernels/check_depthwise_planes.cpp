#include <algorithm>

#include "check.h"
#include "kernels/dispatch.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t rows, columns, channels, blocks, plane_step;
  bool has_zero_points;

  std::size_t groups() const { return plane_groups(columns); }
};

// Blocks of any outputs, with taps anywhere among the bytes that may be read.
class Case {
 public:
  Case(Check& check, const Shape& shape)
      : shape_(shape),
        row_step_(static_cast<std::ptrdiff_t>(check.below(40))),
        input_((shape.channels - 1) * shape.plane_step + 1 + check.below(check.one_in(2) ? 300 : 900)),
        orders_(shape.blocks * shape.groups() * kPlaneBytes),
        inside_(shape.blocks * shape.rows * shape.groups()),
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
    for (std::size_t i = 0; i < inside_.size() * kPlaneBytes; ++i) {
      if (may_be_inside(i) && !check.one_in(5)) inside_[i / 64] |= std::uint64_t{1} << i % 64;
    }
  }

  void run(Check& check, DepthwisePlanesFunction convolve, Edge edge) const {
    std::vector<std::uint8_t> expected = canaries<std::uint8_t>((shape_.channels - 1) * output_step_ + outputs_);
    fill_expected(expected);
    const GuardedBuffer<std::uint8_t> input(input_, edge), output(expected.size(), edge);
    const GuardedBuffer<std::int8_t> filter(filter_, edge);
    const GuardedBuffer<std::int32_t> offset(offset_, edge), zero_point(zero_point_, edge);
    const GuardedBuffer<float> multiplier(multiplier_, edge);
    const GuardedBuffer<std::uint8_t> orders(orders_, edge);
    std::ptrdiff_t lowest = 0, highest = 0;
    for (const PlaneBlock& block : blocks_) {
      const auto to_last = static_cast<std::ptrdiff_t>(shape_.rows - 1) * row_step_;
      lowest = std::min(lowest, block.first);
      highest = std::max(highest, block.first + to_last + static_cast<std::ptrdiff_t>(kPlaneBytes));
    }
    convolve({.rows = shape_.rows,
              .columns = shape_.columns,
              .row_step = row_step_,
              .blocks = blocks_.data(),
              .block_count = blocks_.size(),
              .orders = orders.data(),
              .inside = inside_.data(),
              .input = input.data(),
              .input_plane_step = static_cast<std::ptrdiff_t>(shape_.plane_step),
              .readable = input.data(),
              .readable_end = input.data() + input_.size(),
              .lowest = lowest,
              .highest = highest,
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
              .output_plane_step = static_cast<std::ptrdiff_t>(output_step_)});
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

  void draw_block(Check& check) {
    const std::size_t outputs = 1 + check.below(kPlaneLanes);
    // Mostly such that all channels have some taps.
    const std::size_t behind = input_.size() - (shape_.channels - 1) * shape_.plane_step;
    const std::size_t within = check.one_in(4) ? input_.size() : behind;
    const auto first = static_cast<std::ptrdiff_t>(check.below(within + 70)) - 70;
    blocks_.push_back({first, outputs_, outputs});
    outputs_ += outputs + check.below(2);
    output_step_ = outputs_ + check.below(9);
  }

  // From the beginning of a plane.
  std::ptrdiff_t byte_of_tap(std::size_t block, std::size_t row, std::size_t group, std::size_t byte) const {
    const std::uint8_t order = orders_[(block * shape_.groups() + group) * kPlaneBytes + byte];
    return blocks_[block].first + static_cast<std::ptrdiff_t>(row) * row_step_ + order;
  }

  // A bit of all masks: whether all channels have the tap.
  bool may_be_inside(std::size_t i) const {
    const std::size_t group = i / kPlaneBytes % shape_.groups(), of_row = i / kPlaneBytes / shape_.groups();
    const std::ptrdiff_t tap = byte_of_tap(of_row / shape_.rows, of_row % shape_.rows, group, i % kPlaneBytes);
    return tap >= 0 && static_cast<std::size_t>(tap) + (shape_.channels - 1) * shape_.plane_step < input_.size();
  }

  std::uint8_t expected_code(std::size_t channel, std::size_t block, std::size_t lane) const {
    std::int64_t sum = offset_[channel], codes = 0;
    for (std::size_t row = 0; row < shape_.rows; ++row) {
      for (std::size_t k = 0; k < shape_.columns; ++k) {
        const std::size_t group = k / 4, byte = lane * 4 + k % 4;
        const std::size_t of_row = (block * shape_.rows + row) * shape_.groups() + group;
        std::uint8_t code = padding_;
        if ((inside_[of_row] >> byte & 1) != 0) {
          const auto tap = static_cast<std::size_t>(byte_of_tap(block, row, group, byte));
          code = input_[channel * shape_.plane_step + tap] ^ input_flip_;
        }
        sum += code * filter_[((channel * shape_.rows + row) * shape_.groups() + group) * 4 + k % 4];
        codes += code;
      }
    }
    if (shape_.has_zero_points) sum -= codes * zero_point_[channel];
    const float scaled = static_cast<float>(reference_wrap(sum)) * multiplier_[channel];
    return reference_code(scaled, output_zero_point_, flip_);
  }

  void fill_expected(std::vector<std::uint8_t>& expected) const {
    for (std::size_t channel = 0; channel < shape_.channels; ++channel) {
      for (std::size_t block = 0; block < blocks_.size(); ++block) {
        for (std::size_t lane = 0; lane < blocks_[block].outputs; ++lane) {
          expected[channel * output_step_ + blocks_[block].output + lane] = expected_code(channel, block, lane);
        }
      }
    }
  }

  Shape shape_;
  std::ptrdiff_t row_step_;
  std::vector<std::uint8_t> input_;
  std::vector<PlaneBlock> blocks_;
  std::size_t outputs_ = 0, output_step_ = 0;
  std::vector<std::uint8_t> orders_;
  std::vector<std::uint64_t> inside_;
  std::vector<std::int8_t> filter_;
  std::vector<std::int32_t> offset_, zero_point_;
  std::vector<float> multiplier_;
  std::uint8_t input_flip_, flip_, padding_;
  float output_zero_point_;
};

void check_kernels(Check& check, const DepthwisePlanesKernels& kernels) {
  for (const Edge edge : kEdges) {
    for (const std::size_t channels : Sizes{1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 18, 35}) {
      for (const auto& [rows, columns] : std::initializer_list<std::pair<std::size_t, std::size_t>>{
               {3, 3}, {5, 5}, {1, 1}, {2, 4}, {1, 9}, {7, 7}, {4, 2}}) {
        for (const std::size_t plane_step : Sizes{0, 9, 49, 130, 400}) {
          for (const bool has_zero_points : {false, true}) {
            const Shape shape = {rows, columns, channels, 1 + check.below(4), plane_step, has_zero_points};
            describe_case("depthwise planes, window %zu x %zu, channels %zu, planes %zu apart, zero points %d, edge %d",
                          rows, columns, channels, plane_step, has_zero_points, static_cast<int>(edge));
            Case(check, shape).run(check, kernels.convolve, edge);
          }
        }
      }
    }
  }
}

}  // namespace

void check_depthwise_planes(Check& check) { check_kernels(check, *check.table.depthwise_planes); }

}  // namespace dmlcpu::test
