#include "operators/element_wise/code_runs.h"

#include <algorithm>

namespace dmlcpu {
namespace {

// Where a run is shorter, several are one block.
constexpr std::size_t kLongRun = 512;

// From this length on a run pays for a table of its own, 256 codes made and one looked up for each of its.
constexpr std::size_t kTabledRun = 512;

// The columns of a block of codes that are neighbours across rows: lines of both sides are used whole.
constexpr std::size_t kTile = 64, kTileOfOutput = kChunkBytes / kTile;

bool in_one_order(const TensorLayout& a, const TensorLayout& b) {
  for (std::size_t axis = 0; axis < a.rank; ++axis) {
    if (a.sizes[axis] != 1 && (a.strides[axis] != b.strides[axis] || a.strides[axis] == 0)) return false;
  }
  return true;
}

// The operand that decides the order of the axes: the output, unless two inputs lie in one order, so that as few
// operands as can be are transposed.
std::size_t decider(std::span<const TensorLayout* const> operands) {
  const bool by_inputs =
      operands.size() == 3 && operands[1]->rank == operands[2]->rank && in_one_order(*operands[1], *operands[2]);
  return by_inputs ? 1 : 0;
}

}  // namespace

CodeRuns::CodeRuns(std::span<const TensorLayout* const> operands, const ExecutionTarget& target)
    : runs_(operands, decider(operands)),
      input_count_(operands.size() - 1),
      pack_(*target.kernels().pack),
      table_(*target.kernels().table),
      num_threads_(target.num_threads),
      constant_(constant_input()) {
  choose_blocks();
}

std::optional<std::size_t> CodeRuns::constant_input() const {
  if (input_count_ != 2 || runs_.length() < kTabledRun || runs_.stride(0) != 1) return std::nullopt;
  if (runs_.stride(1) == 0 && runs_.stride(2) == 1) return 0;
  if (runs_.stride(1) == 1 && runs_.stride(2) == 0) return 1;
  return std::nullopt;
}

void CodeRuns::choose_blocks() {
  bool strided = false, staged = false;
  for (std::size_t operand = 0; operand <= input_count_; ++operand) {
    strided |= runs_.apart(operand);
    staged |= runs_.stride(operand) != 1 && !constant_;
  }
  const std::size_t length = runs_.length();
  max_columns_ = staged ? std::min(length, kChunkBytes) : length;
  if (strided) {
    const std::size_t side = runs_.apart(0) ? kTileOfOutput : kTile;
    max_columns_ = std::min(max_columns_, std::max(side, kChunkBytes / runs_.rows()));
  }
  max_rows_ = strided || length < kLongRun ? std::max<std::size_t>(kChunkBytes / max_columns_, 1) : 1;
}

const std::uint8_t* CodeRuns::contiguous(const Block& block, std::size_t input, const std::uint8_t* data,
                                         Copy& copy) const {
  const std::uint8_t* first = data + block.offsets[1 + input];
  const Rows rows = runs_.rows_of(1 + input, block.rows, block.columns);
  if (rows.contiguous()) return first;
  if (copy.first == first && copy.columns == rows.columns && copy.rows >= rows.rows) return copy.codes.bytes;
  gather(first, DataType::uint8, rows, pack_, copy.codes);
  copy.first = first;
  copy.rows = rows.rows;
  copy.columns = rows.columns;
  return copy.codes.bytes;
}

void CodeRuns::look_up(const Table& table, const std::uint8_t* codes, std::size_t count, std::uint8_t* output) const {
  table_.look_up({.table = table.codes, .input = codes, .count = count, .output = output});
}

std::string CodeRuns::describe() const {
  std::string text = "blocks: up to " + std::to_string(max_rows_) + " x " + std::to_string(max_columns_) + " elements";
  if (constant_) text += ", one input the same code all over a run: looked up in a table of the other's";
  return text + "\n" + runs_.describe(num_threads_);
}

}  // namespace dmlcpu
