// RNN, LSTM, GRU: the steps of recurrent layers, given the products of their inputs and weights (DirectML's operators
// of these names compute these too). Of graphs alone.
//
// Tensors, of T steps, B sequences, D directions, a state of H floats and a cell of P parts (recurrent_cell.h):
//
//   input                {T, B, D * P * H}   those products, biases added
//   recurrence           {D, H, P * H}       FLOAT32, UINT8 or INT8, owned
//   scale, zero point    {D, P * H}          of a recurrence of codes, owned; the zero point may be absent
//   hidden init          {D, B, H}           the first state; absent: zeros
//   LSTM: cell init      {D, B, H}           the same of the other state
//   GRU: bias            {D, H}              the same number: of the last part of the state's products; may be absent
//   sequence             {T, D, B, H}        the states after each step
//   single               {D, B, H}           those after the last one; may be absent
//   LSTM: cell single    {D, B, H}           the same of the other state; may be absent
//
// Attribute direction: 0 forward, 1 backward, 2 both. A backward direction begins with the last step; its states lie
// where the input of their step does. Attribute function, of RNN: FloatUnary's tanh or relu, in all directions.
#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/buffer_layout.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/recurrence/recurrent_cell.h"
#include "operators/recurrence/recurrent_product.h"
#include "operators/sizes.h"
#include "operators/strides/packed_layout.h"
#include "operators/strides/strided_copy.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t {
  kInput,
  kRecurrence,
  kScale,
  kZeroPoint,
  kHiddenInit,
  kCellInitOrBias  // RNN has neither; outputs follow
};

struct RecurrentKind {
  RecurrentCell cell;
  std::int64_t parts;
  bool has_cell_state, has_bias;

  std::size_t sequence() const { return kCellInitOrBias + (has_cell_state || has_bias ? 1 : 0); }
  std::size_t single() const { return sequence() + 1; }
  std::size_t cell_single() const { return sequence() + 2; }
};
constexpr RecurrentKind kRnnOfTanh = {rnn_tanh_cell, 1, false, false}, kRnnOfRelu = {rnn_relu_cell, 1, false, false},
                        kLstm = {lstm_cell, 4, true, false}, kGru = {gru_cell, 3, false, true};

constexpr std::int64_t kBackward = 1, kBidirectional = 2;

void check_sizes(const OperatorDesc& desc, std::size_t tensor, std::initializer_list<std::int64_t> sizes) {
  const TensorLayout& layout = desc.tensor(tensor);
  if (layout.rank != sizes.size() || !std::equal(sizes.begin(), sizes.end(), layout.sizes.begin())) {
    throw std::invalid_argument(desc.type + ": the sizes of tensor " + std::to_string(tensor) +
                                " do not fit the others'");
  }
}

class Recurrence final : public CompiledOperator {
 public:
  Recurrence(OperatorDesc operator_desc, ExecutionTarget execution_target, const RecurrentKind& kind)
      : CompiledOperator(std::move(operator_desc), execution_target),
        kind_(kind),
        direction_(static_cast<std::int64_t>(index_attribute(desc(), "direction", 3))),
        sizes_(checked_sizes()),
        product_(make_recurrent_product(sizes_, desc().tensor(kRecurrence), target())) {
    plan_copies();
    BufferLayout scratch;
    states_ = scratch.take(sizes_.states(), sizeof(float));
    cells_ = scratch.take(kind_.has_cell_state ? sizes_.states() : 0, sizeof(float));
    bias_ = scratch.take(bias_copy_ ? as_size(sizes_.directions * sizes_.hidden) : 0, sizeof(float));
    sums_ = scratch.take(sizes_.sums(), sizeof(float));
    input_ = scratch.take(input_copy_ ? as_size(steps_) * sizes_.sums() : 0, sizeof(float));
    sequence_ = scratch.take(sequence_copy_ ? as_size(steps_) * sizes_.states() : 0, sizeof(float));
    product_scratch_ = scratch.take(product_->scratch_size());
    scratch_size_ = scratch.size();
  }

  std::size_t temporary_size() const override { return scratch_size_; }

  std::string describe() const override {
    return "algorithm: " + counted(steps_, "step") + ", " + counted(sizes_.directions, "direction") +
           ", a product and a cell in each\n" + product_->describe() +
           "\ncell: " + kernel_words(target(), "float_functions");
  }

