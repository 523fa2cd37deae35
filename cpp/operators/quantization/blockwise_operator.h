// What QUANTIZE and DEQUANTIZE share: tensors input, scale, zero point (may be absent), output; a scale and a zero
// point for each block. Codes of 4 bits pass through bytes of the offset domain 0..15 (nibble_staging.h), a chunk of
// kChunk elements at a time, so that the kernels of 8-bit codes compute them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/nibbles/nibbles.h"
#include "operators/operator.h"
#include "operators/quantization/blocked_runs.h"
#include "operators/quantization/scaled_block.h"

namespace dmlcpu {

class BlockwiseOperator : public CompiledOperator {
 public:
  enum Tensor : std::size_t { kInput, kScale, kZeroPoint, kOutput };  // operands of runs_ as well

  std::string describe() const final;

 protected:
  // Zero points reach compute() as the float32 of their integers, with zero_point_offset added; an absent one as
  // absent_zero_point.
  BlockwiseOperator(OperatorDesc&& desc, ExecutionTarget target, float zero_point_offset, float absent_zero_point);

  // Codes of 4 bits are bytes, of which compute() may leave any value in an output: they saturate at 15.
  virtual void compute(const ScaledBlock& block) const noexcept = 0;

  // A kernel from packed rows of the input to the output, in place of compute(), if the operator has one.
  virtual NibbleRowsFunction packed_rows_kernel() const { return nullptr; }
  virtual const char* kernel_family() const = 0;

  void run(const TensorPointers& tensors) const final;

 private:
  struct Workspace;

  int num_threads() const;
  bool takes_packed_rows() const;
  bool one_parameter_a_row() const { return runs_.stride(kScale) == 0 && runs_.stride(kZeroPoint) == 0; }
  bool takes_rows_in_place() const;
  void run_chunk(const TensorPointers& tensors, const OperandStrides& index, std::size_t rows, std::size_t columns,
                 Workspace& workspace) const noexcept;
  void load_parameters(const TensorPointers& tensors, const OperandStrides& index, std::size_t rows,
                       std::size_t columns, bool per_element, Workspace& workspace) const noexcept;
  void load_values(const void* data, const TensorLayout& layout, std::int64_t index, std::int64_t stride,
                   std::size_t count, float* values) const noexcept;

  TensorLayout input_, scale_;
  std::optional<TensorLayout> zero_point_;
  TensorLayout output_;
  BlockedRuns runs_;
  bool rows_in_place_;
  float zero_point_offset_, absent_zero_point_;
};

}  // namespace dmlcpu
