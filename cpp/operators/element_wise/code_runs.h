// The loop of element-wise operators that make 8-bit codes of 8-bit codes.
//
// Kernels take contiguous runs and are at their best with long ones. StridedRuns joins what is one run in every tensor;
// planes of what remains are cut into blocks. Inputs that are not one run within a block are brought together in a
// buffer (staging.h), which is kept while it holds what comes next too:
//
//   {N, H, W, C} memory and {N, C, 1, 1} broadcast over it   the C codes several times over, once for all pixels
//   {N, C, H, W} memory and {N, C, 1, 1} broadcast over it   H*W times each code
//
// Where one of two inputs is one code over a long run, the output is a function of the other's code: 256 outputs of the
// kernel are a table of it, and the run is looked up (kernels/table).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

class CodeRuns {
 public:
  static constexpr std::size_t kMaxInputs = 2;
  using Inputs = std::array<const std::uint8_t*, kMaxInputs>;

  // The output, then the inputs: 8-bit codes of equal sizes. Throws std::invalid_argument if sizes differ.
  CodeRuns(std::span<const TensorLayout* const> operands, const ExecutionTarget& target);

  // kernel(inputs, output, count) on contiguous codes that cover the tensors. It makes each code of the output of those
  // of the inputs at the same place, so that it may be called on other codes besides.
  template <class Kernel>
  void run(const Inputs& inputs, std::uint8_t* output, const Kernel& kernel) const {
    const StridedRuns::Tasks tasks = runs_.tasks(num_threads_);
    parallel_for(tasks.count(), num_threads_, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = tasks.piece(task);
      Staging staging;
      runs_.for_each_block(piece, max_rows_, max_columns_, [&](const StridedRuns::Block& block) noexcept {
        run_block(block, inputs, output, staging, kernel);
      });
    });
  }

  // The plan in words, one property a line, for CompiledOperator::describe.
  std::string describe() const;

 private:
  using Block = StridedRuns::Block;

  // A contiguous copy of rows of a tensor from first on.
  struct Copy {
    const std::uint8_t* first = nullptr;
    std::size_t rows = 0, columns = 0;
    ChunkBuffer codes;
  };

  // What the output is for each code of one input beside the code at constant of the other.
  struct Table {
    const std::uint8_t* constant = nullptr;
    alignas(64) std::uint8_t codes[256];
  };

  // 0 to 255.
  alignas(64) static constexpr std::array<std::uint8_t, 256> kEveryCode = [] {
    std::array<std::uint8_t, 256> codes{};
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
    return codes;
  }();

  struct Staging {
    Copy inputs[kMaxInputs];
    Table table;
    ChunkBuffer output;
  };

  void choose_blocks();
  std::optional<std::size_t> constant_input() const;
  const std::uint8_t* contiguous(const Block& block, std::size_t input, const std::uint8_t* data, Copy& copy) const;
  void look_up(const Table& table, const std::uint8_t* codes, std::size_t count, std::uint8_t* output) const;

  template <class Kernel>
  void run_block(const Block& block, const Inputs& inputs, std::uint8_t* output, Staging& staging,
                 const Kernel& kernel) const {
    const Rows output_rows = runs_.rows_of(0, block.rows, block.columns);
    const bool in_place = output_rows.contiguous();
    std::uint8_t* codes = in_place ? output + block.offsets[0] : staging.output.bytes;
    if (constant_) {
      const std::size_t constant = *constant_, other = 1 - constant;
      fill_table(constant, inputs[constant] + block.offsets[1 + constant], staging.table, kernel);
      look_up(staging.table, inputs[other] + block.offsets[1 + other], block.columns, codes);
    } else {
      Inputs contiguous_codes{};
      for (std::size_t i = 0; i < input_count_; ++i) {
        contiguous_codes[i] = contiguous(block, i, inputs[i], staging.inputs[i]);
      }
      kernel(contiguous_codes, codes, block.rows * block.columns);
    }
    if (!in_place) scatter(staging.output, DataType::uint8, output + block.offsets[0], output_rows, pack_);
  }

  template <class Kernel>
  static void fill_table(std::size_t constant, const std::uint8_t* code, Table& table, const Kernel& kernel) {
    if (table.constant == code) return;
    alignas(64) std::uint8_t same_code[256];
    std::fill_n(same_code, 256, *code);
    kernel(constant == 0 ? Inputs{same_code, kEveryCode.data()} : Inputs{kEveryCode.data(), same_code}, table.codes,
           256);
    table.constant = code;
  }

  StridedRuns runs_;  // operand 0 is the output, operand 1 + i input i
  std::size_t input_count_;
  const PackKernels& pack_;
  const TableKernels& table_;
  int num_threads_;
  std::optional<std::size_t> constant_;  // the input that is one code over each run, if the rest is looked up
  std::size_t max_rows_ = 1, max_columns_ = 1;
};

}  // namespace dmlcpu
