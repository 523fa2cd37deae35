// ELEMENT_WISE_QUANTIZED_LINEAR_ADD: tensors a, a scale, a zero point, b, b scale, b zero point, output scale, output
// zero point, output.
//
// The kernel takes contiguous codes. Whatever is not, such as an operand that repeats, is staged in blocks of rows.
#include <algorithm>
#include <atomic>

#include "operators/operator.h"
#include "operators/staging.h"
#include "operators/strided_runs.h"
#include "runtime/thread_pool.h"

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

// Where a run is shorter, several are staged as one block.
constexpr std::size_t kLongRun = 512;

// The side of a block of codes that are neighbours across rows.
constexpr std::size_t kTile = 64;
static_assert(kTile * kTile == kChunkBytes);

// An operand's codes as the kernel reads them, kept while the next block has the same ones.
struct StagedCodes {
  ChunkBuffer buffer;
  const void* first = nullptr;
  std::size_t rows = 0, columns = 0;
};

class QuantizedLinearAdd final : public CompiledOperator {
 public:
  QuantizedLinearAdd(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kA), &desc().tensor(kB)}),
        streams_(runs_.dense(0) && dmlcpu::streams(3 * static_cast<std::size_t>(desc().tensor(kA).element_count()))) {
    for (const std::size_t scale : {kAScale, kBScale, kOutputScale}) desc().tensor(scale);
    choose_blocks();
  }

  std::string describe() const override {
    return "algorithm: one pass\nkernel: add\nblocks: up to " + std::to_string(max_rows_) + " x " +
           std::to_string(max_columns_) + " elements" + (streams_ ? ", stored past the caches\n" : "\n") +
           runs_.describe(target().num_threads);
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const AddRun add = whole_run(tensors);
    parallel_for(runs_.task_count(), target().num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = runs_.piece(task);
      StagedCodes a_codes, b_codes;
      for (std::size_t column = 0; column < piece.size; column += max_columns_) {
        const std::size_t columns = std::min(max_columns_, piece.size - column);
        for (std::size_t row = 0; row < piece.run_count;) {
          const std::size_t first = piece.first_run + row;
          const std::size_t rows = runs_.rows_from(first, std::min(max_rows_, piece.run_count - row));
          run_block(tensors, first, piece.begin + column, rows, columns, add, a_codes, b_codes);
          row += rows;
        }
      }
      // Streaming stores come before whatever tells another thread that they are done: a release is not enough.
      if (streams_) std::atomic_thread_fence(std::memory_order_seq_cst);
    });
  }

  CodeStage make_stage(const TensorPointers& tensors) const override {
    return AddStage{target().kernels().add->run, whole_run(tensors)};
  }

 private:
  void choose_blocks() {
    const bool strided = runs_.apart(0) || runs_.apart(1) || runs_.apart(2);
    const bool staged = streams_ || runs_.stride(0) != 1 || runs_.stride(1) != 1 || runs_.stride(2) != 1;
    const std::size_t length = runs_.length();
    max_columns_ = staged ? std::min(length, kChunkBytes) : length;
    if (strided) max_columns_ = std::min(max_columns_, std::max(kTile, kChunkBytes / runs_.rows()));
    max_rows_ = strided || length < kLongRun ? std::max<std::size_t>(kChunkBytes / max_columns_, 1) : 1;
  }

  // The operands and their parameters; where results go is left open.
  AddRun whole_run(const TensorPointers& tensors) const {
    return {.a = static_cast<const std::uint8_t*>(tensors[kA]),
            .b = static_cast<const std::uint8_t*>(tensors[kB]),
            .output = nullptr,
            .count = 0,
            .a_parameters = operand(tensors, kA, kAScale, kAZeroPoint),
            .b_parameters = operand(tensors, kB, kBScale, kBZeroPoint),
            .output_parameters = operand(tensors, kOutput, kOutputScale, kOutputZeroPoint)};
  }

  AddOperand operand(const TensorPointers& tensors, Tensor codes, Tensor scale, Tensor zero_point) const {
    const DataType type = desc().tensor(codes).type;
    const std::uint8_t flip = offset_flip(type);
    return {.scale = value_as_float(tensors[scale], DataType::float32),
            .zero_point = value_as_float(tensors[zero_point], type) + flip,
            .flip = flip};
  }

  Rows rows_of(std::size_t run_operand, std::size_t rows, std::size_t columns) const {
    return {rows, columns, runs_.row_stride(run_operand), runs_.stride(run_operand)};
  }

  const std::uint8_t* staged(const std::uint8_t* first, const Rows& rows, StagedCodes& codes) const {
    if (first == codes.first && rows.rows == codes.rows && rows.columns == codes.columns) return codes.buffer.bytes;
    const void* gathered = gather(first, DataType::uint8, rows, *target().kernels().pack, codes.buffer);
    if (gathered == codes.buffer.bytes) {
      codes.first = first;
      codes.rows = rows.rows;
      codes.columns = rows.columns;
    }
    return static_cast<const std::uint8_t*>(gathered);
  }

  void run_block(const TensorPointers& tensors, std::size_t run, std::size_t column, std::size_t rows,
                 std::size_t columns, AddRun add, StagedCodes& a_codes, StagedCodes& b_codes) const {
    const StridedRuns::Offsets offsets = runs_.offsets(run);
    const auto code = [&](Tensor tensor, std::size_t run_operand) {
      return static_cast<std::uint8_t*>(tensors[tensor]) + offsets[run_operand] +
             static_cast<std::int64_t>(column) * runs_.stride(run_operand);
    };
    ChunkBuffer output_buffer;
    std::uint8_t* output = code(kOutput, 0);
    const Rows output_rows = rows_of(0, rows, columns);
    const bool in_place = output_rows.contiguous() && !streams_;
    add.a = staged(code(kA, 1), rows_of(1, rows, columns), a_codes);
    add.b = staged(code(kB, 2), rows_of(2, rows, columns), b_codes);
    add.output = in_place ? output : output_buffer.bytes;
    add.count = rows * columns;
    target().kernels().add->run(add);
    if (in_place) return;
    const PackKernels& pack = *target().kernels().pack;
    if (streams_ && output_rows.contiguous()) return pack.stream(output_buffer.bytes, add.count, output);
    scatter(output_buffer, DataType::uint8, output, output_rows, pack);
  }

  StridedRuns runs_;
  bool streams_;
  std::size_t max_rows_ = 1, max_columns_ = 1;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_linear_add(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedLinearAdd>(std::move(desc), target);
}

}  // namespace dmlcpu
