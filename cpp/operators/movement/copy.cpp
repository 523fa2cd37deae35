// COPY: tensors input, output, of one data type: changes of layout, slices, pieces of a concatenation.
#include <algorithm>
#include <stdexcept>

#include "operators/operator.h"
#include "operators/strides/nibble_staging.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_copy.h"
#include "operators/strides/strided_runs.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

class Copy final : public CompiledOperator {
 public:
  Copy(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        copy_(desc().tensor(kOutput), desc().tensor(kInput), target()) {}

  std::string describe() const override { return copy_.describe(); }

 protected:
  void run(const TensorPointers& tensors) const override { copy_.run(tensors[kInput], tensors[kOutput]); }

 private:
  StridedCopy copy_;
};

// Of 4-bit elements: through one in each byte. Gaps stay as they are, half a byte included; hence one thread.
class NibbleCopy final : public CompiledOperator {
 public:
  NibbleCopy(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(std::array{&desc().tensor(kOutput), &desc().tensor(kInput)}) {
    if (desc().tensor(kInput).type != desc().tensor(kOutput).type) {
      throw std::invalid_argument("a copy is of its input's data type");
    }
  }

  std::string describe() const override { return "algorithm: copy, nibbles unpacked and packed\n" + runs_.describe(1); }

 protected:
  void run(const TensorPointers& tensors) const override {
    const NibblesKernels& kernels = *target().kernels().nibbles;
    std::uint8_t codes[kChunk];
    for (std::size_t run = 0; run < runs_.count(); ++run) {
      StridedRuns::Offsets index = runs_.offsets(run);
      for (std::size_t begin = 0; begin < runs_.length(); begin += kChunk) {
        const std::size_t count = std::min(kChunk, runs_.length() - begin);
        load_nibbles(kernels, tensors[kInput], {index[1], runs_.stride(1), count, 0}, codes);
        store_nibbles(kernels, codes, {index[0], runs_.stride(0), count, 0}, tensors[kOutput]);
        for (std::size_t i = 0; i < 2; ++i) index[i] += static_cast<std::int64_t>(count) * runs_.stride(i);
      }
    }
  }

 private:
  StridedRuns runs_;  // of output, input
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_copy(OperatorDesc desc, ExecutionTarget target) {
  if (is_four_bits(desc.tensor(kOutput).type)) return std::make_unique<NibbleCopy>(std::move(desc), target);
  return std::make_unique<Copy>(std::move(desc), target);
}

}  // namespace dmlcpu
