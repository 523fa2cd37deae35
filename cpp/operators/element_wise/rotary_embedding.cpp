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
#include "operators/element_wise/row_blocks.h"
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
        runs_(runs()),
        blocks_(runs_, kTensors, kChunkBytes / kBlock) {
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
      blocks_.visit(runs_, piece,
                    [&](const StridedRuns::Offsets& offsets, std::size_t rows, std::size_t columns) noexcept {
                      rotate_together(tensors, {offsets, rows, columns});
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

  void rotate_together(const TensorPointers& tensors, const StridedRuns::Block& block) const noexcept {
    std::array<Half, 2> halves;
    const auto gathered = [&](bool second) {
      Half& to = halves[second];
      gather(half(tensors, kX, block.offsets, second), kX, block, to.x);
      gather(half(tensors, kCosines, block.offsets, second), kCosines, block, to.cosines);
      gather(half(tensors, kSines, block.offsets, second), kSines, block, to.sines);
      return RotationHalf{.input = to.x, .cosines = to.cosines, .sines = to.sines, .output = to.output};
    };
    target().kernels().float_functions->rotate({.first = gathered(false),
                                                .second = gathered(true),
                                                .count = block.rows * block.columns,
                                                .rows = 1,
                                                .input_row_stride = 0,
                                                .cosines_row_stride = 0,
                                                .sines_row_stride = 0,
                                                .output_row_stride = 0});
    for (const bool second : {false, true}) {
      float* output = half(tensors, kOutput, block.offsets, second);
      const float* from = halves[second].output;
      for_each_element(kOutput, block, [&](std::int64_t offset) noexcept { output[offset] = *from++; });
    }
  }

  void gather(const float* first, Tensor tensor, const StridedRuns::Block& block, float* to) const noexcept {
    for_each_element(tensor, block, [&](std::int64_t offset) noexcept { *to++ = first[offset]; });
  }

  template <class Visit>
  void for_each_element(Tensor tensor, const StridedRuns::Block& block, const Visit& visit) const noexcept {
    const Rows rows = runs_.rows_of(tensor, block.rows, block.columns);
    for (std::size_t row = 0; row < rows.rows; ++row) {
      for (std::size_t column = 0; column < rows.columns; ++column) {
        visit(static_cast<std::int64_t>(row) * rows.row_stride +
              static_cast<std::int64_t>(column) * rows.column_stride);
      }
    }
  }

  std::size_t axis_;
  StridedRuns runs_;
  RowBlocks blocks_;
  std::array<std::int64_t, kTensors> to_second_;  // elements, from the first of a pair
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_rotary_embedding(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<RotaryEmbedding>(std::move(desc), target);
}

}  // namespace dmlcpu