 protected:
  std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const override {
    if (tensor != kRecurrence) return std::nullopt;
    AlignedBuffer matrices(product_->packed_size());
    product_->pack(data, matrices.data());
    return matrices;
  }
  std::size_t packed_owned_size(std::size_t tensor) const override {
    return tensor == kRecurrence ? product_->packed_size() : CompiledOperator::packed_owned_size(tensor);
  }
  std::vector<std::size_t> packing(std::size_t tensor) const override {
    if (tensor == kRecurrence) return {};
    return CompiledOperator::packing(tensor);
  }
  std::size_t prepared_size() const override { return product_->prepared_size(); }
  void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const override {
    const auto layout_of = [&](std::size_t tensor) {
      return desc().tensors[tensor] ? &*desc().tensors[tensor] : nullptr;
    };
    product_->prepare({.scale_layout = layout_of(kScale),
                       .scale = static_cast<const float*>(owned[kScale]),
                       .zero_point_layout = layout_of(kZeroPoint),
                       .zero_point = static_cast<const std::uint8_t*>(owned[kZeroPoint])},
                      prepared);
  }

  void run(const TensorPointers& tensors) const override;

 private:
  // Floats of states that a task computes, in some microseconds.
  static constexpr std::int64_t kStatesOfTask = 2048;

  bool has(std::size_t tensor) const { return tensor < desc().tensors.size() && desc().tensors[tensor].has_value(); }
  RecurrentSizes checked_sizes();
  void plan_copies();
  void finish_step(std::int64_t step, const float* input, const float* bias, std::uint8_t* scratch,
                   float* sequence) const;

  RecurrentKind kind_;
  std::int64_t direction_, steps_ = 0;
  RecurrentSizes sizes_;
  std::unique_ptr<RecurrentProduct> product_;
  // Between tensors and contiguous floats; input and sequence are read and written in place where they are that.
  std::optional<StridedCopy> input_copy_, hidden_init_copy_, cell_init_copy_, bias_copy_, sequence_copy_, single_copy_,
      cell_single_copy_;
  // Offsets into the scratch memory.
  std::size_t states_ = 0, cells_ = 0, bias_ = 0, sums_ = 0, input_ = 0, sequence_ = 0, product_scratch_ = 0,
              scratch_size_ = 0;
};

RecurrentSizes Recurrence::checked_sizes() {
  const TensorLayout &input = desc().tensor(kInput), &recurrence = desc().tensor(kRecurrence);
  const RecurrentSizes sizes = {.directions = direction_ == kBidirectional ? 2 : 1,
                                .sequences = input.sizes[1],
                                .hidden = recurrence.sizes[1],
                                .columns = recurrence.sizes[2]};
  const std::int64_t directions = sizes.directions, sequences = sizes.sequences, hidden = sizes.hidden;
  steps_ = input.sizes[0];
  // Broadcast tensors can be of sizes that no memory has. A step is far from overflow then, packed and in bytes too;
  // the elements of all steps have been counted, and BufferLayout counts their bytes.
  std::int64_t products = 0;
  if (__builtin_mul_overflow(recurrence.element_count(), sequences, &products) || products > INT64_MAX / 1024) {
    throw std::invalid_argument(desc().type + ": the recurrence is too large");
  }
  check_sizes(desc(), kRecurrence, {directions, hidden, kind_.parts * hidden});
  check_sizes(desc(), kInput, {steps_, sequences, directions * sizes.columns});
  check_sizes(desc(), kind_.sequence(), {steps_, directions, sequences, hidden});
  const bool is_of_codes = recurrence.type != DataType::float32;
  if (has(kScale) != is_of_codes) {
    throw std::invalid_argument(desc().type + ": a recurrence of codes, and no other, has scales");
  }
  for (const std::size_t parameter : {kRecurrence, kScale, kZeroPoint}) {
    if (!has(parameter)) continue;
    if (parameter != kRecurrence) check_sizes(desc(), parameter, {directions, sizes.columns});
    if (!desc().tensor(parameter).owned)
      throw std::invalid_argument(desc().type + ": the recurrence and its parameters are owned");
  }
  if (has(kZeroPoint) && desc().tensor(kZeroPoint).type != recurrence.type) {
    throw std::invalid_argument(desc().type + ": the zero point is of the recurrence's data type");
  }
  for (const std::size_t state : {std::size_t{kHiddenInit}, kind_.single(), kind_.cell_single()}) {
    if (has(state)) check_sizes(desc(), state, {directions, sequences, hidden});
  }
  if (kind_.has_cell_state && has(kCellInitOrBias)) {
    check_sizes(desc(), kCellInitOrBias, {directions, sequences, hidden});
  } else if (kind_.has_bias && has(kCellInitOrBias)) {
    check_sizes(desc(), kCellInitOrBias, {directions, hidden});
  }
  return sizes;
}

