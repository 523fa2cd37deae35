// ROTARY_EMBEDDING: tensors x, cosines, sines, output, FLOAT32, of equal sizes (a stride of 0 repeats); attribute axis,
// along which the two elements of a pair lie. A pair is turned by an angle. Of graphs alone.
//
//   output 0 = x 0 * cosine 0 - x 1 * sine 0
//   output 1 = x 1 * cosine 1 + x 0 * sine 1
//
//   {N, heads, tokens, 2, pairs}    a head's halves are the pairs
//   {N, heads, tokens, pairs, 2}    neighbours are
#include <algorithm>
#include <array>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kX, kCosines, kSines, kOutput, kTensors };

// A tensor's elements in the first place of all pairs.
TensorLayout first_half(const TensorLayout& layout, std::size_t axis) {
  TensorLayout half = layout;
  half.rank = layout.rank - 1;
  for (std::size_t i = axis; i < half.rank; ++i) {
    half.sizes[i] = layout.sizes[i + 1];
    half.strides[i] = layout.strides[i + 1];
  }
  return half;
}

class RotaryEmbedding final : public CompiledOperator {
 public:
  RotaryEmbedding(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kOutput).rank)),
        runs_(runs()) {
    for (std::size_t i = 0; i < kTensors; ++i) to_second_[i] = desc().tensor(i).strides[axis_];
  }

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), "float_functions") + ", rotate\n" +
           (takes_rows() ? "" : "pairs: brought together\n") + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const StridedRuns::Tasks tasks = runs_.tasks(target().num_threads);
    parallel_for(tasks.count(), target().num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = tasks.piece(task);
      if (takes_rows()) {
        runs_.for_each_block(piece, piece.run_count, piece.size,
                             [&](const StridedRuns::Block& block) noexcept { rotate_rows(tensors, block); });
        return;
      }
      runs_.for_each_block(piece, 1, kBlock, [&](const StridedRuns::Block& block) noexcept {
        rotate_together(tensors, block.offsets, block.columns);
      });
    });
  }

 private:
  static constexpr std::size_t kBlock = 256;  // pairs that are brought together
  struct Half {
    float x[kBlock], cosines[kBlock], sines[kBlock], output[kBlock];
  };

  StridedRuns runs() const {
    std::array<TensorLayout, kTensors> halves;
    std::array<const TensorLayout*, kTensors> operands;
    for (std::size_t i = 0; i < kTensors; ++i) {
      const TensorLayout& layout = desc().tensor(i);
      if (layout.rank < 2 || layout.rank != desc().tensor(kOutput).rank || layout.sizes[axis_] != 2) {
        throw std::invalid_argument(desc().type + ": the axis of all tensors has 2 elements, another one pairs");
      }
      halves[i] = first_half(layout, axis_);
      operands[i] = &halves[i];
    }
    return StridedRuns(operands, kOutput);
  }

  bool takes_rows() const {
    constexpr std::size_t kShortest = 8;
    const auto is_row = [&](std::size_t tensor) { return runs_.stride(tensor) == 1; };
    return runs_.length() >= kShortest && is_row(kX) && is_row(kCosines) && is_row(kSines) && is_row(kOutput);
  }

  // The first or second elements of pairs, from an offset on.
  float* half(const TensorPointers& tensors, Tensor tensor, const StridedRuns::Offsets& offsets, bool second) const {
    return static_cast<float*>(tensors[tensor]) + offsets[tensor] + (second ? to_second_[tensor] : 0);
  }

  void rotate_rows(const TensorPointers& tensors, const StridedRuns::Block& block) const noexcept {
    const auto of = [&](bool second) {
      return RotationHalf{.input = half(tensors, kX, block.offsets, second),
                          .cosines = half(tensors, kCosines, block.offsets, second),
                          .sines = half(tensors, kSines, block.offsets, second),
                          .output = half(tensors, kOutput, block.offsets, second)};
    };
    target().kernels().float_functions->rotate({.first = of(false),
                                                .second = of(true),
                                                .count = block.columns,
                                                .rows = block.rows,
                                                .input_row_stride = runs_.row_stride(kX),
                                                .cosines_row_stride = runs_.row_stride(kCosines),
                                                .sines_row_stride = runs_.row_stride(kSines),
                                                .output_row_stride = runs_.row_stride(kOutput)});
  }

  // Of so many pairs of a row.
  void rotate_together(const TensorPointers& tensors, const StridedRuns::Offsets& offsets,
                       std::size_t count) const noexcept {
    std::array<Half, 2> halves;
    const auto gathered = [&](bool second) {
      Half& to = halves[second];
      return RotationHalf{.input = gather(half(tensors, kX, offsets, second), kX, count, to.x),
                          .cosines = gather(half(tensors, kCosines, offsets, second), kCosines, count, to.cosines),
                          .sines = gather(half(tensors, kSines, offsets, second), kSines, count, to.sines),
                          .output = to.output};
    };
    target().kernels().float_functions->rotate({.first = gathered(false),
                                                .second = gathered(true),
                                                .count = count,
                                                .rows = 1,
                                                .input_row_stride = 0,
                                                .cosines_row_stride = 0,
                                                .sines_row_stride = 0,
                                                .output_row_stride = 0});
    scatter(halves, half(tensors, kOutput, offsets, false), count);
  }

  // Elements as they lie, if they are neighbours, else copied. Of neighbours that are pairs the distance is a constant,
  // so that the compiler makes vectors of them.
  const float* gather(const float* first, Tensor tensor, std::size_t count, float* to) const noexcept {
    const std::int64_t step = runs_.stride(tensor);
    if (step == 1) return first;
    if (step == 2) {
      for (std::size_t i = 0; i < count; ++i) to[i] = first[2 * i];
    } else {
      for (std::size_t i = 0; i < count; ++i, first += step) to[i] = *first;
    }
    return to;
  }

  void scatter(const std::array<Half, 2>& halves, float* output, std::size_t count) const noexcept {
    const std::int64_t step = runs_.stride(kOutput), to_second = to_second_[kOutput];
    const auto& [first, second] = halves;
    if (step == 2 && to_second == 1) {
      for (std::size_t i = 0; i < count; ++i) {
        output[2 * i] = first.output[i];
        output[2 * i + 1] = second.output[i];
      }
      return;
    }
    for (std::size_t i = 0; i < count; ++i, output += step) {
      output[0] = first.output[i];
      output[to_second] = second.output[i];
    }
  }

  std::size_t axis_;
  StridedRuns runs_;
  std::array<std::int64_t, kTensors> to_second_;  // elements, from the first of a pair
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_rotary_embedding(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<RotaryEmbedding>(std::move(desc), target);
}

}  // namespace dmlcpu
