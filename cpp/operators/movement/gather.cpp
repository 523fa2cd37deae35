// GATHER: tensors input, indices (INT32 or INT64, one axis), output; attribute axis. The output is the input with what
// the indices name along the axis, in their order. Of graphs alone.
//
// An index below 0 counts from the axis's end. One out of range throws std::out_of_range at a dispatch; nothing beyond
// the input is read for it. A task reads each once: the array may change under the hands of a dispatch.
#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/buffer_layout.h"
#include "operators/movement/axis_indices.h"
#include "operators/operator.h"
#include "operators/sizes.h"
#include "operators/strides/byte_runs.h"
#include "operators/strides/staging.h"
#include "operators/strides/strided_runs.h"
#include "operators/strides/transposed_elements.h"
#include "operators/task_size.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kIndices, kOutput };

// count elements from input on to output on.
void copy_run(std::size_t bytes, const void* input, std::int64_t input_step, void* output, std::int64_t output_step,
              std::size_t count) noexcept {
  if (count == 1 || (input_step == 1 && output_step == 1)) {
    std::memcpy(output, input, count * bytes);
    return;
  }
  const auto step = static_cast<std::int64_t>(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::int64_t>(i);
    std::memcpy(static_cast<std::uint8_t*>(output) + index * output_step * step,
                static_cast<const std::uint8_t*>(input) + index * input_step * step, bytes);
  }
}

TensorLayout slice_of(TensorLayout layout, std::size_t axis) {
  layout.sizes[axis] = 1;
  return layout;
}

