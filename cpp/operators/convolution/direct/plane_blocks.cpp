#include "operators/convolution/direct/plane_blocks.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "operators/sizes.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kLanes = kPlaneLanes, kBytes = kPlaneBytes, kMostSteps = kPlaneSteps;

// Neighbours of a row whose taps are within one load.
std::int64_t lanes_of_load(const ConvolutionGeometry& geometry) {
  return std::min(kLanes, 1 + (kBytes - window_columns(geometry)) / geometry.stride_width);
}

// Rows of a window from an output's to those of the output below it; 0 where they have none in common.
std::size_t row_stride_of(const ConvolutionGeometry& geometry) {
  if (geometry.stride_height % geometry.dilation_height != 0) return 0;
  return as_size(geometry.stride_height / geometry.dilation_height);
}

bool may_descend(const ConvolutionGeometry& geometry) {
  return plane_windows_descend(as_size(geometry.kernel_height), as_size(geometry.kernel_width),
                               row_stride_of(geometry));
}

using Words = std::vector<std::uint64_t>;

// Arrays one behind the other, equal ones once.
class DistinctArrays {
 public:
  // Where it begins.
  std::size_t add(const Words& array) {
    const auto [known, is_new] = begins_.try_emplace(array, words_.size());
    if (is_new) words_.insert(words_.end(), array.begin(), array.end());
    return known->second;
  }
  const Words& words() const { return words_; }

 private:
  std::map<Words, std::size_t> begins_;
  Words words_;
};

struct Output {
  std::int64_t row, column;
};

class BlockPlan {
 public:
  explicit BlockPlan(const ConvolutionGeometry& geometry)
      : geometry_(geometry), groups_(plane_groups(as_size(geometry.kernel_width))) {
    find_runs();
    descends_ = may_descend(geometry) && cost_of_descents() <= cost_of_runs();
    descends_ ? add_descents() : add_runs();
  }

  bool descends() const { return descends_; }
  const std::vector<PlaneBlock>& blocks() const { return blocks_; }
  const Words& orders() const { return orders_.words(); }
  const Words& inside() const { return inside_.words(); }

 private:
  struct Run {
    std::int64_t first, count;
  };

  // Parts of the rows of outputs as equal as they can be.
  std::int64_t steps_of_descent() const {
    return divide_up(geometry_.output_height, divide_up(geometry_.output_height, kMostSteps));
  }

  void add_descents() {
    const std::int64_t width = geometry_.output_width, height = geometry_.output_height, most = steps_of_descent();
    const std::int64_t of_load = lanes_of_load(geometry_);
    for (std::int64_t row = 0; row < height; row += most) {
      for (std::int64_t column = 0; column < width; column += of_load) {
        std::vector<Output> lanes;
        for (std::int64_t i = column; i < std::min(column + of_load, width); ++i) lanes.push_back({row, i});
        add_block(lanes, std::min(most, height - row));
      }
    }
  }

  // In halves of an operation of vectors, for each channel. A run of one step brings its rows to their lanes,
  // multiplies them and makes codes; a step of a descent brings fewer rows, and its codes have more in common. Before
  // and behind its steps a descent takes as long as for two of them.
  static constexpr std::int64_t kStepsOfBlock = 2, kCostOfStep = 7, kCostOfRun = 8;

  std::int64_t cost_of_descents() const {
    const std::int64_t steps = steps_of_descent();
    const std::int64_t blocks =
        divide_up(geometry_.output_width, lanes_of_load(geometry_)) * divide_up(geometry_.output_height, steps);
    const auto row_stride = static_cast<std::int64_t>(row_stride_of(geometry_));
    const std::int64_t of_step = 2 * (geometry_.kernel_height + row_stride) * static_cast<std::int64_t>(groups_);
    return blocks * (steps + kStepsOfBlock) * (of_step + kCostOfStep);
  }

  std::int64_t cost_of_runs() const {
    const std::int64_t of_run = 4 * geometry_.kernel_height * static_cast<std::int64_t>(groups_);
    return static_cast<std::int64_t>(runs_.size()) * (of_run + kCostOfRun);
  }

  // Outputs of a plane that a load has the taps of.
  void find_runs() {
    const std::int64_t outputs = geometry_.image_pixels(), most = kBytes - window_columns(geometry_);
    for (std::int64_t number = 0; number < outputs;) {
      Run run = {number, 1};
      const std::int64_t from = first_tap(output_of(number));
      for (++number; number < outputs && run.count < kLanes; ++number, ++run.count) {
        const std::int64_t tap = first_tap(output_of(number));
        if (tap < from || tap - from > most) break;
      }
      runs_.push_back(run);
    }
  }

