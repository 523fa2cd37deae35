#include "operators/quantization/blocked_runs.h"

#include <algorithm>
#include <stdexcept>

#include "operators/plan_words.h"
#include "operators/sizes.h"

namespace dmlcpu {
namespace {

constexpr std::size_t kOutput = 3;  // which decides the order of the axes

void check_sizes(const TensorLayout& input, const TensorLayout& scale, const TensorLayout* zero_point,
                 const TensorLayout& output) {
  bool passed = input.rank == output.rank && scale.rank == output.rank;
  for (std::size_t axis = 0; axis < output.rank && passed; ++axis) {
    passed = input.sizes[axis] == output.sizes[axis] && output.sizes[axis] % scale.sizes[axis] == 0;
  }
  if (passed && zero_point != nullptr) {
    passed =
        zero_point->rank == scale.rank && std::equal(scale.sizes.begin(), scale.sizes.end(), zero_point->sizes.begin());
  }
  if (!passed) throw std::invalid_argument("tensors of a block-wise operator differ in sizes, or blocks do not fit");
}

}  // namespace

BlockedRuns::BlockedRuns(const TensorLayout& input, const TensorLayout& scale, const TensorLayout* zero_point,
                         const TensorLayout& output) {
  check_sizes(input, scale, zero_point, output);
  std::size_t count = 0;
  for (std::size_t axis = output.rank; axis-- > 0;) {
    const std::int64_t blocks = scale.sizes[axis], length = output.sizes[axis] / blocks;
    const std::int64_t output_stride = output.strides[axis], input_stride = input.strides[axis];
    axes_[count++] = {length, {input_stride, 0, 0, output_stride}};
    // Within the span of a tensor, which does not overflow (TensorLayout::span).
    axes_[count++] = {blocks,
                      {input_stride * length, scale.strides[axis],
                       zero_point == nullptr ? 0 : zero_point->strides[axis], output_stride * length}};
  }
  rank_ = order_and_join(std::span(axes_).first(count), kOutput);
  while (rank_ < 2) axes_[rank_++] = {1, {}};
  for (std::size_t axis = 2; axis < rank_; ++axis) plane_count_ *= as_size(axes_[axis].size);
}

OperandStrides BlockedRuns::offsets(std::size_t plane) const {
  OperandStrides offsets{};
  for (std::size_t axis = 2; axis < rank_; ++axis) {
    const std::size_t size = as_size(axes_[axis].size);
    const auto index = static_cast<std::int64_t>(plane % size);
    plane /= size;
    for (std::size_t i = 0; i < kMaxOperands; ++i) offsets[i] += index * axes_[axis].strides[i];
  }
  return offsets;
}

bool BlockedRuns::has_even_rows(std::size_t operand) const {
  if (stride(operand) != 1 && columns() != 1) return false;
  return std::all_of(axes_.begin() + 1, axes_.begin() + static_cast<std::ptrdiff_t>(rank_),
                     [&](const StridedAxis& axis) { return axis.size == 1 || axis.strides[operand] % 2 == 0; });
}

std::size_t BlockedRuns::task_count() const {
  if (rows() * columns() >= kElementsPerTask) return plane_count_ * pieces_of_plane();
  const std::size_t planes = kElementsPerTask / (rows() * columns());
  return (plane_count_ + planes - 1) / planes;
}

std::size_t BlockedRuns::pieces_of_plane() const {
  if (columns() >= kElementsPerTask) return rows() * ((columns() + kElementsPerTask - 1) / kElementsPerTask);
  const std::size_t rows_of_piece = kElementsPerTask / columns();
  return (rows() + rows_of_piece - 1) / rows_of_piece;
}

BlockedRuns::Piece BlockedRuns::piece(std::size_t task) const {
  if (rows() * columns() < kElementsPerTask) {
    const std::size_t planes = kElementsPerTask / (rows() * columns()), first = task * planes;
    return {.first_plane = first,
            .plane_count = std::min(planes, plane_count_ - first),
            .row_count = rows(),
            .column_count = columns()};
  }
  const std::size_t plane = task / pieces_of_plane(), piece = task % pieces_of_plane();
  if (columns() < kElementsPerTask) {
    const std::size_t rows_of_piece = kElementsPerTask / columns(), first = piece * rows_of_piece;
    return {.first_plane = plane,
            .first_row = first,
            .row_count = std::min(rows_of_piece, rows() - first),
            .column_count = columns()};
  }
  const std::size_t pieces_of_row = pieces_of_plane() / rows(), first = piece % pieces_of_row * kElementsPerTask;
  return {.first_plane = plane,
          .first_row = piece / pieces_of_row,
          .row_count = 1,
          .first_column = first,
          .column_count = std::min(kElementsPerTask, columns() - first)};
}

std::string BlockedRuns::describe(int num_threads) const {
  return "planes: " + std::to_string(plane_count_) + " of " + std::to_string(rows()) + " rows of " +
         std::to_string(columns()) + " elements (neighbouring axes joined where every tensor allows)\n" +
         tasks_line(static_cast<std::int64_t>(task_count()), num_threads,
                    "about " + std::to_string(kElementsPerTask) + " elements");
}

}  // namespace dmlcpu
