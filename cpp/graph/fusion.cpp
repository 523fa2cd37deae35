#include "graph/fusion.h"

#include <algorithm>
#include <span>

#include "graph/strides.h"
#include "operators/strides/packed_layout.h"

namespace dmlcpu {
namespace {

bool same_sizes(const TensorLayout& a, const TensorLayout& b) { return a.rank == b.rank && a.sizes == b.sizes; }

// Where pixels are apart a stage is a call for each of them, which these channels at least are worth.
constexpr std::int64_t kFewestChannelsApart = 16;

// With channels innermost, without gaps.
bool is_dense(const TensorLayout& layout) { return same_strides(layout, channels_last_strides(layout)); }

bool are_floats_to_change(const TensorLayout& layout) {
  return layout.type == DataType::float32 &&
         (is_dense(layout) || (layout.rank > 1 && layout.sizes[1] >= kFewestChannelsApart));
}

class Fuser {
 public:
  explicit Fuser(PlacedGraph& placed) : placed_(placed), steps_(placed.steps), uses_(placed.buffers.size()) {
    for (const GraphStep& step : placed.steps) {
      for (const std::optional<Placement>& tensor : step.tensors) {
        if (tensor) ++uses_[tensor->buffer];
      }
    }
  }

  void fuse() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!may_be_stage(steps_[i])) continue;
      const std::span<const std::size_t> operands = steps_[i].node->stage_role.stage_operands();
      // Of several convolutions the last: what it writes is in a cache still.
      for (std::size_t producer = i; producer-- > 0;) {
        const auto operand = std::ranges::find_if(operands, [&](std::size_t number) {
          return feeds(producer, i, number) && others_are_dense(steps_[i], number);
        });
        if (operand == operands.end()) continue;
        join(producer, i, *operand);
        break;
      }
    }
  }

 private:
  // As far as its operator, its output and the sizes of its operands are concerned.
  static bool may_be_stage(const GraphStep& step) {
    const StageRole& role = step.node->stage_role;
    const TensorLayout& output = step.tensors.back()->layout;
    const bool of_floats = role.elements == StageElements::floats;
    if (role.operand_count == 0 || !(of_floats ? are_floats_to_change(output) : is_dense(output))) return false;
    return std::ranges::all_of(role.stage_operands(), [&](std::size_t number) {
      if (number >= step.inputs) return false;  // compiling the step will say so
      const std::optional<Placement>& operand = step.tensors[number];
      return operand && same_sizes(operand->layout, output);
    });
  }

  static bool others_are_dense(const GraphStep& step, std::size_t at_hand) {
    return std::ranges::all_of(step.node->stage_role.stage_operands(), [&](std::size_t number) {
      return number == at_hand || is_dense(step.tensors[number]->layout);
    });
  }

  // The convolution that a step is a stage of, or is.
  std::size_t head_of(std::size_t step) const {
    while (steps_[step].stage_operand) --step;
    return step;
  }

  // Whether the tensor of that number is what a convolution and its stages, the last of which is the producer, compute:
  // the whole of it, each element as itself, and read by no other.
  bool feeds(std::size_t producer, std::size_t reader, std::size_t number) const {
    const std::size_t head = head_of(producer);
    const bool is_last = !steps_[producer + 1].stage_operand;  // the reader is none yet
    const StageRole& role = steps_[head].node->stage_role;
    if (!role.takes_stages || producer - head == kMostStages || !is_last) return false;
    if (role.elements != steps_[reader].node->stage_role.elements) return false;
    constexpr std::size_t kWriterAndReader = 2;
    const Placement &output = *steps_[producer].tensors.back(), &operand = *steps_[reader].tensors[number];
    return output.buffer == operand.buffer && output.offset == operand.offset &&
           same_sizes(output.layout, operand.layout) && same_strides(output.layout, operand.layout.strides) &&
           (role.elements == StageElements::floats || is_dense(output.layout)) &&
           !placed_.buffers[output.buffer].bound && uses_[output.buffer] == kWriterAndReader;
  }

  void join(std::size_t producer, std::size_t last, std::size_t operand) {
    const auto step = [&](std::size_t index) { return steps_.begin() + static_cast<std::ptrdiff_t>(index); };
    const std::size_t first = last - (producer - head_of(producer)) - 1;
    placed_.buffers[steps_[producer].tensors.back()->buffer].bytes = 0;
    std::rotate(step(head_of(producer)), step(producer + 1), step(last));
    steps_[last].stage_operand = operand;

    Placement output = *steps_[last].tensors.back();
    if (is_dense(output.layout)) {
      output.layout.strides = channels_last_strides(output.layout);  // axes of length 1 may have had any
    }
    for (std::size_t i = first; i <= last; ++i) {
      move_elements(*steps_[i].tensors.back(), output);
      if (steps_[i].stage_operand) move_elements(*steps_[i].tensors[*steps_[i].stage_operand], output);
    }
  }

  // To the place of others, of their own type.
  static void move_elements(Placement& elements, const Placement& to) {
    const DataType type = elements.layout.type;
    elements = to;
    elements.layout.type = type;
  }

  PlacedGraph& placed_;
  std::vector<GraphStep>& steps_;
  std::vector<std::size_t> uses_;  // of each buffer, as tensors of steps
};

}  // namespace

void fuse_steps(PlacedGraph& placed) {
  const auto takes_stages = [](const GraphStep& step) { return step.node->stage_role.takes_stages; };
  if (std::ranges::any_of(placed.steps, takes_stages)) Fuser(placed).fuse();
}

}  // namespace dmlcpu
