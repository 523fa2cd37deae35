// Element-wise operators from codes to codes, or from floats to floats, applied to what another operator has just
// computed while it is in a cache: in place, so that what lies between the operators is never in memory as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "kernels/kernel_table.h"

namespace dmlcpu {

// A kernel with its run over whole tensors, in which null stands for the elements at hand. The operands have channels
// innermost and no gaps; those of codes are laid out as the output is.
template <class Function, class Run>
struct KernelStage {
  Function kernel;
  Run run;
};
using AddStage = KernelStage<AddFunction, AddRun>;
using MultiplyStage = KernelStage<MultiplyFunction, MultiplyRun>;
using TableStage = KernelStage<TableFunction, TableRun>;
using FloatUnaryStage = KernelStage<FloatUnaryFunction, FloatUnaryRun>;
using FloatBinaryStage = KernelStage<FloatBinaryFunction, FloatBinaryRun>;
using ElementStage = std::variant<AddStage, MultiplyStage, TableStage, FloatUnaryStage, FloatBinaryStage>;

// The stages of one output of codes, applied to parts of it as they are finished. Any number of threads at once.
class CodesEpilogue {
 public:
  CodesEpilogue(std::span<const ElementStage> stages, const std::uint8_t* output) : stages_(stages), output_(output) {}

  // rows of so many codes of the output each, row_stride apart.
  void apply(std::uint8_t* codes, std::size_t rows, std::size_t row_stride, std::size_t columns) const noexcept;

 private:
  std::span<const ElementStage> stages_;
  const std::uint8_t* output_;
};

// A part of an output of floats, in the output or beside it: `channels` of each of so many pixels, which count through
// all images.
struct FloatsPart {
  float* values;
  std::size_t pixel_stride;  // elements
  std::size_t pixel = 0, pixels = 0, channel = 0, channels = 0;
};

// The stages of one output of floats, which may lie in memory in any way.
class FloatsEpilogue {
 public:
  // Of pixels of so many channels; none of no stages.
  FloatsEpilogue(std::span<const ElementStage> stages, std::size_t channels);

  bool empty() const { return stages_.empty(); }
  // What a first stage clips to, where that is what it does: it is a stage no more then.
  std::optional<FloatBounds> take_bounds(const FloatFunctionKernels& functions);
  // Of an output that begins with a later pixel.
  FloatsEpilogue from(std::size_t pixel) const;

  void apply(const FloatsPart& part) const noexcept;

 private:
  std::span<const ElementStage> stages_;
  std::size_t channels_, first_pixel_ = 0;
  bool has_operands_;  // beside what is at hand
};

}  // namespace dmlcpu
