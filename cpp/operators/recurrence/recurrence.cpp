// RNN, LSTM, GRU: the steps of recurrent layers, given the products of their inputs and weights (DirectML's operators
// of these names compute these too). Of graphs alone.
//
// Tensors, of T steps, B sequences, D directions, a state of H floats and a cell of P parts (recurrent_cell.h):
//
//   input                {T, B, D * P * H}   those products, biases added
//   recurrence           {D, H, P * H}       FLOAT32, UINT8 or INT8, owned
//   scale, zero point    {D, P * H}          of a recurrence of codes, owned; the zero point may be absent
//   hidden init          {D, B, H}           the first state; absent: zeros
//   lengths              {B}                 INT32, the steps of each sequence; absent: all have T
//   LSTM: cell init      {D, B, H}           the same of the other state
//   GRU: bias            {D, H}              the same number: of the last part of the state's products; may be absent
//   sequence             {T, D, B, H}        the states after each step
//   single               {D, B, H}           those after the last one; may be absent
//   LSTM: cell single    {D, B, H}           the same of the other state; may be absent
//
// Attribute direction: 0 forward, 1 backward, 2 both. A backward direction begins with the last step; its states lie
// where the input of their step does. Attribute functions: of each of the cell's functions (recurrent_cell.h), the same
// in all directions, a FloatUnary and the bits of its alpha and beta. Attribute bound, which may be absent: its bits.
// Attribute resets_first, of GRU: 1 if it resets the state before the product, which takes a recurrence of floats.
//
// A shorter sequence is followed by zeros, also in the products of codes. Its last states are those of its own last
// step, of one without steps zeros. A length out of range throws std::out_of_range at a dispatch.
#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>

#include "operators/attributes.h"
#include "operators/buffer_layout.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/recurrence/cell_functions.h"
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
  kLengths,
  kCellInitOrBias  // RNN has neither; outputs follow
};

struct RecurrentKind {
  RecurrentCell cell;
  std::int64_t parts;
  std::size_t functions;
  bool has_cell_state, has_bias;

