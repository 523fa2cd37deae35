#include "operators/code_stages.h"

#include <algorithm>

namespace dmlcpu {
namespace {

// The next stage finds the codes of the one before in a level-1 cache.
constexpr std::size_t kChunkOfStages = 8192;

// The operand's codes that belong to those at hand, the first of which has this index.
const std::uint8_t* operand(const std::uint8_t* whole, std::uint8_t* codes, std::size_t first) {
  return whole == nullptr ? codes : whole + first;
}

struct Apply {
  std::uint8_t* codes;
  std::size_t first, count;

  template <class Function, class Run>
  void operator()(const KernelStage<Function, Run>& stage) const noexcept {
    Run run = stage.run;
    if constexpr (requires { run.table; }) {
      run.input = codes;
    } else {
      run.a = operand(run.a, codes, first);
      run.b = operand(run.b, codes, first);
    }
    run.output = codes;
    run.count = count;
    stage.kernel(run);
  }
};

}  // namespace

void CodesEpilogue::apply(std::uint8_t* codes, std::size_t rows, std::size_t row_stride,
                          std::size_t columns) const noexcept {
  if (row_stride == columns) {
    columns *= rows;
    rows = 1;
  }
  for (std::size_t row = 0; row < rows; ++row) apply_run(codes + row * row_stride, columns);
}

void CodesEpilogue::apply_run(std::uint8_t* codes, std::size_t count) const noexcept {
  const auto first = static_cast<std::size_t>(codes - output_);
  for (std::size_t done = 0; done < count; done += kChunkOfStages) {
    const Apply apply = {codes + done, first + done, std::min(kChunkOfStages, count - done)};
    for (const CodeStage& stage : stages_) std::visit(apply, stage);
  }
}

}  // namespace dmlcpu
