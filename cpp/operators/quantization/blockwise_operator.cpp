#include "operators/quantization/blockwise_operator.h"

#include <algorithm>

#include "operators/plan_words.h"
#include "operators/strides/nibble_staging.h"
#include "operators/strides/staging.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// The shortest row that is worth a kernel's row; parameters of shorter ones are repeated for each element.
constexpr std::size_t kShortestRow = 16;

// Columns of rows that share a parameter each, as many as kernels prepare once for all rows.
constexpr std::size_t kSharedColumns = 512;

}  // namespace

// Parameters are kept while the next chunk uses the same ones, as all rows of a block along an outer axis do.
struct BlockwiseOperator::Workspace {
  ChunkBuffer input, output;
  alignas(64) float scale[kChunk];
  alignas(64) float zero_point[kChunk];
  std::int64_t scale_index = -1, zero_point_index = -1;
  std::size_t rows = 0, columns = 0;
  NibbleRowsFunction packed_rows = nullptr;
};

BlockwiseOperator::BlockwiseOperator(OperatorDesc&& operator_desc, ExecutionTarget target, float zero_point_offset,
                                     float absent_zero_point)
    : CompiledOperator(std::move(operator_desc), target),
      input_(desc().tensor(kInput)),
      scale_(desc().tensor(kScale)),
      zero_point_(desc().tensors.at(kZeroPoint)),
      output_(desc().tensor(kOutput)),
      runs_(input_, scale_, zero_point_ ? &*zero_point_ : nullptr, output_),
      rows_in_place_(takes_rows_in_place()),
      zero_point_offset_(zero_point_offset),
      absent_zero_point_(absent_zero_point) {}

// Tasks must not share a byte that they write. If rows begin at even indices and have no gaps, they do not: the cuts
// within a row are even too (BlockedRuns::kElementsPerTask).
int BlockwiseOperator::num_threads() const {
  return is_four_bits(output_.type) && !runs_.has_even_rows(kOutput) ? 1 : target().num_threads;
}

// Whether rows of packed elements go to the output at once. They begin at whole bytes, as their lengths are even.
bool BlockwiseOperator::takes_packed_rows() const {
  return is_four_bits(input_.type) && packed_rows_kernel() != nullptr && one_parameter_a_row() &&
         runs_.columns() % kNibbleColumns == 0 && runs_.has_even_rows(kInput) && runs_.stride(kOutput) == 1;
}

std::string BlockwiseOperator::describe() const {
  const char* parameters = one_parameter_a_row() ? "one for each row" : "one for each element of a row";
  const bool is_packed = is_four_bits(input_.type) || is_four_bits(output_.type);
  const char* nibbles = takes_packed_rows() ? " of packed rows" : is_packed ? ", nibbles unpacked or packed apart" : "";
  return "algorithm: one pass\nkernel: " + kernel_words(target(), kernel_family()) + nibbles +
         "\nparameters: " + parameters + "\n" + runs_.describe(num_threads());
}

// Whether kernels take rows as they lie in memory, with a parameter for each or the same ones for all.
bool BlockwiseOperator::takes_rows_in_place() const {
  if (is_four_bits(input_.type) || is_four_bits(output_.type)) return false;
  if (runs_.stride(kInput) != 1 || runs_.stride(kOutput) != 1) return false;
  if (one_parameter_a_row()) return runs_.columns() >= kShortestRow;
  return runs_.row_stride(kScale) == 0 && runs_.row_stride(kZeroPoint) == 0;
}

void BlockwiseOperator::run(const TensorPointers& tensors) const {
  const NibbleRowsFunction packed_rows = takes_packed_rows() ? packed_rows_kernel() : nullptr;
  const bool joined_rows = runs_.is_uniform(kInput) && runs_.is_uniform(kOutput);
  const bool whole_rows = packed_rows != nullptr || (rows_in_place_ && one_parameter_a_row());
  const bool shared_columns = rows_in_place_ && !one_parameter_a_row() && runs_.rows() > 1;
  const std::size_t most_columns = whole_rows       ? BlockedRuns::kElementsPerTask
                                   : shared_columns ? kSharedColumns
                                                    : kChunk;
  parallel_for(runs_.task_count(), num_threads(), [&](std::size_t task, int) noexcept {
    Workspace workspace;
    workspace.packed_rows = packed_rows;
    const BlockedRuns::Piece piece = runs_.piece(task);
    const std::size_t columns = std::min(piece.column_count, most_columns);
    const std::size_t rows_of_chunk = packed_rows != nullptr ? kChunk : std::max<std::size_t>(kChunk / columns, 1);
    const std::size_t rows = rows_in_place_ ? kChunk : joined_rows && columns == runs_.columns() ? rows_of_chunk : 1;
    for (std::size_t plane = 0; plane < piece.plane_count; ++plane) {
      const OperandStrides first = runs_.offsets(piece.first_plane + plane);
      // Rows innermost: chunks below each other may have the same parameters.
      for (std::size_t column = 0; column < piece.column_count; column += columns) {
        for (std::size_t row = 0; row < piece.row_count; row += rows) {
          OperandStrides index = first;
          for (std::size_t i = 0; i < kMaxOperands; ++i) {
            index[i] += static_cast<std::int64_t>(piece.first_row + row) * runs_.row_stride(i) +
                        static_cast<std::int64_t>(piece.first_column + column) * runs_.stride(i);
          }
          run_chunk(tensors, index, std::min(rows, piece.row_count - row),
                    std::min(columns, piece.column_count - column), workspace);
        }
      }
    }
  });
}