  void add_runs() {
    for (const Run& run : runs_) {
      std::vector<Output> lanes;
      for (std::int64_t i = 0; i < run.count; ++i) lanes.push_back(output_of(run.first + i));
      add_block(lanes, 1);
    }
  }

  Output output_of(std::int64_t number) const {
    return {number / geometry_.output_width, number % geometry_.output_width};
  }

  void add_block(const std::vector<Output>& lanes, std::int64_t steps) {
    const std::int64_t moved = (steps - 1) * static_cast<std::int64_t>(row_stride_of(geometry_));
    blocks_.push_back({.first = static_cast<std::ptrdiff_t>(first_tap(lanes[0])),
                       .order = orders_.add(order_of(lanes)) * sizeof(std::uint64_t),
                       .inside = inside_.add(inside_of(lanes, moved + geometry_.kernel_height)),
                       .output = as_size(lanes[0].row * geometry_.output_width + lanes[0].column),
                       .lanes = lanes.size(),
                       .steps = as_size(steps)});
  }

  // Where the first tap of an output's window is, from the beginning of a plane; in the padding perhaps.
  std::int64_t first_tap(const Output& output) const {
    return first_row(output) * geometry_.input.h + first_column(output);
  }
  std::int64_t first_row(const Output& output) const {
    return output.row * geometry_.stride_height - geometry_.padding_top;
  }
  std::int64_t first_column(const Output& output) const {
    return output.column * geometry_.stride_width - geometry_.padding_left;
  }

  // Calls with the group, the byte of a load's order and the first column of each lane's taps.
  template <class Function>
  void for_taps(const std::vector<Output>& lanes, Function function) const {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      for (std::int64_t k = 0; k < geometry_.kernel_width; ++k) {
        function(lanes[lane], as_size(k / 4), lane * 4 + as_size(k % 4), k * geometry_.dilation_width);
      }
    }
  }

  Words order_of(const std::vector<Output>& lanes) const {
    Words order(groups_ * kPlaneBytes / sizeof(std::uint64_t));
    auto* const bytes = reinterpret_cast<std::uint8_t*>(order.data());
    for_taps(lanes, [&](const Output& output, std::size_t group, std::size_t byte, std::int64_t column) {
      // Within the load: 0 .. 63.
      bytes[group * kPlaneBytes + byte] = static_cast<std::uint8_t>(first_tap(output) + column - first_tap(lanes[0]));
    });
    return order;
  }

  Words inside_of(const std::vector<Output>& lanes, std::int64_t rows) const {
    Words inside(as_size(rows) * groups_);
    for_taps(lanes, [&](const Output& output, std::size_t group, std::size_t byte, std::int64_t of_window) {
      const std::int64_t column = first_column(output) + of_window;
      if (column < 0 || column >= geometry_.input_width) return;
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t row = first_row(output) + r * geometry_.dilation_height;
        if (row >= 0 && row < geometry_.input_height) inside[as_size(r) * groups_ + group] |= std::uint64_t{1} << byte;
      }
    });
    return inside;
  }

  const ConvolutionGeometry& geometry_;
  const std::size_t groups_;
  bool descends_;
  std::vector<Run> runs_;
  std::vector<PlaneBlock> blocks_;
  DistinctArrays orders_, inside_;
};

}  // namespace

bool has_few_plane_blocks(const ConvolutionGeometry& geometry) {
  constexpr double kMostOfRuns = 4096, kMostOfDescents = 16384;  // masks of all rows are kept, where they differ
  const double blocks_of_row = static_cast<double>(divide_up(geometry.output_width, lanes_of_load(geometry)));
  const double blocks = blocks_of_row * as_number(geometry.output_height);
  return blocks <= (may_descend(geometry) ? kMostOfDescents : kMostOfRuns);
}

PlaneBlocks::PlaneBlocks(const ConvolutionGeometry& geometry) {
  const BlockPlan plan(geometry);
  row_stride_ = plan.descends() ? row_stride_of(geometry) : 0;
  blocks_ = plan.blocks();
  inside_ = plan.inside();
  const std::size_t order_bytes = plan.orders().size() * sizeof(std::uint64_t);
  orders_ = AlignedBuffer(order_bytes);
  std::memcpy(orders_.data(), plan.orders().data(), order_bytes);
}

}  // namespace dmlcpu
