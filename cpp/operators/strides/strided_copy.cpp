#include "operators/strides/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/byte_runs.h"
#include "operators/strides/element_rows.h"
#include "operators/strides/element_width.h"
#include "operators/strides/transposed_elements.h"
#include "operators/task_size.h"
#include "runtime/cache_line.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::size_t kOutput = 0, kInput = 1;  // operands of the runs
// The axis along which rows of images that are doubled lie; those before it are two of each row, the row, and two of
// each element.
constexpr std::size_t kRowsOfImages = 3;

}  // namespace

StridedCopy::StridedCopy(const TensorLayout& output, const TensorLayout& input, const ExecutionTarget& target)
    : target_(target), element_bytes_(element_size(output.type)), runs_(std::array{&output, &input}) {
  if (input.type != output.type) throw std::invalid_argument("a copy is of its input's data type");
  choose_method();
  find_repeats();
  choose_rows();
  double_images();
  cut_into_tasks(as_size(output.element_count()) / repeats_);
}

void StridedCopy::choose_method() {
  const bool single = runs_.length() == 1;
  if (single || runs_.stride(kOutput) == 1) {
    if (single || runs_.stride(kInput) == 1) {
      method_ = Method::runs;
      return;
    }
    if (runs_.stride(kInput) == 0) {
      method_ = Method::fill;
      return;
    }
    for (std::size_t axis = 1; axis < runs_.rank(); ++axis) {
      if (runs_.stride(kInput, axis) == 1) {
        method_ = Method::transposed;
        row_axis_ = axis;
        return;
      }
    }
  }
}

// Of a dense slice that is not large.
void StridedCopy::find_repeats() {
  const std::size_t outermost = runs_.rank() - 1;
  std::size_t elements = 1;
  for (std::size_t axis = 0; axis < runs_.rank(); ++axis) {
    if (runs_.stride(kOutput, axis) != static_cast<std::int64_t>(elements)) return;
    if (axis < outermost) elements *= as_size(runs_.size(axis));
  }
  if (outermost == 0 || runs_.stride(kInput, outermost) != 0 || elements > kMostElementsOfTask) return;
  repeats_ = as_size(runs_.size(outermost));
}

// Where a block's rows may be along any axis: along the next outer one, or if that is short along one by which blocks
// are fewer, but not so long that its lines leave a level-1 cache until the next block writes to them again.
void StridedCopy::choose_rows() {
  const std::size_t outermost = runs_.rank() - 1;
  if (repeats_ > 1 && row_axis_ == outermost) row_axis_ = runs_.rank();
  if (method_ != Method::runs && method_ != Method::fill) return;
  constexpr std::int64_t kFew = 8, kMost = 128;
  if (row_axis_ >= outermost || runs_.size(row_axis_) >= kFew) return;
  for (std::size_t axis = row_axis_ + 1; axis < (repeats_ > 1 ? outermost : runs_.rank()); ++axis) {
    if (runs_.size(axis) < kFew || runs_.size(axis) > kMost) continue;
    row_axis_ = axis;
    return;
  }
}

// Where each element of a row becomes two, and each row.
void StridedCopy::double_images() {
  if (method_ != Method::fill || repeats_ > 1 || runs_.rank() <= kRowsOfImages) return;
  const auto is_like = [&](std::size_t axis, std::int64_t size, std::int64_t input, std::int64_t output) {
    return runs_.size(axis) == size && runs_.stride(kInput, axis) == input && runs_.stride(kOutput, axis) == output;
  };
  const std::int64_t width = runs_.size(1);
  if (runs_.stride(kInput, kRowsOfImages) == 0) return;  // repeats, too
  if (!is_like(0, 2, 0, 1) || !is_like(1, width, 1, 2) || !is_like(2, 2, 0, 2 * width)) return;
  method_ = Method::doubled;
  row_axis_ = kRowsOfImages;
}

