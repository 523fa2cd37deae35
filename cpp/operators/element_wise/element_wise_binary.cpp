// ELEMENT_WISE_BINARY: tensors a, b, output, FLOAT32, of equal sizes (a stride of 0 broadcasts); attribute function, a
// FloatBinary. Of integers see integer_binary. Of graphs alone.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/element_wise/integer_binary.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/staging.h"
#include "operators/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kA, kB, kOutput };

// In the order of FloatBinary.
constexpr const char* kFunctions[kFloatBinaryCount] = {"add", "subtract", "multiply", "divide", "maximum", "minimum"};

class ElementWiseBinary final : public CompiledOperator {
 public:
  ElementWiseBinary(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}),
        function_(index_attribute(desc(), "function", kFloatBinaryCount)) {}

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), "float_functions") + ", " + kFunctions[function_] +
           "\n" + runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const bool whole_pieces = runs_.stride(0) == 1 && runs_.stride(1) <= 1 && runs_.stride(2) <= 1;
    parallel_for(runs_.task_count(), target().num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = runs_.piece(task);
      const std::size_t chunk = whole_pieces ? piece.size : kChunk;
      for (std::size_t r = 0; r < piece.run_count; ++r) {
        const StridedRuns::Offsets offsets = runs_.offsets(piece.first_run + r);
        for (std::size_t begin = 0; begin < piece.size; begin += chunk) {
          run_chunk(tensors, offsets, piece.begin + begin, std::min(chunk, piece.size - begin));
        }
      }
    });
  }

 private:
  void run_chunk(const TensorPointers& tensors, const StridedRuns::Offsets& offsets, std::size_t begin,
                 std::size_t count) const {
    const auto first = [&](Tensor tensor, std::size_t operand) {
      return static_cast<float*>(tensors[tensor]) + offsets[operand] +
             static_cast<std::int64_t>(begin) * runs_.stride(operand);
    };
    const PackKernels& pack = *target().kernels().pack;
    ChunkBuffer a_buffer, b_buffer, output_buffer;
    // One element, where it repeats.
    const auto input = [&](Tensor tensor, std::size_t operand, ChunkBuffer& buffer) {
      const std::int64_t stride = runs_.stride(operand);
      return static_cast<const float*>(
          gather(first(tensor, operand), DataType::float32, {1, stride == 0 ? 1 : count, 0, stride}, pack, buffer));
    };
    float* output = first(kOutput, 0);
    const bool direct = runs_.stride(0) == 1 || count == 1;
    target().kernels().float_functions->binary[function_](
        {.a = input(kA, 1, a_buffer),
         .b = input(kB, 2, b_buffer),
         .a_repeats = runs_.stride(1) == 0,
         .b_repeats = runs_.stride(2) == 0,
         .output = direct ? output : reinterpret_cast<float*>(output_buffer.bytes),
         .count = count});
    if (!direct) scatter(output_buffer, DataType::float32, output, {1, count, 0, runs_.stride(0)}, pack);
  }

  StridedRuns runs_;
  std::size_t function_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_element_wise_binary(OperatorDesc desc, ExecutionTarget target) {
  const DataType type = desc.tensor(kOutput).type;
  if (type != DataType::float32) return compile_integer_binary(std::move(desc), target);
  if (desc.tensor(kA).type != type || desc.tensor(kB).type != type) {
    throw std::invalid_argument(desc.type + ": a, b and output differ in data type");
  }
  return std::make_unique<ElementWiseBinary>(std::move(desc), target);
}

}  // namespace dmlcpu
