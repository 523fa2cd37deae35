// Element-wise operators from codes to codes, applied to the codes that another operator has just computed while they
// are in a cache: in place, so that what lies between the operators is never in memory as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "kernels/kernel_table.h"

namespace dmlcpu {

// A kernel with its run over whole tensors, in which null stands for the codes at hand. Operands and output are laid
// out alike, without gaps.
template <class Function, class Run>
struct KernelStage {
  Function kernel;
  Run run;
};
using AddStage = KernelStage<AddFunction, AddRun>;
using MultiplyStage = KernelStage<MultiplyFunction, MultiplyRun>;
using TableStage = KernelStage<TableFunction, TableRun>;
using CodeStage = std::variant<AddStage, MultiplyStage, TableStage>;

// The stages of one output, applied to parts of it as they are finished. Any number of threads at once.
class CodesEpilogue {
 public:
  CodesEpilogue(std::span<const CodeStage> stages, const std::uint8_t* output) : stages_(stages), output_(output) {}

  // rows of so many codes of the output each, row_stride apart.
  void apply(std::uint8_t* codes, std::size_t rows, std::size_t row_stride, std::size_t columns) const noexcept;

 private:
  void apply_run(std::uint8_t* codes, std::size_t count) const noexcept;

  std::span<const CodeStage> stages_;
  const std::uint8_t* output_;
};

}  // namespace dmlcpu