// Enough elements to a task that handing it to a worker pays; for one thread all of them, so that the largest runs are
// one copy.
void StridedCopy::cut_into_tasks(std::size_t elements) {
  const auto threads = as_size(target_.num_threads);
  const std::size_t wanted =
      threads == 1 ? elements : std::max(kLeastElementsOfTask, elements / threads / kTasksPerThread);
  const std::size_t rows = row_axis_ < runs_.rank() ? as_size(runs_.size(row_axis_)) : 1;
  columns_ = {runs_.length(), std::min(runs_.length(), wanted)};
  if (method_ == Method::doubled) columns_ = {elements_of_doubled_row(), elements_of_doubled_row()};
  // Whole cache lines of a transposed input.
  rows_ = {rows, std::clamp<std::size_t>(round_up(wanted / columns_.piece, kCacheLine), 1, rows)};
  const std::size_t outer = runs_.count() * runs_.length() / columns_.size / rows / repeats_;
  outer_ = {outer, std::clamp<std::size_t>(wanted / (columns_.piece * rows_.piece), 1, outer)};
  if (repeats_ > 1) {
    copies_ = {repeats_ - 1, rows_of_task(static_cast<double>(repeats_ - 1), static_cast<double>(slice_elements()),
                                          target_.num_threads)};
  }
}

std::size_t StridedCopy::slice_elements() const { return as_size(runs_.stride(kOutput, runs_.rank() - 1)); }

std::size_t StridedCopy::elements_of_doubled_row() const { return 4 * as_size(runs_.size(1)); }

bool StridedCopy::is_of_block(std::size_t axis) const {
  return axis == row_axis_ || (method_ == Method::doubled && axis < kRowsOfImages);
}

// The block of a number among those of an outer place, whose axes are neither rows nor columns.
StridedCopy::OuterPlace StridedCopy::outer_place(std::size_t index) const {
  OuterPlace place{};
  for (std::size_t axis = 1; axis < runs_.rank(); ++axis) {
    if (is_of_block(axis)) continue;
    const auto size = as_size(runs_.size(axis));
    place.indices[axis] = static_cast<std::int64_t>(index % size);
    index /= size;
    for (const std::size_t operand : {kOutput, kInput}) {
      place.offsets[operand] += place.indices[axis] * runs_.stride(operand, axis);
    }
  }
  return place;
}

// Divisions for each block would take longer than a short one.
void StridedCopy::advance(OuterPlace& place) const {
  for (std::size_t axis = 1; axis < runs_.rank(); ++axis) {
    if (is_of_block(axis)) continue;
    const std::int64_t step = ++place.indices[axis] < runs_.size(axis) ? 1 : 1 - runs_.size(axis);
    for (const std::size_t operand : {kOutput, kInput}) place.offsets[operand] += step * runs_.stride(operand, axis);
    if (step == 1) return;
    place.indices[axis] = 0;
  }
}

void StridedCopy::run(const void* input, void* output) const {
  const auto row_stride = [&](std::size_t operand) { return rows_.size == 1 ? 0 : runs_.stride(operand, row_axis_); };
  parallel_for(
      outer_.count() * rows_.count() * columns_.count(), target_.num_threads, [&](std::size_t task, int) noexcept {
        const std::size_t column = task % columns_.count() * columns_.piece;
        const std::size_t row = task / columns_.count() % rows_.count() * rows_.piece;
        const std::size_t first = task / columns_.count() / rows_.count() * outer_.piece;
        OuterPlace place = outer_place(first);
        for (std::size_t index = first; index < std::min(first + outer_.piece, outer_.size); ++index) {
          const auto byte = [&](std::size_t operand) {
            const std::int64_t element = place.offsets[operand] + static_cast<std::int64_t>(row) * row_stride(operand) +
                                         static_cast<std::int64_t>(column) * runs_.stride(operand);
            return element * static_cast<std::int64_t>(element_bytes_);
          };
          copy_block({static_cast<const std::uint8_t*>(input) + byte(kInput),
                      static_cast<std::uint8_t*>(output) + byte(kOutput), std::min(rows_.piece, rows_.size - row),
                      std::min(columns_.piece, columns_.size - column)});
          advance(place);
        }
      });
  if (repeats_ > 1) repeat(static_cast<std::uint8_t*>(output));
}