// A chunk has several rows only where they form one run in the input and in the output, or kernels read and write them
// where they are.
void BlockwiseOperator::run_chunk(const TensorPointers& tensors, const OperandStrides& index, std::size_t rows,
                                  std::size_t columns, Workspace& workspace) const noexcept {
  const NibblesKernels& nibbles = *target().kernels().nibbles;
  const bool per_element = !one_parameter_a_row() || (columns < kShortestRow && rows > 1);
  load_parameters(tensors, index, rows_in_place_ && per_element ? 1 : rows, columns, per_element, workspace);
  if (rows_in_place_) {
    return compute({.input = element(static_cast<const void*>(tensors[kInput]), input_.type, index[kInput]),
                    .output = element(tensors[kOutput], output_.type, index[kOutput]),
                    .count = columns,
                    .scale = workspace.scale,
                    .zero_point = workspace.zero_point,
                    .per_element = per_element,
                    .rows = rows,
                    .input_row_stride = static_cast<std::size_t>(runs_.row_stride(kInput)),
                    .output_row_stride = static_cast<std::size_t>(runs_.row_stride(kOutput))});
  }
  if (workspace.packed_rows != nullptr) {
    return workspace.packed_rows({.input = static_cast<const std::uint8_t*>(tensors[kInput]) + index[kInput] / 2,
                                  .output = element(tensors[kOutput], output_.type, index[kOutput]),
                                  .rows = rows,
                                  .columns = columns,
                                  .scale = workspace.scale,
                                  .zero_point = workspace.zero_point,
                                  .flip = offset_flip(input_.type)});
  }

  const std::size_t count = rows * columns;
  const void* input = workspace.input.bytes;
  if (is_four_bits(input_.type)) {
    const NibbleRun run = {index[kInput], runs_.stride(kInput), count, offset_flip(input_.type)};
    load_nibbles(nibbles, tensors[kInput], run, workspace.input.bytes);
  } else {
    input = gather(element(static_cast<const void*>(tensors[kInput]), input_.type, index[kInput]), input_.type,
                   {1, count, 0, runs_.stride(kInput)}, *target().kernels().pack, workspace.input);
  }
  const bool direct = !is_four_bits(output_.type) && (runs_.stride(kOutput) == 1 || count == 1);
  void* output = direct ? element(tensors[kOutput], output_.type, index[kOutput]) : workspace.output.bytes;
  const std::size_t columns_of_row = per_element ? count : columns;
  compute({.input = input,
           .output = output,
           .count = columns_of_row,
           .scale = workspace.scale,
           .zero_point = workspace.zero_point,
           .per_element = per_element,
           .rows = count / columns_of_row,
           .input_row_stride = columns_of_row,
           .output_row_stride = columns_of_row});
  if (is_four_bits(output_.type)) {
    const NibbleRun run = {index[kOutput], runs_.stride(kOutput), count, offset_flip(output_.type)};
    store_nibbles(nibbles, workspace.output.bytes, run, tensors[kOutput]);
  } else if (!direct) {
    scatter(workspace.output, output_.type, element(tensors[kOutput], output_.type, index[kOutput]),
            {1, count, 0, runs_.stride(kOutput)}, *target().kernels().pack);
  }
}

void BlockwiseOperator::load_parameters(const TensorPointers& tensors, const OperandStrides& index, std::size_t rows,
                                        std::size_t columns, bool per_element, Workspace& workspace) const noexcept {
  if (workspace.scale_index == index[kScale] && workspace.zero_point_index == index[kZeroPoint] &&
      workspace.rows == rows && workspace.columns == columns) {
    return;
  }
  const auto load = [&](const void* data, const TensorLayout& layout, std::size_t operand, float* values) {
    if (!per_element) return load_values(data, layout, index[operand], runs_.row_stride(operand), rows, values);
    for (std::size_t row = 0; row < rows; ++row) {
      const std::int64_t first = index[operand] + static_cast<std::int64_t>(row) * runs_.row_stride(operand);
      load_values(data, layout, first, runs_.stride(operand), columns, values + row * columns);
    }
  };
  const std::size_t count = per_element ? rows * columns : rows;
  load(tensors[kScale], scale_, kScale, workspace.scale);
  if (zero_point_) {
    load(tensors[kZeroPoint], *zero_point_, kZeroPoint, workspace.zero_point);
    if (zero_point_offset_ != 0.0F) {
      for (std::size_t i = 0; i < count; ++i) workspace.zero_point[i] += zero_point_offset_;
    }
  } else {
    std::fill_n(workspace.zero_point, count, absent_zero_point_);
  }
  workspace.scale_index = index[kScale];
  workspace.zero_point_index = index[kZeroPoint];
  workspace.rows = rows;
  workspace.columns = columns;
}

// The float32 of count elements, at most kChunk.
void BlockwiseOperator::load_values(const void* data, const TensorLayout& layout, std::int64_t index,
                                    std::int64_t stride, std::size_t count, float* values) const noexcept {
  if (!is_four_bits(layout.type)) {
    return gather_as_float(element(data, layout.type, index), layout.type, stride, count, values);
  }
  std::uint8_t codes[kChunk];
  const std::uint8_t flip = offset_flip(layout.type);
  load_nibbles(*target().kernels().nibbles, data, {index, stride, count, flip}, codes);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(codes[i] - flip);
}

}  // namespace dmlcpu
