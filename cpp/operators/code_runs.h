// The loop of element-wise operators that make 8-bit codes of 8-bit codes.
//
// Kernels take contiguous runs and are at their best with long ones. StridedRuns joins what is one run in every tensor.
// Where the output goes on from run to run and an input does not, because it is broadcast or lies in another order,
// several runs of that input are brought together in a buffer, which is kept while it holds what comes next too:
//
//   {N, H, W, C} memory and {N, C, 1, 1} broadcast over it   the C codes several times over, once for all pixels
//   {N, C, H, W} memory and {N, C, 1, 1} broadcast over it   H*W times each code
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "operators/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

class CodeRuns {
 public:
  static constexpr std::size_t kMaxInputs = 2;
  using Inputs = std::array<const std::uint8_t*, kMaxInputs>;

  // The output, then the inputs: 8-bit codes of equal sizes. Throws std::invalid_argument if sizes differ.
  explicit CodeRuns(std::span<const TensorLayout* const> operands)
      : runs_(operands), input_count_(operands.size() - 1) {}

  // kernel(inputs, output, count) on contiguous codes that cover the tensors.
  template <class Kernel>
  void run(const Inputs& inputs, std::uint8_t* output, int num_threads, const Kernel& kernel) const {
    parallel_for(runs_.task_count(), num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = runs_.piece(task);
      Buffers buffers;
      for (std::size_t r = 0, rows = 0; r < piece.run_count; r += rows) {
        rows = rows_at(piece, r);
        const std::size_t step = rows > 1 || whole_runs() ? piece.size : std::min(piece.size, kBufferSize);
        for (std::size_t begin = 0; begin < piece.size; begin += step) {
          const Block block = {runs_.offsets(piece.first_run + r), piece.begin + begin, rows,
                               std::min(step, piece.size - begin)};
          Inputs codes{};
          for (std::size_t i = 0; i < input_count_; ++i) codes[i] = contiguous(block, i, inputs[i], buffers.inputs[i]);
          std::uint8_t* target = output + offset(block, 0);
          const bool direct = runs_.stride(0) == 1 || block.count() == 1;
          kernel(codes, direct ? target : buffers.output, block.count());
          if (!direct) scatter(buffers.output, block.columns, target);
        }
      }
    });
  }

  std::string describe(int num_threads) const { return runs_.describe(num_threads); }

 private:
  static constexpr std::size_t kBufferSize = 4096;  // an input's or the output's; all within a quarter of an L1 cache

  // rows runs that follow each other along the second axis, columns elements of each from begin on.
  struct Block {
    StridedRuns::Offsets offsets;
    std::size_t begin, rows, columns;
    std::size_t count() const { return rows * columns; }
  };

  // A contiguous copy of rows runs of columns elements from source on.
  struct Copy {
    const std::uint8_t* source = nullptr;
    std::size_t rows = 0, columns = 0;
    alignas(64) std::uint8_t codes[kBufferSize];
  };

  struct Buffers {
    Copy inputs[kMaxInputs];
    alignas(64) std::uint8_t output[kBufferSize];
  };

  // Operand 0 is the output, operand 1 + i input i.
  std::int64_t offset(const Block& block, std::size_t operand) const {
    return block.offsets[operand] + static_cast<std::int64_t>(block.begin) * runs_.stride(operand);
  }
  bool whole_runs() const;
  std::size_t rows_at(const StridedRuns::Piece& piece, std::size_t run) const;
  const std::uint8_t* contiguous(const Block& block, std::size_t input, const std::uint8_t* data, Copy& copy) const;
  void scatter(const std::uint8_t* codes, std::size_t count, std::uint8_t* target) const;

  StridedRuns runs_;
  std::size_t input_count_;
};

}  // namespace dmlcpu