void StridedCopy::repeat(std::uint8_t* output) const {
  const std::size_t bytes = slice_elements() * element_bytes_;
  parallel_for(copies_.count(), target_.num_threads, [&](std::size_t task, int) noexcept {
    const std::size_t first = task * copies_.piece;
    std::uint8_t* target = output + (1 + first) * bytes;
    std::memcpy(target, output, bytes);
    repeat_front(target, bytes, std::min(copies_.piece, copies_.size - first) * bytes);
  });
}

void StridedCopy::copy_block(const Block& block) const {
  if (method_ == Method::transposed) {
    transpose_elements(*target_.kernels().pack, element_bytes_, block.input, runs_.stride(kInput),
                       static_cast<std::int64_t>(block.columns), static_cast<std::int64_t>(block.rows), block.output,
                       runs_.stride(kOutput, row_axis_));
    return;
  }
  with_element_of(element_bytes_, [&]<class Element>(Element) { copy_tiles<Element>(block); });
}

template <class Element>
void StridedCopy::copy_tiles(const Block& block) const {
  constexpr std::int64_t kBytes = sizeof(Element);
  const auto* input = reinterpret_cast<const Element*>(block.input);
  auto* output = reinterpret_cast<Element*>(block.output);
  const std::int64_t input_step = runs_.stride(kInput), output_step = runs_.stride(kOutput);
  const std::int64_t input_row = block.rows == 1 ? 0 : runs_.stride(kInput, row_axis_);
  const std::int64_t output_row = block.rows == 1 ? 0 : runs_.stride(kOutput, row_axis_);
  const auto rows = static_cast<std::int64_t>(block.rows), columns = static_cast<std::int64_t>(block.columns);
  if (input_row == 0 && output_row == columns && output_step == 1 && rows > 1) {
    repeat_row(input, input_step, output, block.rows, block.columns);
    return;
  }
  switch (method_) {
    case Method::doubled:
      double_rows(input, input_row, output, output_row, block.rows, as_size(runs_.size(1)));
      return;
    case Method::runs:
      with_copy_of(block.columns * sizeof(Element), [&](const auto& copy) {
        const std::uint8_t* from = block.input;
        std::uint8_t* to = block.output;
        for (std::int64_t row = 0; row < rows; ++row, from += input_row * kBytes, to += output_row * kBytes) {
          copy(from, to);
        }
      });
      return;
    case Method::fill:
      for (std::int64_t row = 0; row < rows; ++row) {
        std::fill_n(output + row * output_row, block.columns, input[row * input_row]);
      }
      return;
    default:
      // Tiles of which both sides' cache lines stay in L1 until they are used up.
      constexpr std::int64_t kTile = 16;
      for (std::int64_t row_tile = 0; row_tile < rows; row_tile += kTile) {
        for (std::int64_t column_tile = 0; column_tile < columns; column_tile += kTile) {
          for (std::int64_t row = row_tile; row < std::min(row_tile + kTile, rows); ++row) {
            for (std::int64_t column = column_tile; column < std::min(column_tile + kTile, columns); ++column) {
              output[row * output_row + column * output_step] = input[row * input_row + column * input_step];
            }
          }
        }
      }
  }
}

std::string StridedCopy::describe() const {
  static constexpr std::array kNames = {"runs", "fill", "doubled", "transposed", "elements"};
  const auto number = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  const std::string of_slice = std::string("copy: ") + kNames[static_cast<std::size_t>(method_)] + ", " +
                               counted(number(outer_.size), "block") + " of " + std::to_string(rows_.size) + " x " +
                               std::to_string(columns_.size) + " elements";
  const std::string tasks = tasks_line(number(outer_.count() * rows_.count() * columns_.count()), target_.num_threads);
  if (repeats_ == 1) return of_slice + "\n" + tasks;
  return of_slice + ", " + std::to_string(repeats_) + " times\n" + tasks + ", then " +
         tasks_on_threads(number(copies_.count()), target_.num_threads) + " that repeat these elements";
}

}  // namespace dmlcpu
