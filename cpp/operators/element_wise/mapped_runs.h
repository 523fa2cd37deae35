// The loop of operators that make each element of an output of one element of an input, of any strides.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "operators/operator.h"
#include "operators/staging.h"
#include "operators/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

class MappedRuns {
 public:
  // Throws std::invalid_argument if the sizes differ.
  MappedRuns(const TensorLayout& input, const TensorLayout& output)
      : input_(input.type), output_(output.type), runs_(std::array{&output, &input}) {}

  // Tensor 0 is the input, tensor 1 the output.
  explicit MappedRuns(const OperatorDesc& desc) : MappedRuns(desc.tensor(0), desc.tensor(1)) {}

  template <class Kernel>
  void run(const TensorPointers& tensors, const ExecutionTarget& target, const Kernel& kernel) const {
    run(tensors[0], tensors[1], target, kernel);
  }

  // kernel(input, output, count) on contiguous runs that cover the tensors.
  template <class Kernel>
  void run(const void* input, void* output, const ExecutionTarget& target, const Kernel& kernel) const {
    const bool whole_pieces = runs_.stride(0) == 1 && runs_.stride(1) == 1;
    parallel_for(runs_.task_count(), target.num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = runs_.piece(task);
      const std::size_t chunk = whole_pieces ? piece.size : kChunk;
      for (std::size_t r = 0; r < piece.run_count; ++r) {
        const StridedRuns::Offsets offsets = runs_.offsets(piece.first_run + r);
        for (std::size_t begin = 0; begin < piece.size; begin += chunk) {
          run_chunk(input, output, offsets, piece.begin + begin, std::min(chunk, piece.size - begin),
                    *target.kernels().pack, kernel);
        }
      }
    });
  }

  std::string describe(int num_threads) const { return runs_.describe(num_threads); }

 private:
  template <class Kernel>
  void run_chunk(const void* input_data, void* output_data, const StridedRuns::Offsets& offsets, std::size_t begin,
                 std::size_t count, const PackKernels& pack, const Kernel& kernel) const {
    const auto index = [&](std::size_t operand) {
      return offsets[operand] + static_cast<std::int64_t>(begin) * runs_.stride(operand);
    };
    ChunkBuffer input_buffer, output_buffer;
    const void* input =
        gather(element(input_data, input_, index(1)), input_, {1, count, 0, runs_.stride(1)}, pack, input_buffer);
    void* output = element(output_data, output_, index(0));
    const bool direct = runs_.stride(0) == 1 || count == 1;
    kernel(input, direct ? output : output_buffer.bytes, count);
    if (!direct) scatter(output_buffer, output_, output, {1, count, 0, runs_.stride(0)}, pack);
  }

  DataType input_, output_;
  StridedRuns runs_;
};

}  // namespace dmlcpu
