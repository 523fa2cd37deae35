// The loop of operators that make each element of an output of one element of an input, of any strides.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "operators/element_wise/row_blocks.h"
#include "operators/operator.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

class MappedRuns {
 public:
  // Throws std::invalid_argument if the sizes differ.
  MappedRuns(const TensorLayout& input, const TensorLayout& output)
      : input_(input.type),
        output_(output.type),
        runs_(std::array{&output, &input}),
        blocks_(runs_, 2, std::max(element_size(input_), element_size(output_))) {}

  // Tensor 0 is the input, tensor 1 the output.
  explicit MappedRuns(const OperatorDesc& desc) : MappedRuns(desc.tensor(0), desc.tensor(1)) {}

  template <class Kernel>
  void run(const TensorPointers& tensors, const ExecutionTarget& target, const Kernel& kernel) const {
    run(tensors[0], tensors[1], target, kernel);
  }

  // kernel(input, output, count) on contiguous runs that cover the tensors.
  template <class Kernel>
  void run(const void* input, void* output, const ExecutionTarget& target, const Kernel& kernel) const {
    const PackKernels& pack = *target.kernels().pack;
    const StridedRuns::Tasks tasks = runs_.tasks(target.num_threads);
    parallel_for(tasks.count(), target.num_threads, [&](std::size_t task, int) noexcept {
      ChunkBuffer input_buffer, output_buffer;
      blocks_.visit(runs_, tasks.piece(task),
                    [&](const StridedRuns::Offsets& offsets, std::size_t rows, std::size_t columns) noexcept {
                      const Rows read = runs_.rows_of(1, rows, columns), written = runs_.rows_of(0, rows, columns);
                      const void* from = gather(element(input, input_, offsets[1]), input_, read, pack, input_buffer);
                      void* to = element(output, output_, offsets[0]);
                      const bool direct = written.contiguous();
                      kernel(from, direct ? to : output_buffer.bytes, rows * columns);
                      if (!direct) scatter(output_buffer, output_, to, written, pack);
                    });
    });
  }

  std::string describe(int num_threads) const { return runs_.describe(num_threads); }

 private:
  DataType input_, output_;
  StridedRuns runs_;
  RowBlocks blocks_;
};

}  // namespace dmlcpu
