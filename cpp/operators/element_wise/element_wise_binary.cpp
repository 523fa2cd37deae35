// ELEMENT_WISE_BINARY: tensors a, b, output, FLOAT32, of equal sizes (a stride of 0 broadcasts); attribute function, a
// FloatBinary. Of integers see integer_binary. Of graphs alone.
#include <array>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/element_wise/integer_binary.h"
#include "operators/element_wise/row_blocks.h"
#include "operators/element_wise/short_planes.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kA, kB, kOutput };

// In the order of FloatBinary.
constexpr const char* kFunctions[kFloatBinaryCount] = {"add", "subtract", "multiply", "divide", "maximum", "minimum"};

class ElementWiseBinary final : public CompiledOperator {
 public:
  ElementWiseBinary(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}),
        blocks_(runs_, 3, sizeof(float)),
        function_(index_attribute(desc(), "function", kFloatBinaryCount)) {}

  std::string describe() const override {
    return "algorithm: one pass\nkernel: " + kernel_words(target(), "float_functions") + ", " + kFunctions[function_] +
           "\n" + (ShortPlanes::suits(runs_) ? "planes: brought together\n" : "") +
           runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    if (ShortPlanes::suits(runs_)) return run_short_planes(tensors);
    if (takes_rows()) return run_rows(tensors);
    const StridedRuns::Tasks tasks = runs_.tasks(target().num_threads);
    parallel_for(tasks.count(), target().num_threads, [&](std::size_t task, int) noexcept {
      Buffers buffers;
      blocks_.visit(runs_, tasks.piece(task),
                    [&](const StridedRuns::Offsets& offsets, std::size_t rows, std::size_t columns) noexcept {
                      compute(tensors, offsets, rows, columns, buffers);
                    });
    });
  }

  ElementStage make_stage(const TensorPointers& tensors) const override {
    return FloatBinaryStage{target().kernels().float_functions->binary[function_],
                            {.a = static_cast<const float*>(tensors[kA]),
                             .b = static_cast<const float*>(tensors[kB]),
                             .a_repeats = false,
                             .b_repeats = false,
                             .output = nullptr,
                             .count = 0}};
  }

 private:
  struct Buffers {
    ChunkBuffer a, b, output;
  };

  // Whether the kernel takes rows as they lie. Shorter ones are quicker where many are one run.
  bool takes_rows() const {
    constexpr std::size_t kShortest = 16;
    const auto is_row = [&](std::size_t operand) { return runs_.stride(operand) == 1 || runs_.stride(operand) == 0; };
    return runs_.length() >= kShortest && runs_.stride(0) == 1 && is_row(1) && is_row(2);
  }

  void run_rows(const TensorPointers& tensors) const {
    const StridedRuns::Tasks tasks = runs_.tasks(target().num_threads);
    parallel_for(tasks.count(), target().num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = tasks.piece(task);
      runs_.for_each_block(piece, piece.run_count, piece.size, [&](const StridedRuns::Block& block) noexcept {
        target().kernels().float_functions->binary[function_](
            {.a = static_cast<const float*>(tensors[kA]) + block.offsets[1],
             .b = static_cast<const float*>(tensors[kB]) + block.offsets[2],
             .a_repeats = runs_.stride(1) == 0,
             .b_repeats = runs_.stride(2) == 0,
             .output = static_cast<float*>(tensors[kOutput]) + block.offsets[0],
             .count = block.columns,
             .rows = block.rows,
             .a_row_stride = runs_.row_stride(1),
             .b_row_stride = runs_.row_stride(2),
             .output_row_stride = runs_.row_stride(0)});
      });
    });
  }

  void run_short_planes(const TensorPointers& tensors) const {
    const ShortPlanes short_planes(runs_, sizeof(float));
    short_planes.run(target().num_threads, [&](const StridedRuns::Offsets& offsets, std::size_t planes) noexcept {
      Buffers buffers;
      const auto input = [&](Tensor tensor, std::size_t operand, ChunkBuffer& buffer) {
        const auto* first = static_cast<const float*>(tensors[tensor]) + offsets[operand];
        if (short_planes.dense(operand)) return first;
        auto* together = reinterpret_cast<float*>(buffer.bytes);
        short_planes.gather(operand, first, planes, together);
        return static_cast<const float*>(together);
      };
      float* output = static_cast<float*>(tensors[kOutput]) + offsets[0];
      float* results = short_planes.dense(0) ? output : reinterpret_cast<float*>(buffers.output.bytes);
      target().kernels().float_functions->binary[function_]({.a = input(kA, 1, buffers.a),
                                                             .b = input(kB, 2, buffers.b),
                                                             .a_repeats = false,
                                                             .b_repeats = false,
                                                             .output = results,
                                                             .count = planes * short_planes.plane()});
      if (!short_planes.dense(0)) short_planes.scatter(0, results, planes, output);
    });
  }

  void compute(const TensorPointers& tensors, const StridedRuns::Offsets& offsets, std::size_t rows,
               std::size_t columns, Buffers& buffers) const {
    const PackKernels& pack = *target().kernels().pack;
    const auto first = [&](Tensor tensor, std::size_t operand) {
      return static_cast<float*>(tensors[tensor]) + offsets[operand];
    };
    const auto repeats = [&](std::size_t operand) {
      return runs_.stride(operand) == 0 && (rows == 1 || runs_.row_stride(operand) == 0);
    };
    // One element, where it repeats.
    const auto input = [&](Tensor tensor, std::size_t operand, ChunkBuffer& buffer) {
      const Rows read = repeats(operand) ? Rows{1, 1, 0, 0} : runs_.rows_of(operand, rows, columns);
      return static_cast<const float*>(gather(first(tensor, operand), DataType::float32, read, pack, buffer));
    };
    float* output = first(kOutput, 0);
    const Rows written = runs_.rows_of(0, rows, columns);
    const bool direct = written.contiguous();
    target().kernels().float_functions->binary[function_](
        {.a = input(kA, 1, buffers.a),
         .b = input(kB, 2, buffers.b),
         .a_repeats = repeats(1),
         .b_repeats = repeats(2),
         .output = direct ? output : reinterpret_cast<float*>(buffers.output.bytes),
         .count = rows * columns});
    if (!direct) scatter(buffers.output, DataType::float32, output, written, pack);
  }

  StridedRuns runs_;
  RowBlocks blocks_;
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
