// The loop that quantizing and dequantizing share: an input, a scale and a zero point, of the output's sizes and of any
// strides, either parameter possibly one constant.
//
// Planes of runs (strided_runs.h) are cut into blocks of rows that a kernel takes at once:
//
//   parameters within a run                  a block                                            parameters for the
//   kernel the same                                 rows of any length                                 one a row of
//   elements, the same in every row       rows of up to kChunk elements; contiguous short    one an element
//                                            ones are folded to longer rows
//   of elements, or runs of a few elements   a chunk of contiguous elements                     one an element, spread
//
// Of rows that are the same throughout, as those of an input that repeats, one is computed and the rest copied.
//
// What a kernel cannot read or write in place is staged (staging.h): 8-bit elements that are neighbours across rows are
// transposed, so the wider of input and output decides the order of the axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "operators/operator.h"
#include "operators/quantization/scaled_block.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

// A tensor that may be absent, as null.
inline const TensorLayout* optional_tensor(const OperatorDesc& desc, std::size_t index) {
  const std::optional<TensorLayout>& layout = desc.optional_tensor(index);
  return layout ? &*layout : nullptr;
}

class ScaledRuns {
 public:
  // An absent scale or zero point is a constant, given to run. zero_point_offset is added to the others.
  ScaledRuns(const TensorLayout& input, const TensorLayout* scale, const TensorLayout* zero_point,
             const TensorLayout& output, const ExecutionTarget& target, float zero_point_offset);

  struct Operands {
    const void* input;
    const void* scale;
    const void* zero_point;
    void* output;
    float constant_scale = 1.0F;
    float constant_zero_point = 0.0F;
  };

  // kernel(const ScaledBlock&) on blocks that cover the tensors. In reverse, the last ones come first: what a pass
  // before has left in the caches.
  template <class Kernel>
  void run(const Operands& operands, const Kernel& kernel, bool reverse = false) const {
    const StridedRuns::Tasks tasks = runs_.tasks(num_threads_);
    parallel_for(tasks.count(), num_threads_, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = tasks.piece(reverse ? tasks.count() - 1 - task : task);
      Parameters parameters;
      runs_.for_each_block(piece, max_rows_, max_columns_, [&](const StridedRuns::Block& block) noexcept {
        run_block(operands, block.offsets, block.rows, block.columns, parameters, kernel);
      });
      if (streams_) finish_streams();
    });
  }

  // The plan in words, one property a line, for CompiledOperator::describe.
  std::string describe() const;

 private:
  enum Operand : std::size_t { kOutput, kInput, kScale, kZeroPoint };

  // How many parameters a block has.
  enum class Spread : std::uint8_t {
    rows,     // one a row
    columns,  // one a column, the same in all rows
    folded,   // the same for short contiguous rows, several of which count as one
    elements  // one an element of a contiguous block
  };

  // The parameters of the last block, kept while the next one uses the same ones, as every pixel of an {N, H, W, C}
  // tensor with a scale for each channel does.
  struct Parameters {
    std::int64_t scale_index = -1, zero_point_index = -1;
    std::size_t count = 0, columns = 0;
    alignas(64) float scale[kChunk];
    alignas(64) float zero_point[kChunk];
  };

  void choose_blocks();
  bool row_invariant() const { return runs_.row_stride(kScale) == 0 && runs_.row_stride(kZeroPoint) == 0; }
  // Whether every row of a plane has the elements and the parameters of its first.
  bool repeats() const { return runs_.rows() > 1 && runs_.row_stride(kInput) == 0 && row_invariant(); }
  // Whether a kernel takes a block of an operand as it lies in memory.
  bool in_place(Operand operand, std::size_t rows, std::size_t columns) const;
  static void finish_streams();
  void repeat_row(void* first, std::size_t row_stride, std::size_t rows, std::size_t columns) const;
  void store_staged(const ChunkBuffer& buffer, void* output, std::size_t rows, std::size_t columns) const;

  // Brings the parameters of a block into floats.
  void load(const Operands& operands, const StridedRuns::Offsets& offsets, std::size_t rows, std::size_t columns,
            Parameters& parameters) const;
  void load_one(const void* data, DataType type, Operand operand, std::size_t rows, std::size_t columns,
                float* values) const;

  template <class Kernel>
  void run_block(const Operands& operands, const StridedRuns::Offsets& offsets, std::size_t rows, std::size_t columns,
                 Parameters& parameters, const Kernel& kernel) const {
    const std::size_t kernel_rows = repeats_ ? 1 : rows;
    load(operands, offsets, kernel_rows, columns, parameters);
    ChunkBuffer input_buffer, output_buffer;
    void* output = element(operands.output, output_type_, offsets[kOutput]);
    const bool output_in_place = in_place(kOutput, rows, columns) && !streams_;
    ScaledBlock block = {
        .input = element(operands.input, input_type_, offsets[kInput]),
        .output = output_in_place ? output : output_buffer.bytes,
        .count = columns,
        .scale = parameters.scale,
        .zero_point = parameters.zero_point,
        .per_element = spread_ != Spread::rows,
        .rows = kernel_rows,
        .input_row_stride = static_cast<std::size_t>(runs_.row_stride(kInput)),
        .output_row_stride = output_in_place ? static_cast<std::size_t>(runs_.row_stride(kOutput)) : columns};
    if (!in_place(kInput, kernel_rows, columns)) {
      block.input = gather(block.input, input_type_, runs_.rows_of(kInput, kernel_rows, columns), pack_, input_buffer);
      block.input_row_stride = columns;
    }
    call(kernel, block);
    if (repeats_) repeat_row(block.output, block.output_row_stride, rows, columns);
    if (!output_in_place) store_staged(output_buffer, output, rows, columns);
  }

  template <class Kernel>
  void call(const Kernel& kernel, ScaledBlock block) const {
    if (spread_ == Spread::elements) {
      block.count *= block.rows;
      block.rows = 1;
    }
    if (spread_ != Spread::folded) return kernel(block);
    const std::size_t columns = block.count, rest = block.rows % fold_;
    block.rows /= fold_;
    block.count = block.input_row_stride = block.output_row_stride = columns * fold_;
    if (block.rows != 0) kernel(block);
    if (rest == 0) return;
    const auto done = static_cast<std::int64_t>(block.rows * block.count);
    block.input = element(block.input, input_type_, done);
    block.output = element(block.output, output_type_, done);
    block.count = rest * columns;
    block.rows = 1;
    kernel(block);
  }

  StridedRuns runs_;
  DataType input_type_, output_type_;
  DataType scale_type_, zero_point_type_;  // unknown for a constant
  float zero_point_offset_;
  const PackKernels& pack_;
  int num_threads_;
  bool streams_;
  bool repeats_;
  Spread spread_ = Spread::rows;
  std::size_t fold_ = 1;  // rows that count as one
  std::size_t max_rows_ = 1, max_columns_ = 1;
};

}  // namespace dmlcpu