class Gather final : public CompiledOperator {
 public:
  Gather(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        axis_(index_attribute(desc(), "axis", desc().tensor(kInput).rank)),
        slice_(slice_runs()),
        unit_bytes_(unit_bytes()) {
    check_taken(desc(), desc().tensor(kInput), desc().tensor(kOutput));
    const TensorLayout &indices = desc().tensor(kIndices), &output = desc().tensor(kOutput);
    if (indices.rank != 1 || indices.sizes[0] != output.sizes[axis_]) {
      throw std::invalid_argument(desc().type + ": the output's axis is as long as the indices, which have one");
    }
  }

  std::string describe() const override {
    return "algorithm: " + std::to_string(index_count()) + " slices of " + std::to_string(slice_.count()) +
           " runs of " + std::to_string(slice_.length()) + " elements, " +
           (in_order()  ? "brought into order in scratch memory"
            : in_rows() ? "row by row"
                        : "one by one");
  }

  std::size_t temporary_size() const override {
    if (!in_order()) return 0;
    BufferLayout staging;
    staging.take(staging_size(), as_size(std::min<std::int64_t>(target().num_threads, blocks())));
    return staging.size();
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const TensorLayout &input = desc().tensor(kInput), &indices = desc().tensor(kIndices);
    const AxisIndices chosen(tensors[kIndices], indices.type, input.sizes[axis_]);
    if (in_order()) {
      run_in_order(tensors, chosen);
    } else if (!in_rows()) {
      run_slices(tensors, chosen);
    } else if (indices.type == DataType::int64) {
      run_rows<std::int64_t>(tensors, chosen);
    } else {
      run_rows<std::int32_t>(tensors, chosen);
    }
    chosen.check();
  }

 private:
  StridedRuns slice_runs() const {
    const TensorLayout output = slice_of(desc().tensor(kOutput), axis_), input = slice_of(desc().tensor(kInput), axis_);
    return StridedRuns(std::array{&output, &input});
  }

  std::size_t index_count() const { return as_size(desc().tensor(kIndices).sizes[0]); }

  // Of a run, if that is one unit in both tensors, else of an element.
  static constexpr std::size_t kMostBytesOfUnit = 512;  // of which there are many to a task
  std::size_t unit_bytes() const {
    const std::size_t bytes = element_size(desc().tensor(kOutput).type), run = slice_.length() * bytes;
    const bool is_unit = slice_.stride(0) == 1 && slice_.stride(1) == 1 && run > 0 && run <= kMostBytesOfUnit;
    return is_unit ? run : bytes;
  }
  std::size_t units_of_run() const { return slice_.length() * element_size(desc().tensor(kOutput).type) / unit_bytes_; }

  // Whether all that is gathered of a row, one unit of each slice, is copied before the next row: a call for each run
  // of each slice would take longer than what it copies. Of few indices rows are so short that long runs are quicker,
  // and so are runs of neighbours that are no unit.
  bool in_rows() const {
    constexpr std::size_t kFewIndices = 16;
    if (units_of_run() == 1) return index_count() > 1;
    return (slice_.stride(0) != 1 || slice_.stride(1) != 1) && index_count() >= std::min(slice_.length(), kFewIndices);
  }

  // Whether slices are apart in the input, whose elements are neighbours along the axis instead, and most of them are
  // wanted: then it takes less time to turn it round, a block at a time, and to copy runs.
  bool in_order() const {
    const TensorLayout& input = desc().tensor(kInput);
    return slice_.stride(0) == 1 && slice_.stride(1) != 1 && slice_.length() > 1 && input.strides[axis_] == 1 &&
           columns_of_block() >= kLeastColumns && index_count() * 2 >= as_size(input.sizes[axis_]);
  }

  static constexpr std::size_t kBlockBytes = 32768, kLeastColumns = 32;
  // Of the slices' runs, so that a block with all positions along the axis stays in a level-1 cache.
  std::size_t columns_of_block() const {
    const std::size_t of_column =
        as_size(desc().tensor(kInput).sizes[axis_]) * element_size(desc().tensor(kInput).type);
    return std::min(kBlockBytes / of_column, slice_.length());
  }
  std::size_t blocks_of_run() const { return (slice_.length() + columns_of_block() - 1) / columns_of_block(); }
  std::int64_t blocks() const { return static_cast<std::int64_t>(slice_.count() * blocks_of_run()); }
  std::size_t staging_size() const {
    const TensorLayout& input = desc().tensor(kInput);
    return columns_of_block() * as_size(input.sizes[axis_]) * element_size(input.type);
  }

  void run_in_order(const TensorPointers& tensors, const AxisIndices& chosen) const {
    std::uint8_t* staging = thread_scratch(temporary_size());
    parallel_for(as_size(blocks()), target().num_threads, [&](std::size_t block, int slot) noexcept {
      const std::size_t first = block % blocks_of_run() * columns_of_block();
      const std::size_t columns = std::min(columns_of_block(), slice_.length() - first);
      copy_block(tensors, chosen, block / blocks_of_run(), first, columns,
                 staging + static_cast<std::size_t>(slot) * staging_size());
    });
  }

  // Some columns of a run of all slices.
  void copy_block(const TensorPointers& tensors, const AxisIndices& chosen, std::size_t run, std::size_t first,
                  std::size_t columns, std::uint8_t* staged) const noexcept {
    const TensorLayout &input = desc().tensor(kInput), &indices = desc().tensor(kIndices),
                       &output = desc().tensor(kOutput);
    const std::size_t bytes = element_size(input.type);
    const StridedRuns::Offsets offsets = slice_.offsets(run);
    const auto column = static_cast<std::int64_t>(first), count = static_cast<std::int64_t>(columns);
    transpose_elements(*target().kernels().pack, bytes,
                       element(tensors[kInput], input.type, offsets[1] + column * slice_.stride(1)), slice_.stride(1),
                       count, input.sizes[axis_], staged, count);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(index_count()); ++i) {
      const std::int64_t place = chosen.place(i * indices.strides[0]);
      if (place < 0) continue;
      std::memcpy(element(tensors[kOutput], output.type, offsets[0] + column + i * output.strides[axis_]),
                  staged + as_size(place) * columns * bytes, columns * bytes);
    }
  }

  void run_slices(const TensorPointers& tensors, const AxisIndices& chosen) const {
    const TensorLayout &input = desc().tensor(kInput), &indices = desc().tensor(kIndices),
                       &output = desc().tensor(kOutput);
    const std::size_t count = index_count(), elements = slice_.count() * slice_.length();
    const std::size_t slices =
        rows_of_task(static_cast<double>(count), static_cast<double>(elements), target().num_threads);
    parallel_for((count + slices - 1) / slices, target().num_threads, [&](std::size_t task, int) noexcept {
      for (std::size_t i = task * slices; i < std::min((task + 1) * slices, count); ++i) {
        const auto index = static_cast<std::int64_t>(i);
        const std::int64_t place = chosen.place(index * indices.strides[0]);
        if (place < 0) continue;
        copy_slice(element(tensors[kInput], input.type, place * input.strides[axis_]),
                   element(tensors[kOutput], output.type, index * output.strides[axis_]));
      }
    });
  }