void Recurrence::plan_copies() {
  const auto from = [&](std::optional<StridedCopy>& copy, std::size_t tensor) {
    if (has(tensor)) copy.emplace(packed(desc().tensor(tensor)), desc().tensor(tensor), target());
  };
  const auto to = [&](std::optional<StridedCopy>& copy, std::size_t tensor) {
    if (has(tensor)) copy.emplace(desc().tensor(tensor), packed(desc().tensor(tensor)), target());
  };
  from(hidden_init_copy_, kHiddenInit);
  if (kind_.has_cell_state) from(cell_init_copy_, kCellInitOrBias);
  if (kind_.has_bias) from(bias_copy_, kCellInitOrBias);
  to(single_copy_, kind_.single());
  to(cell_single_copy_, kind_.cell_single());
  if (!is_packed(desc().tensor(kInput))) from(input_copy_, kInput);
  if (!is_packed(desc().tensor(kind_.sequence()))) to(sequence_copy_, kind_.sequence());
}

void Recurrence::run(const TensorPointers& tensors) const {
  std::uint8_t* scratch = thread_scratch(scratch_size_);
  const auto begin = [&](const std::optional<StridedCopy>& copy, const void* tensor, std::size_t offset) {
    if (copy) return copy->run(tensor, scratch + offset);
    std::memset(scratch + offset, 0, sizes_.states() * sizeof(float));
  };
  begin(hidden_init_copy_, tensors[kHiddenInit], states_);
  if (kind_.has_cell_state) begin(cell_init_copy_, tensors[kCellInitOrBias], cells_);
  if (bias_copy_) bias_copy_->run(tensors[kCellInitOrBias], scratch + bias_);
  if (input_copy_) input_copy_->run(tensors[kInput], scratch + input_);

  const void* input = input_copy_ ? scratch + input_ : tensors[kInput];
  void* sequence = sequence_copy_ ? scratch + sequence_ : tensors[kind_.sequence()];
  const auto* bias = bias_copy_ ? reinterpret_cast<const float*>(scratch + bias_) : nullptr;
  const auto* matrices = static_cast<const std::uint8_t*>(tensors[kRecurrence]);
  for (std::int64_t step = 0; step < steps_; ++step) {
    product_->run(reinterpret_cast<const float*>(scratch + states_), matrices, prepared(),
                  reinterpret_cast<float*>(scratch + sums_), scratch + product_scratch_);
    finish_step(step, static_cast<const float*>(input), bias, scratch, static_cast<float*>(sequence));
  }

  if (sequence_copy_) sequence_copy_->run(scratch + sequence_, tensors[kind_.sequence()]);
  if (single_copy_) single_copy_->run(scratch + states_, tensors[kind_.single()]);
  if (cell_single_copy_) cell_single_copy_->run(scratch + cells_, tensors[kind_.cell_single()]);
}

// The cells of all directions and sequences.
void Recurrence::finish_step(std::int64_t step, const float* input, const float* bias, std::uint8_t* scratch,
                             float* sequence) const {
  const std::int64_t rows = sizes_.directions * sizes_.sequences, hidden = sizes_.hidden;
  const std::int64_t rows_of_task = divide_up(kStatesOfTask, hidden);
  parallel_for(as_size(divide_up(rows, rows_of_task)), target().num_threads, [&](std::size_t task, int) noexcept {
    const std::int64_t first = static_cast<std::int64_t>(task) * rows_of_task;
    for (std::int64_t row = first; row < std::min(first + rows_of_task, rows); ++row) {
      const std::int64_t direction = row / sizes_.sequences, number = row % sizes_.sequences;
      const bool is_backward = direction_ == kBackward || direction == 1;
      const std::int64_t time = is_backward ? steps_ - 1 - step : step;
      float* state = reinterpret_cast<float*>(scratch + states_) + row * hidden;
      kind_.cell(
          *target().kernels().float_functions,
          {.input = input + ((time * sizes_.sequences + number) * sizes_.directions + direction) * sizes_.columns,
           .sums = reinterpret_cast<float*>(scratch + sums_) + row * sizes_.columns,
           .hidden = state,
           .cell_state = kind_.has_cell_state ? reinterpret_cast<float*>(scratch + cells_) + row * hidden : nullptr,
           .bias = bias == nullptr ? nullptr : bias + direction * hidden,
           .length = as_size(hidden)});
      std::memcpy(sequence + (time * rows + row) * hidden, state, as_size(hidden) * sizeof(float));
    }
  });
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_rnn(OperatorDesc desc, ExecutionTarget target) {
  const std::size_t function = index_attribute(desc, "function", kFloatUnaryCount);
  const bool is_tanh = function == static_cast<std::size_t>(FloatUnary::tanh);
  if (!is_tanh && function != static_cast<std::size_t>(FloatUnary::relu)) {
    throw std::invalid_argument(desc.type + ": the function is neither tanh nor relu");
  }
  return std::make_unique<Recurrence>(std::move(desc), target, is_tanh ? kRnnOfTanh : kRnnOfRelu);
}

std::unique_ptr<CompiledOperator> compile_lstm(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Recurrence>(std::move(desc), target, kLstm);
}

std::unique_ptr<CompiledOperator> compile_gru(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Recurrence>(std::move(desc), target, kGru);
}

}  // namespace dmlcpu