  std::size_t sequence() const { return kCellInitOrBias + (has_cell_state || has_bias ? 1 : 0); }
  std::size_t single() const { return sequence() + 1; }
  std::size_t cell_single() const { return sequence() + 2; }
};
constexpr RecurrentKind kRnn = {rnn_cell, 1, 1, false, false}, kLstm = {lstm_cell, 4, 3, true, false},
                        kGru = {gru_cell, 3, 2, false, true};

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
  Recurrence(OperatorDesc&& operator_desc, ExecutionTarget execution_target, const RecurrentKind& kind)
      : CompiledOperator(std::move(operator_desc), execution_target),
        kind_(kind),
        functions_(cell_functions(desc(), kind.functions)),
        direction_(static_cast<std::int64_t>(index_attribute(desc(), "direction", 3))),
        resets_first_(kind.has_bias && index_attribute(desc(), "resets_first", 2) == 1),
        sizes_(checked_sizes()),
        product_(make_recurrent_product(product_sizes(resets_first_ ? 2 : kind.parts),
                                        of_parts(resets_first_ ? 2 : kind.parts), target())),
        last_product_(resets_first_ ? make_recurrent_product(product_sizes(1), of_parts(1), target()) : nullptr) {
    plan_copies();
    BufferLayout scratch;
    states_ = scratch.take(sizes_.states(), sizeof(float));
    cells_ = scratch.take(kind_.has_cell_state ? sizes_.states() : 0, sizeof(float));
    bias_ = scratch.take(bias_copy_ ? as_size(sizes_.directions * sizes_.hidden) : 0, sizeof(float));
    sums_ = scratch.take(sizes_.sums(), sizeof(float));
    last_ = scratch.take(resets_first_ ? sizes_.states() : 0, sizeof(float));
    last_sums_ = scratch.take(resets_first_ ? sizes_.states() : 0, sizeof(float));
    lengths_ = scratch.take(has(kLengths) ? as_size(sizes_.sequences) : 0, sizeof(std::int64_t));
    input_ = scratch.take(input_copy_ ? as_size(steps_) * sizes_.sums() : 0, sizeof(float));
    sequence_ = scratch.take(sequence_copy_ ? as_size(steps_) * sizes_.states() : 0, sizeof(float));
    product_scratch_ = scratch.take(product_->scratch_size());  // products of floats take none
    scratch_size_ = scratch.size();
  }

  std::size_t temporary_size() const override { return scratch_size_; }

  std::string describe() const override {
    return "algorithm: " + counted(steps_, "step") + ", " + counted(sizes_.directions, "direction") +
           (resets_first_ ? ", two products" : ", a product") + " and a cell in each\n" + product_->describe() +
           "\ncell: " + kernel_words(target(), "float_functions");
  }

 protected:
  std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const override {
    if (tensor != kRecurrence) return std::nullopt;
    AlignedBuffer matrices(packed_owned_size(tensor));
    product_->pack(data, matrices.data());
    if (last_product_) {
      const std::int64_t first = 2 * sizes_.hidden * desc().tensor(kRecurrence).strides[2];
      last_product_->pack(static_cast<const float*>(data) + first, matrices.data() + last_matrices());
    }
    return matrices;
  }
  std::size_t packed_owned_size(std::size_t tensor) const override {
    if (tensor != kRecurrence) return CompiledOperator::packed_owned_size(tensor);
    return last_product_ ? last_matrices() + last_product_->packed_size() : product_->packed_size();
  }
  std::vector<std::size_t> packing(std::size_t tensor) const override {
    if (tensor == kRecurrence) return {};
    return CompiledOperator::packing(tensor);
  }
  std::size_t prepared_size() const override { return product_->prepared_size(); }
  void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const override {
    const auto layout_of = [&](std::size_t tensor) {
      const std::optional<TensorLayout>& layout = desc().optional_tensor(tensor);
      return layout ? &*layout : nullptr;
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

  bool has(std::size_t tensor) const { return desc().optional_tensor(tensor).has_value(); }
  RecurrentSizes checked_sizes();
  void check_recurrence() const;
  void plan_copies();
  RecurrentSizes product_sizes(std::int64_t parts) const {
    return {sizes_.directions, sizes_.sequences, sizes_.hidden, parts * sizes_.hidden};
  }
  TensorLayout of_parts(std::int64_t parts) const {
    TensorLayout matrices = desc().tensor(kRecurrence);
    matrices.sizes[2] = parts * sizes_.hidden;
    return matrices;
  }
  std::size_t last_matrices() const {
    BufferLayout packed;
    packed.take(product_->packed_size());
    return packed.size();
  }

  // What a dispatch reads and writes, contiguous.
  struct Run {
    const float *input, *bias;
    const std::int64_t* lengths;  // null where all sequences have as many steps
    std::uint8_t* scratch;
    float* sequence;

    std::int64_t length(std::int64_t sequence_number, std::int64_t steps) const {
      return lengths == nullptr ? steps : lengths[sequence_number];
    }
  };
  const std::int64_t* read_lengths(const void* tensor, std::uint8_t* scratch) const;
  void begin_states(const TensorPointers& tensors, const Run& run) const;
  void end_states(const Run& run) const;
  void run_step(std::int64_t step, const void* matrices, const Run& run) const;
  void in_rows(RecurrentCell cell, std::int64_t step, const Run& run, bool ends) const;
  void run_row(RecurrentCell cell, std::int64_t row, std::int64_t step, const Run& run, bool ends) const noexcept;

  RecurrentKind kind_;
  CellFunctions functions_;
  std::int64_t direction_, steps_ = 0;
  bool resets_first_;
  RecurrentSizes sizes_;
  std::unique_ptr<RecurrentProduct> product_, last_product_;
  // Between tensors and contiguous floats; input and sequence are read and written in place where they are that.
  std::optional<StridedCopy> input_copy_, hidden_init_copy_, cell_init_copy_, bias_copy_, sequence_copy_, single_copy_,
      cell_single_copy_;
  // Offsets into the scratch memory.
  std::size_t states_ = 0, cells_ = 0, bias_ = 0, sums_ = 0, last_ = 0, last_sums_ = 0, lengths_ = 0, input_ = 0,
              sequence_ = 0, product_scratch_ = 0, scratch_size_ = 0;
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
  for (const std::size_t parameter : {kScale, kZeroPoint}) {
    if (has(parameter)) check_sizes(desc(), parameter, {directions, sizes.columns});
  }
  check_recurrence();
  if (has(kLengths)) check_sizes(desc(), kLengths, {sequences});
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

void Recurrence::check_recurrence() const {
  const DataType type = desc().tensor(kRecurrence).type;
  const bool is_of_codes = type != DataType::float32;
  if (has(kScale) != is_of_codes) {
    throw std::invalid_argument(desc().type + ": a recurrence of codes, and no other, has scales");
  }
  for (const std::size_t parameter : {kRecurrence, kScale, kZeroPoint}) {
    if (has(parameter) && !desc().tensor(parameter).owned) {
      throw std::invalid_argument(desc().type + ": the recurrence and its parameters are owned");
    }
  }
  if (has(kZeroPoint) && desc().tensor(kZeroPoint).type != type) {
    throw std::invalid_argument(desc().type + ": the zero point is of the recurrence's data type");
  }
  if (resets_first_ && is_of_codes) {
    throw std::invalid_argument(desc().type + ": what resets first has a recurrence of floats");
  }
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
  if (bias_copy_) bias_copy_->run(tensors[kCellInitOrBias], scratch + bias_);
  if (input_copy_) input_copy_->run(tensors[kInput], scratch + input_);
  const void* input = input_copy_ ? scratch + input_ : tensors[kInput];
  void* sequence = sequence_copy_ ? scratch + sequence_ : tensors[kind_.sequence()];
  const Run run = {.input = static_cast<const float*>(input),
                   .bias = bias_copy_ ? reinterpret_cast<const float*>(scratch + bias_) : nullptr,
                   .lengths = has(kLengths) ? read_lengths(tensors[kLengths], scratch) : nullptr,
                   .scratch = scratch,
                   .sequence = static_cast<float*>(sequence)};
  begin_states(tensors, run);
  for (std::int64_t step = 0; step < steps_; ++step) run_step(step, tensors[kRecurrence], run);
  if (run.lengths != nullptr) end_states(run);

  if (sequence_copy_) sequence_copy_->run(scratch + sequence_, tensors[kind_.sequence()]);
  if (single_copy_) single_copy_->run(scratch + states_, tensors[kind_.single()]);
  if (cell_single_copy_) cell_single_copy_->run(scratch + cells_, tensors[kind_.cell_single()]);
}

// Each is read once: the array may change under the hands of a dispatch.
const std::int64_t* Recurrence::read_lengths(const void* tensor, std::uint8_t* scratch) const {
  auto* lengths = reinterpret_cast<std::int64_t*>(scratch + lengths_);
  for (std::int64_t sequence = 0; sequence < sizes_.sequences; ++sequence) {
    lengths[sequence] =
        *(static_cast<const volatile std::int32_t*>(tensor) + sequence * desc().tensor(kLengths).strides[0]);
    if (lengths[sequence] < 0 || lengths[sequence] > steps_) {
      throw std::out_of_range("got a sequence of " + std::to_string(lengths[sequence]) + " steps, expected 0 to " +
                              std::to_string(steps_));
    }
  }
  return lengths;
}

void Recurrence::begin_states(const TensorPointers& tensors, const Run& run) const {
  const auto begin = [&](const std::optional<StridedCopy>& copy, const void* tensor, std::size_t offset) {
    if (copy) return copy->run(tensor, run.scratch + offset);
    std::memset(run.scratch + offset, 0, sizes_.states() * sizeof(float));
  };
  begin(hidden_init_copy_, tensors[kHiddenInit], states_);
  if (kind_.has_cell_state) begin(cell_init_copy_, tensors[kCellInitOrBias], cells_);
  const std::size_t bytes = as_size(sizes_.hidden) * sizeof(float);
  for (std::int64_t row = 0; row < sizes_.directions * sizes_.sequences; ++row) {
    if (run.length(row % sizes_.sequences, steps_) > 0) continue;
    std::memset(run.scratch + states_ + as_size(row) * bytes, 0, bytes);
    if (kind_.has_cell_state) std::memset(run.scratch + cells_ + as_size(row) * bytes, 0, bytes);
  }
}

// Of sequences that have ended before, whose states are zeros by now.
void Recurrence::end_states(const Run& run) const {
  const std::int64_t rows = sizes_.directions * sizes_.sequences;
  const std::size_t bytes = as_size(sizes_.hidden) * sizeof(float);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t length = run.lengths[row % sizes_.sequences];
    if (length == 0) continue;
    const bool is_backward = direction_ == kBackward || row >= sizes_.sequences;
    const std::int64_t time = is_backward ? 0 : length - 1;
    std::memcpy(run.scratch + states_ + as_size(row) * bytes, run.sequence + (time * rows + row) * sizes_.hidden,
                bytes);
  }
}

void Recurrence::run_step(std::int64_t step, const void* matrices, const Run& run) const {
  const auto* packed = static_cast<const std::uint8_t*>(matrices);
  const auto floats = [&](std::size_t offset) { return reinterpret_cast<float*>(run.scratch + offset); };
  product_->run(floats(states_), packed, prepared(), floats(sums_), run.scratch + product_scratch_);
  if (!last_product_) return in_rows(kind_.cell, step, run, true);
  in_rows(gru_gates, step, run, false);
  last_product_->run(floats(last_), packed + last_matrices(), nullptr, floats(last_sums_), nullptr);
  in_rows(gru_update, step, run, true);
}

// The cells of all directions and sequences.
void Recurrence::in_rows(RecurrentCell cell, std::int64_t step, const Run& run, bool ends) const {
  const std::int64_t rows = sizes_.directions * sizes_.sequences;
  const std::int64_t rows_of_task = divide_up(kStatesOfTask, sizes_.hidden);
  parallel_for(as_size(divide_up(rows, rows_of_task)), target().num_threads, [&](std::size_t task, int) noexcept {
    const std::int64_t first = static_cast<std::int64_t>(task) * rows_of_task;
    for (std::int64_t row = first; row < std::min(first + rows_of_task, rows); ++row)
      run_row(cell, row, step, run, ends);
  });
}

void Recurrence::run_row(RecurrentCell cell, std::int64_t row, std::int64_t step, const Run& run,
                         bool ends) const noexcept {
  const std::int64_t rows = sizes_.directions * sizes_.sequences, hidden = sizes_.hidden;
  const std::int64_t direction = row / sizes_.sequences, number = row % sizes_.sequences;
  const std::int64_t length = run.length(number, steps_);
  const bool is_backward = direction_ == kBackward || direction == 1;
  const std::int64_t time = is_backward && step < length ? length - 1 - step : step;
  const auto of_row = [&](std::size_t offset, std::int64_t count) {
    return reinterpret_cast<float*>(run.scratch + offset) + row * count;
  };
  float *state = of_row(states_, hidden), *result = run.sequence + (time * rows + row) * hidden;
  const std::size_t bytes = as_size(hidden) * sizeof(float);
  if (step >= length) {
    if (ends) std::memset(result, 0, bytes);
    return;
  }
  const std::int64_t place = (time * sizes_.sequences + number) * sizes_.directions + direction;
  cell(*target().kernels().float_functions, functions_,
       {.input = run.input + place * sizes_.columns,
        .sums = of_row(sums_, resets_first_ ? 2 * hidden : sizes_.columns),
        .hidden = state,
        .cell_state = kind_.has_cell_state ? of_row(cells_, hidden) : nullptr,
        .bias = run.bias == nullptr ? nullptr : run.bias + direction * hidden,
        .last = resets_first_ ? of_row(ends ? last_sums_ : last_, hidden) : nullptr,
        .length = as_size(hidden)});
  if (!ends) return;
  std::memcpy(result, state, bytes);
  if (step + 1 == length && length < steps_) std::memset(state, 0, bytes);
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_rnn(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Recurrence>(std::move(desc), target, kRnn);
}

std::unique_ptr<CompiledOperator> compile_lstm(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Recurrence>(std::move(desc), target, kLstm);
}

std::unique_ptr<CompiledOperator> compile_gru(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Recurrence>(std::move(desc), target, kGru);
}

}  // namespace dmlcpu