  // A task is the rows of some runs, and indices that are looked up once for all of them.
  template <class Index>
  void run_rows(const TensorPointers& tensors, const AxisIndices& chosen) const {
    constexpr std::size_t kTogether = 1024, kBytesTogether = 65536;
    const std::size_t together = std::min({index_count(), kTogether, kBytesTogether / unit_bytes_});
    const std::size_t runs = slice_.count();
    const std::size_t pieces = (index_count() + together - 1) / together;
    const std::size_t runs_of_task = std::min(
        rows_of_task(static_cast<double>(pieces) * static_cast<double>(runs),
                     static_cast<double>(together) * static_cast<double>(slice_.length()), target().num_threads),
        runs);
    const std::size_t run_tasks = (runs + runs_of_task - 1) / runs_of_task;
    const TensorLayout &input = desc().tensor(kInput), &indices = desc().tensor(kIndices);
    const std::int64_t step = input.strides[axis_] * static_cast<std::int64_t>(element_size(input.type));
    parallel_for(pieces * run_tasks, target().num_threads, [&](std::size_t task, int) noexcept {
      const std::size_t begin = task / run_tasks * together, first_run = task % run_tasks * runs_of_task;
      const std::size_t count = std::min(together, index_count() - begin);
      const auto* given =
          static_cast<const volatile Index*>(tensors[kIndices]) + static_cast<std::int64_t>(begin) * indices.strides[0];
      std::int64_t places[kTogether];
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t index = given[static_cast<std::int64_t>(i) * indices.strides[0]];
        places[i] = chosen.checked(index, input.sizes[axis_]) * step;
      }
      for (std::size_t run = first_run; run < std::min(first_run + runs_of_task, runs); ++run) {
        copy_rows_of_run(tensors, run, begin, std::span(places).first(count));
      }
    });
  }

  // What some indices, from the one of number begin on, name in the rows of a run.
  void copy_rows_of_run(const TensorPointers& tensors, std::size_t run, std::size_t begin,
                        std::span<const std::int64_t> places) const noexcept {
    const TensorLayout& output = desc().tensor(kOutput);
    const auto bytes = static_cast<std::int64_t>(element_size(output.type));
    const StridedRuns::Offsets offsets = slice_.offsets(run);
    const auto* source = static_cast<const std::uint8_t*>(tensors[kInput]) + offsets[1] * bytes;
    auto* target = static_cast<std::uint8_t*>(tensors[kOutput]) +
                   (offsets[0] + static_cast<std::int64_t>(begin) * output.strides[axis_]) * bytes;
    const std::int64_t step = output.strides[axis_] * bytes;
    with_copy_of(unit_bytes_, [&](const auto& copy) {
      for (std::size_t row = 0; row < units_of_run(); ++row) {
        const std::int64_t first = static_cast<std::int64_t>(row) * bytes;
        const std::uint8_t* from = source + first * slice_.stride(1);
        std::uint8_t* to = target + first * slice_.stride(0);
        for (const std::int64_t place : places) {
          copy(from + place, to);
          to += step;
        }
      }
    });
  }

  void copy_slice(const void* input, void* output) const noexcept {
    const DataType type = desc().tensor(kOutput).type;
    for (std::size_t run = 0; run < slice_.count(); ++run) {
      const StridedRuns::Offsets offsets = slice_.offsets(run);
      copy_run(element_size(type), element(input, type, offsets[1]), slice_.stride(1),
               element(output, type, offsets[0]), slice_.stride(0), slice_.length());
    }
  }

  std::size_t axis_;
  StridedRuns slice_;  // of the output, of the input
  std::size_t unit_bytes_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_gather(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<Gather>(std::move(desc), target);
}

}  // namespace dmlcpu
