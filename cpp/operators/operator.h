// What an operator is between its desc and its kernels: a compiled operator is a plan (kernels chosen, sizes known)
// that is initialized once with the tensors that it owns and then dispatched any number of times, from any number of
// threads at once.
//
// Tensors are numbered by their place in the DirectML desc struct, absent optional ones included. The Python layer has
// checked the desc against DirectML's rules; what memory safety rests on is checked here again.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/dispatch.h"
#include "operators/element_stages.h"
#include "runtime/aligned_buffer.h"
#include "runtime/data_type.h"
#include "runtime/shared_buffers.h"

namespace dmlcpu {

inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::size_t kMaxTensors = 10;

using Extents = std::array<std::int64_t, kMaxRank>;

struct TensorLayout {
  DataType type = DataType::unknown;
  std::size_t rank = 0;
  Extents sizes{};
  Extents strides{};  // in elements, 0 broadcasts
  bool owned = false;
  bool output = false;

  std::int64_t element_count() const;
  // Elements from the first to the last that the tensor touches, gaps included. Throws std::invalid_argument on
  // overflow.
  std::int64_t span() const;
  std::size_t span_bytes() const { return storage_size(type, span()); }

  // Of the same type, sizes and strides, and as owned and as much an output.
  bool operator==(const TensorLayout& other) const;
};

struct OperatorDesc {
  std::string type;  // DirectML's name, such as "DYNAMIC_QUANTIZE_LINEAR"
  std::vector<std::optional<TensorLayout>> tensors;
  std::map<std::string, std::vector<std::int64_t>> attributes;  // by field name; a number is an array of one

  const TensorLayout& tensor(std::size_t index) const;  // throws std::invalid_argument where it is absent
  const std::optional<TensorLayout>& optional_tensor(std::size_t index) const;  // none where it is
  const std::vector<std::int64_t>& attribute(const std::string& name) const;
};

// Where a compiled operator runs.
struct ExecutionTarget {
  Isa isa;
  int num_threads;
  bool aligns_tensors = false;  // to cache lines, as graphs do with what is between operators
  bool operator==(const ExecutionTarget&) const = default;
  const KernelTable& kernels() const { return kernel_table(isa); }
};

// The first element of every tensor of one dispatch, by tensor number; null where a tensor is absent.
using TensorPointers = std::array<void*, kMaxTensors>;

// Tensors by their numbers.
using TensorSet = std::bitset<kMaxTensors>;
// The number of a tensor that an operator does not have.
inline constexpr std::size_t kAbsent = kMaxTensors;

class CompiledOperator {
 public:
  virtual ~CompiledOperator();
  CompiledOperator(const CompiledOperator&) = delete;
  CompiledOperator& operator=(const CompiledOperator&) = delete;

  const OperatorDesc& desc() const { return desc_; }

  // Copies (or packs) the owned tensors, and throws OutOfMemory with the operator's name if it cannot; what is large is
  // kept in shared buffers, if there are any. If `like` is an initialized operator, tensors in `same` that both pack
  // alike are shared, not packed again. Not concurrent with anything else. After an exception nothing has changed.
  void initialize(const TensorPointers& owned, SharedBuffers* shared = nullptr, const CompiledOperator* like = nullptr,
                  TensorSet same = {});

  // Runs once. bound holds every tensor that is not owned. Operators whose StageRole says so take stages, which are
  // applied to their output. Throws OutOfMemory before it writes any output. Throws std::out_of_range for a bound index
  // out of range; outputs may then be partly written.
  void dispatch(const TensorPointers& bound, std::span<const ElementStage> stages = {}) const;

  // The operator as a stage of the one that computes its input, whose pointer is null. For operators with operands of a
  // stage, whose tensors are laid out alike; throws std::logic_error for all others.
  ElementStage stage(const TensorPointers& bound) const;

  virtual std::size_t temporary_size() const { return 0; }
  std::size_t persistent_size() const;

  // The plan in words: algorithm, blocking, kernels, and why. One property a line.
  virtual std::string describe() const = 0;

 protected:
  CompiledOperator(OperatorDesc&& desc, ExecutionTarget target);

  const ExecutionTarget& target() const { return target_; }

  // The operator's own form of an owned tensor, in place of a plain copy: returns the bytes to keep, or nothing for the
  // plain copy. dispatch() then passes a pointer to what was kept.
  virtual std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const;
  virtual std::size_t packed_owned_size(std::size_t tensor) const;
  // How an owned tensor is packed, in numbers: operators of one type and target make the same bytes of the same
  // elements where these numbers and the tensor's layout are the same. Returns an empty vector if these numbers do not
  // determine the bytes. A class that overrides pack_owned() must override this.
  virtual std::vector<std::size_t> packing(std::size_t tensor) const;

  // What owned tensors fix of every dispatch: prepared_size() bytes that prepare_owned() fills once, after all owned
  // tensors have been packed. Both see owned tensors alone: for the others the pointers are null.
  virtual std::size_t prepared_size() const { return 0; }
  virtual void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const;
  // Owned tensors that are read by prepare_owned() alone, as they were given: none of them is kept, and dispatch()
  // passes null.
  virtual TensorSet prepared_only() const { return {}; }
  // What was prepared; null where prepared_size() is 0.
  const std::uint8_t* prepared() const { return prepared_.data(); }
  // Those of these tensors that the desc has.
  TensorSet present(std::initializer_list<std::size_t> numbers) const;
  // Whether none of these tensors is bound at dispatch.
  bool all_owned(TensorSet tensors) const;

  virtual void run(const TensorPointers& tensors) const = 0;
  virtual void run_with_stages(const TensorPointers& tensors, std::span<const ElementStage> stages) const;
  virtual ElementStage make_stage(const TensorPointers& tensors) const;

 private:
  void keep_owned(const TensorPointers& owned, SharedBuffers* shared, const CompiledOperator* like, TensorSet same);
  TensorPointers with_owned(const TensorPointers& bound) const;
  bool packs_as(const CompiledOperator& other, std::size_t tensor) const;

  OperatorDesc desc_;
  ExecutionTarget target_;
  std::array<std::shared_ptr<const AlignedBuffer>, kMaxTensors> owned_;
  TensorPointers owned_pointers_{};  // to these
  AlignedBuffer prepared_;
};

// Which tensors of an operator want their axes in which order of memory, for graphs.
enum class Arrangement : std::uint8_t {
  own,                // the last axis innermost
  channels,           // the first input and the output, channels innermost
  channels_if_small,  // the same where planes of the output are small (graph/placement.cpp), else as element_wise
  element_wise,       // any, if inputs and outputs agree
};
// What stages read and write.
enum class StageElements : std::uint8_t { codes, floats };
// What an operator is to graphs that make steps stages of the step before them (graph/fusion.h).
struct StageRole {
  bool takes_stages = false;  // for its output
  StageElements elements = StageElements::codes;
  std::size_t operand_count = 0;  // 0 if the operator is no stage
  std::size_t operands[2] = {};   // tensors of a stage that hold an element for each one of its output

  std::span<const std::size_t> stage_operands() const { return std::span(operands).first(operand_count); }
};
// These throw std::invalid_argument if no operator has the name.
Arrangement operator_arrangement(const std::string& type);
const StageRole& operator_stage_role(const std::string& type);

// Plans an operator. Throws std::invalid_argument for a desc that no rule of DirectML allows, OutOfMemory for sizes
// beyond any memory.
std::unique_ptr<CompiledOperator> compile_operator(OperatorDesc desc, ExecutionTarget target);

}  // namespace dmlcpu
