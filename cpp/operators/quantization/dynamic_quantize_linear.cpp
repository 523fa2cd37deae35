// DYNAMIC_QUANTIZE_LINEAR, and QUANTIZE_BY_RANGE, which differs in what is divided (dynamic_codes.h): tensors input,
// output, output scale, output zero point.
//
// Two passes over the input, the second one backwards: it begins with what the first one has left in the caches.
#include <algorithm>
#include <cstring>

#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/quantization/dynamic_codes.h"
#include "operators/quantization/scaled_runs.h"
#include "runtime/cache_line.h"
#include "runtime/scratch.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput, kOutputScale, kOutputZeroPoint };

// One range a participating thread, a cache line apart.
struct alignas(kCacheLine) ThreadRange {
  Range range;
};

// The tensor without its repetitions, which change no range.
TensorLayout without_repetitions(TensorLayout layout) {
  for (std::size_t axis = 0; axis < layout.rank; ++axis) {
    if (layout.strides[axis] == 0) layout.sizes[axis] = 1;
  }
  return layout;
}

class DynamicQuantizeLinear final : public CompiledOperator {
 public:
  DynamicQuantizeLinear(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        input_(without_repetitions(desc().tensor(kInput))),
        input_runs_(std::array<const TensorLayout*, 1>{&input_}),
        runs_(desc().tensor(kInput), nullptr, nullptr, desc().tensor(kOutput), target(), 0.0F),
        flip_(offset_flip(desc().tensor(kOutput).type)),
        type_(desc().tensor(kInput).type),
        divides_(desc().type == "QUANTIZE_BY_RANGE"),
        range_kernel_(type_ == DataType::float16 ? target().kernels().range->float16
                                                 : target().kernels().range->float32),
        quantize_kernel_(divides_                     ? target().kernels().quantize->divide_float32
                         : type_ == DataType::float16 ? target().kernels().quantize->multiply_float16
                                                      : target().kernels().quantize->multiply_float32) {
    desc().tensor(kOutputScale);
    desc().tensor(kOutputZeroPoint);
  }

  std::string describe() const override {
    return "algorithm: one pass for the range, one for the codes\nkernels: " + kernel_words(target(), "range") + ", " +
           kernel_words(target(), "quantize") + (divides_ ? "" : " by the reciprocal") + "\n" + runs_.describe();
  }

  std::size_t temporary_size() const override { return sizeof(ThreadRange) * static_cast<std::size_t>(participants()); }

 protected:
  void run(const TensorPointers& tensors) const override {
    const Range range = find_range(tensors);
    const DynamicCodes codes = divides_ ? divided_codes(range) : dynamic_codes(range, -static_cast<float>(flip_));
    runs_.run(
        {.input = tensors[kInput],
         .scale = nullptr,
         .zero_point = nullptr,
         .output = tensors[kOutput],
         .constant_scale = codes.operand,
         .constant_zero_point = codes.zero_point},
        [this](const ScaledBlock& block) noexcept { quantize_kernel_(quantize_run(block, flip_)); }, true);
    std::memcpy(tensors[kOutputScale], &codes.scale, sizeof(float));
    *static_cast<std::uint8_t*>(tensors[kOutputZeroPoint]) =
        static_cast<std::uint8_t>(static_cast<int>(codes.zero_point) ^ flip_);
  }

 private:
  int participants() const {
    const std::size_t tasks = input_runs_.tasks(target().num_threads).count();
    return static_cast<int>(std::min(tasks, static_cast<std::size_t>(target().num_threads)));
  }

  // Minimum and maximum do not depend on the order or the split. NaN is skipped, and both ends include 0.
  Range find_range(const TensorPointers& tensors) const {
    auto* ranges = reinterpret_cast<ThreadRange*>(thread_scratch(temporary_size()));
    for (int slot = 0; slot < participants(); ++slot) new (ranges + slot) ThreadRange{};
    const StridedRuns::Tasks tasks = input_runs_.tasks(target().num_threads);
    parallel_for(tasks.count(), target().num_threads, [&](std::size_t task, int slot) noexcept {
      const StridedRuns::Piece piece = tasks.piece(task);
      for (std::size_t r = 0; r < piece.run_count; ++r) {
        const std::int64_t first = input_runs_.offsets(piece.first_run + r)[0];
        extend(element(static_cast<const void*>(tensors[kInput]), type_, first), piece, ranges[slot].range);
      }
    });
    Range range = ranges[0].range;
    for (int slot = 1; slot < participants(); ++slot) {
      range.lowest = std::min(range.lowest, ranges[slot].range.lowest);
      range.highest = std::max(range.highest, ranges[slot].range.highest);
    }
    return range;
  }

  // By a piece of the run that begins at first.
  void extend(const void* first, const StridedRuns::Piece& piece, Range& range) const {
    const std::int64_t stride = input_runs_.stride(0);
    const std::size_t chunk = stride == 1 ? piece.size : kChunk;
    ChunkBuffer buffer;
    for (std::size_t begin = 0; begin < piece.size; begin += chunk) {
      const std::size_t count = std::min(chunk, piece.size - begin);
      const void* elements = element(first, type_, static_cast<std::int64_t>(piece.begin + begin) * stride);
      range_kernel_(gather(elements, type_, {1, count, 0, stride}, *target().kernels().pack, buffer), count, range);
    }
  }

  TensorLayout input_;
  StridedRuns input_runs_;
  ScaledRuns runs_;
  std::uint8_t flip_;
  DataType type_;
  bool divides_;
  RangeFunction range_kernel_;
  QuantizeFunction quantize_kernel_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_dynamic_quantize_linear(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<DynamicQuantizeLinear>(std::move(desc), target);
}

}  // namespace dmlcpu
