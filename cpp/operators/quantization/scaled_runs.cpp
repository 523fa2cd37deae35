#include "operators/quantization/scaled_runs.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

#include "operators/task_size.h"
#include "runtime/cpu_features.h"

namespace dmlcpu {
namespace {

// Runs below this length are too short for a row of their own.
constexpr std::size_t kShortRun = 16;

// Elements of a block that is read and written in place: a kernel that goes down its columns finds them in a level-1
// cache.
constexpr std::size_t kBlock = 4096;

// The widest vector in elements of parameters: folded rows are multiples of it where they can be.
constexpr std::size_t kLanes = 64;

// Parameters of a row up to which kernels keep them from row to row.
constexpr std::size_t kFewParameters = 512;

// The wider tensor decides the order of the axes, the output where both are as wide. A tensor that repeats has no
// order.
std::size_t decider(const TensorLayout& input, const TensorLayout& output) {
  for (std::size_t axis = 0; axis < input.rank; ++axis) {
    if (input.strides[axis] == 0 && input.sizes[axis] != 1) return 0;
  }
  return element_size(input.type) > element_size(output.type) ? 1 : 0;
}

DataType type_of(const TensorLayout* layout) { return layout == nullptr ? DataType::unknown : layout->type; }

std::size_t bytes_of(const TensorLayout& layout) {
  return static_cast<std::size_t>(layout.element_count()) * element_size(layout.type);
}

// Whether to store past the caches: where the CPU does that fast, and the operator writes more than it reads, and far
// more than these would keep until the next operator reads it, so that lines need not be fetched to be overwritten.
bool streams(std::size_t bytes_read, std::size_t bytes_written) {
  // Measured on a core with 2 MiB of level 2, alone and together with a reader of the output: from bytes to floats it
  // begins to win at about 40 MiB; from floats to bytes, and from two bytes to one, it loses up to 256 MiB.
  constexpr std::size_t kTimesLevel2 = 16;
  return has_fast_streaming_stores() && bytes_written >= bytes_read &&
         bytes_read + bytes_written >= kTimesLevel2 * cache_sizes().level_2;
}

}  // namespace

ScaledRuns::ScaledRuns(const TensorLayout& input, const TensorLayout* scale, const TensorLayout* zero_point,
                       const TensorLayout& output, const ExecutionTarget& target, float zero_point_offset)
    : runs_(std::array{&output, &input, scale, zero_point}, decider(input, output)),
      input_type_(input.type),
      output_type_(output.type),
      scale_type_(type_of(scale)),
      zero_point_type_(type_of(zero_point)),
      zero_point_offset_(zero_point_offset),
      pack_(*target.kernels().pack),
      num_threads_(target.num_threads),
      streams_(runs_.dense(kOutput) && streams(bytes_of(input), bytes_of(output))),
      repeats_(repeats()) {
  choose_blocks();
}

void ScaledRuns::choose_blocks() {
  const std::size_t length = runs_.length();
  const bool by_column = runs_.stride(kScale) != 0 || runs_.stride(kZeroPoint) != 0;
  if (by_column && row_invariant()) {
    // Folded rows are whole: tasks have parts of rows where a parameter's elements are apart.
    const bool has_whole_rows = runs_.tasks(num_threads_).piece(0).size == length;
    const bool folds =
        runs_.rows() > 1 && length <= kChunk / 2 && runs_.dense(kInput) && runs_.dense(kOutput) && has_whole_rows;
    spread_ = folds ? Spread::folded : Spread::columns;
  } else if (by_column || (!repeats_ && runs_.rows() > 1 && length < kShortRun)) {
    spread_ = Spread::elements;
  }

  // Elements that fit the buffers of what is staged.
  std::size_t staged_bytes = 0;
  if (!in_place(kInput, 1, length)) staged_bytes = element_size(input_type_);
  if (!in_place(kOutput, 1, length) || streams_) staged_bytes = std::max(staged_bytes, element_size(output_type_));
  std::size_t elements = staged_bytes == 0 ? kBlock : kChunkBytes / staged_bytes;
  if (spread_ == Spread::elements) elements = std::min(elements, kChunk);

  max_columns_ = elements;
  if (spread_ != Spread::rows) {
    max_columns_ = std::min(max_columns_, kChunk);
  } else if (staged_bytes == 0) {
    max_columns_ = length;
  }
  if (runs_.apart(kInput) || runs_.apart(kOutput)) {
    // Tiles: lines of both sides are used whole, an output's of 64 codes at once.
    const std::size_t side = elements < kChunkBytes ? 32 : runs_.apart(kOutput) ? kChunkBytes / 64 : 64;
    max_columns_ = std::min(max_columns_, std::max(side, elements / runs_.rows()));
  }
  max_columns_ = std::min(max_columns_, length);
  const bool any_rows = spread_ == Spread::rows && staged_bytes == 0;  // a kernel reads each of them once
  max_rows_ = any_rows ? kChunk : std::clamp<std::size_t>(elements / max_columns_, 1, kChunk);
  if (repeats_ && in_place(kOutput, 1, length) && !streams_) {
    max_columns_ = std::min(max_columns_, kBlock);
    max_rows_ = kChunk;
  }
  if (spread_ == Spread::folded) {
    const std::size_t folded = std::lcm(length, kLanes);
    fold_ = (folded <= kChunk ? folded : kChunk) / length;
    // Kernels walk rows of few parameters from end to end, however many they are.
    if (staged_bytes == 0 && length * fold_ <= kFewParameters) elements = kMostElementsOfTask;
    max_rows_ = std::max<std::size_t>(elements / length, 1);
  }
}

bool ScaledRuns::in_place(Operand operand, std::size_t rows, std::size_t columns) const {
  const Rows block = runs_.rows_of(operand, rows, columns);
  return spread_ == Spread::elements ? block.contiguous() : columns == 1 || block.column_stride == 1;
}

void ScaledRuns::load(const Operands& operands, const StridedRuns::Offsets& offsets, std::size_t rows,
                      std::size_t columns, Parameters& parameters) const {
  const std::size_t count = spread_ == Spread::columns  ? columns
                            : spread_ == Spread::folded ? columns * fold_
                            : spread_ == Spread::rows   ? rows
                                                        : rows * columns;
  const bool has_these = count == parameters.count
                             ? spread_ != Spread::elements || columns == parameters.columns
                             : count < parameters.count && spread_ == Spread::rows && row_invariant();
  if (offsets[kScale] == parameters.scale_index && offsets[kZeroPoint] == parameters.zero_point_index && has_these) {
    return;
  }
  const std::size_t parameter_rows = spread_ == Spread::columns ? 1 : spread_ == Spread::folded ? fold_ : rows;
  if (scale_type_ == DataType::unknown) {
    std::fill_n(parameters.scale, count, operands.constant_scale);
  } else {
    load_one(element(operands.scale, scale_type_, offsets[kScale]), scale_type_, kScale, parameter_rows, columns,
             parameters.scale);
  }
  if (zero_point_type_ == DataType::unknown) {
    std::fill_n(parameters.zero_point, count, operands.constant_zero_point);
  } else {
    load_one(element(operands.zero_point, zero_point_type_, offsets[kZeroPoint]), zero_point_type_, kZeroPoint,
             parameter_rows, columns, parameters.zero_point);
    for (std::size_t i = 0; i < count; ++i) parameters.zero_point[i] += zero_point_offset_;
  }
  parameters.scale_index = offsets[kScale];
  parameters.zero_point_index = offsets[kZeroPoint];
  parameters.count = count;
  parameters.columns = columns;
}

void ScaledRuns::load_one(const void* data, DataType type, Operand operand, std::size_t rows, std::size_t columns,
                          float* values) const {
  if (spread_ == Spread::rows) return gather_as_float(data, type, runs_.row_stride(operand), rows, values);
  for (std::size_t row = 0; row < rows; ++row) {
    const auto index = static_cast<std::int64_t>(row) * runs_.row_stride(operand);
    if (row != 0 && runs_.row_stride(operand) == 0) {
      std::copy_n(values, columns, values + row * columns);
    } else {
      gather_as_float(element(data, type, index), type, runs_.stride(operand), columns, values + row * columns);
    }
  }
}

// The first row of a block of the output to its other rows.
void ScaledRuns::repeat_row(void* first, std::size_t row_stride, std::size_t rows, std::size_t columns) const {
  auto* bytes = static_cast<std::uint8_t*>(first);
  const std::size_t size = columns * element_size(output_type_), step = row_stride * element_size(output_type_);
  if (step != size) {
    for (std::size_t row = 1; row < rows; ++row) std::memcpy(bytes + row * step, bytes, size);
    return;
  }
  for (std::size_t done = size; done < rows * size; done *= 2) {
    std::memcpy(bytes + done, bytes, std::min(done, rows * size - done));
  }
}

void ScaledRuns::store_staged(const ChunkBuffer& buffer, void* output, std::size_t rows, std::size_t columns) const {
  const Rows target = runs_.rows_of(kOutput, rows, columns);
  if (!streams_) return scatter(buffer, output_type_, output, target, pack_);
  const std::size_t parts = target.contiguous() ? 1 : rows;
  const std::size_t size = rows / parts * columns * element_size(output_type_);
  for (std::size_t part = 0; part < parts; ++part) {
    const auto index = static_cast<std::int64_t>(part) * target.row_stride;
    pack_.stream(buffer.bytes + part * size, size, static_cast<std::uint8_t*>(element(output, output_type_, index)));
  }
}

// Orders streaming stores before whatever tells another thread that they are done: a full fence, as a release is not
// enough for them.
void ScaledRuns::finish_streams() { std::atomic_thread_fence(std::memory_order_seq_cst); }

std::string ScaledRuns::describe() const {
  const char* spread = spread_ == Spread::rows      ? "one for each row"
                       : spread_ == Spread::columns ? "one for each element of a row"
                       : spread_ == Spread::folded  ? "one for each element of a row, rows folded"
                                                    : "one for each element of a block";
  std::string text = std::string("parameters: ") + spread + "\nblocks: up to " + std::to_string(max_rows_) + " x " +
                     std::to_string(max_columns_) + " elements";
  if (!in_place(kInput, max_rows_, max_columns_)) text += ", the input gathered";
  if (!in_place(kOutput, max_rows_, max_columns_)) text += ", the output scattered";
  if (repeats_) text += ", one row computed for all";
  if (streams_) text += ", stored past the caches";
  return text + "\n" + runs_.describe(num_threads_);
}

}  // namespace dmlcpu
