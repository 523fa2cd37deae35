// The loop that quantizing and dequantizing share: an input, a scale and an optional zero point, all of the output's
// sizes and of any strides.
#pragma once

#include <algorithm>
#include <span>

#include "operators/operator.h"
#include "operators/staging.h"
#include "operators/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {

class ScaledRuns {
 public:
  // zero_point_offset is added to every zero point; an absent one is absent_zero_point before that.
  ScaledRuns(const OperatorDesc& desc, float zero_point_offset, float absent_zero_point)
      : input_(desc.tensor(0)),
        scale_(desc.tensor(1)),
        zero_point_(desc.tensors.at(2)),
        output_(desc.tensor(3)),
        runs_(std::array{&output_, &input_, &scale_, zero_point_ ? &*zero_point_ : nullptr}),
        zero_point_offset_(zero_point_offset),
        absent_zero_point_(absent_zero_point) {}

  // kernel(input, output, count, scale, zero_point, per_element) on contiguous runs that cover the tensors.
  template <class Kernel>
  void run(const TensorPointers& tensors, int num_threads, const Kernel& kernel) const {
    parallel_for(runs_.task_count(), num_threads, [&](std::size_t task, int) noexcept {
      const StridedRuns::Piece piece = runs_.piece(task);
      Parameters parameters;
      for (std::size_t r = 0; r < piece.run_count; ++r) {
        const StridedRuns::Offsets offsets = runs_.offsets(piece.first_run + r);
        const std::size_t chunk = whole_pieces() ? piece.size : kChunk;
        for (std::size_t begin = 0; begin < piece.size; begin += chunk) {
          run_chunk(tensors, offsets, piece.begin + begin, std::min(chunk, piece.size - begin), parameters, kernel);
        }
      }
    });
  }

  std::string describe(int num_threads) const {
    return std::string("parameters: ") + (per_element() ? "one for each element of a run" : "one for each run") + "\n" +
           runs_.describe(num_threads);
  }

 private:
  // The parameters of the last chunk, kept while the next chunk uses the same ones, as every pixel of an {N, H, W, C}
  // tensor with a scale for each channel does.
  struct Parameters {
    std::int64_t scale_index = -1, zero_point_index = -1;
    std::size_t count = 0;
    alignas(64) float scale[kChunk];
    alignas(64) float zero_point[kChunk];
  };

  bool per_element() const { return runs_.stride(2) != 0 || runs_.stride(3) != 0; }
  bool whole_pieces() const { return !per_element() && runs_.stride(0) == 1 && runs_.stride(1) == 1; }

  void load(const TensorPointers& tensors, std::int64_t scale_index, std::int64_t zero_point_index, std::size_t count,
            Parameters& parameters) const {
    if (scale_index == parameters.scale_index && zero_point_index == parameters.zero_point_index &&
        count == parameters.count) {
      return;
    }
    gather_as_float(element(static_cast<const void*>(tensors[1]), scale_.type, scale_index), scale_.type,
                    runs_.stride(2), count, parameters.scale);
    if (zero_point_) {
      gather_as_float(element(static_cast<const void*>(tensors[2]), zero_point_->type, zero_point_index),
                      zero_point_->type, runs_.stride(3), count, parameters.zero_point);
    } else {
      std::fill_n(parameters.zero_point, count, absent_zero_point_);
    }
    if (zero_point_offset_ != 0.0F) {
      for (std::size_t i = 0; i < count; ++i) parameters.zero_point[i] += zero_point_offset_;
    }
    parameters.scale_index = scale_index;
    parameters.zero_point_index = zero_point_index;
    parameters.count = count;
  }

  template <class Kernel>
  void run_chunk(const TensorPointers& tensors, const StridedRuns::Offsets& offsets, std::size_t begin,
                 std::size_t count, Parameters& parameters, const Kernel& kernel) const {
    const auto index = [&](std::size_t operand) {
      return offsets[operand] + static_cast<std::int64_t>(begin) * runs_.stride(operand);
    };
    load(tensors, index(2), index(3), per_element() ? count : 1, parameters);
    ChunkBuffer input_buffer, output_buffer;
    const void* input = gather(element(static_cast<const void*>(tensors[0]), input_.type, index(1)), input_.type,
                               runs_.stride(1), count, input_buffer);
    void* output = element(tensors[3], output_.type, index(0));
    const bool direct = runs_.stride(0) == 1 || count == 1;
    kernel(input, direct ? output : output_buffer.bytes, count, parameters.scale, parameters.zero_point, per_element());
    if (!direct) scatter(output_buffer, output_.type, output, runs_.stride(0), count);
  }

  TensorLayout input_, scale_;
  std::optional<TensorLayout> zero_point_;
  TensorLayout output_;
  StridedRuns runs_;
  float zero_point_offset_;
  float absent_zero_point_;
};

}  // namespace dmlcpu
