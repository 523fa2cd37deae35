// ELEMENT_WISE_QUANTIZED_LINEAR_ADD: tensors a, a scale, a zero point, b, b scale, b zero point, output scale, output
// zero point, output.
#include "operators/operator.h"
#include "operators/scaled_runs.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t {
  kA,
  kAScale,
  kAZeroPoint,
  kB,
  kBScale,
  kBZeroPoint,
  kOutputScale,
  kOutputZeroPoint,
  kOutput
};

class QuantizedLinearAdd final : public CompiledOperator {
 public:
  QuantizedLinearAdd(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}) {
    for (const std::size_t scale : {kAScale, kBScale, kOutputScale}) desc().tensor(scale);
  }

  std::string describe() const override {
    return "algorithm: one pass\nkernel: add\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const AddOperand a = operand(tensors, kA, kAScale, kAZeroPoint);
    const AddOperand b = operand(tensors, kB, kBScale, kBZeroPoint);
    const AddOperand output = operand(tensors, kOutput, kOutputScale, kOutputZeroPoint);
    const bool whole_pieces = runs_.stride(0) == 1 && runs_.stride(1) == 1 && runs_.stride(2) == 1;

    parallel_for(runs_.task_count(), target().num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = runs_.piece(task);
      const std::size_t chunk = whole_pieces ? piece.size : kChunk;
      for (std::size_t r = 0; r < piece.run_count; ++r) {
        const StridedRuns::Offsets offsets = runs_.offsets(piece.first_run + r);
        for (std::size_t begin = 0; begin < piece.size; begin += chunk) {
          run_chunk(tensors, offsets, piece.begin + begin, std::min(chunk, piece.size - begin), a, b, output);
        }
      }
    });
  }

 private:
  AddOperand operand(const TensorPointers& tensors, Tensor codes, Tensor scale, Tensor zero_point) const {
    const DataType type = desc().tensor(codes).type;
    const std::uint8_t flip = offset_flip(type);
    return {.scale = value_as_float(tensors[scale], DataType::float32),
            .zero_point = value_as_float(tensors[zero_point], type) + flip,
            .flip = flip};
  }

  void run_chunk(const TensorPointers& tensors, const StridedRuns::Offsets& offsets, std::size_t begin,
                 std::size_t count, const AddOperand& a, const AddOperand& b, const AddOperand& output) const {
    const auto code = [&](Tensor tensor, std::size_t run_operand) {
      return static_cast<std::uint8_t*>(tensors[tensor]) + offsets[run_operand] +
             static_cast<std::int64_t>(begin) * runs_.stride(run_operand);
    };
    ChunkBuffer a_buffer, b_buffer, output_buffer;
    std::uint8_t* target_codes = code(kOutput, 0);
    const bool direct = runs_.stride(0) == 1 || count == 1;
    target().kernels().add->run(
        {.a = static_cast<const std::uint8_t*>(gather(code(kA, 1), DataType::uint8, runs_.stride(1), count, a_buffer)),
         .b = static_cast<const std::uint8_t*>(gather(code(kB, 2), DataType::uint8, runs_.stride(2), count, b_buffer)),
         .output = direct ? target_codes : output_buffer.bytes,
         .count = count,
         .a_parameters = a,
         .b_parameters = b,
         .output_parameters = output});
    if (!direct) scatter(output_buffer, DataType::uint8, target_codes, runs_.stride(0), count);
  }

  StridedRuns runs_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_linear_add(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedLinearAdd>(std::move(desc), target);
}

}  // namespace dmlcpu
