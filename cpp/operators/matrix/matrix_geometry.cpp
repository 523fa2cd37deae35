#include "operators/matrix/matrix_geometry.h"

#include <algorithm>
#include <stdexcept>

namespace dmlcpu {
namespace {

struct MatrixSizes {
  std::array<std::int64_t, kBatchAxes> batch;
  std::int64_t rows, columns;
};

void check_rank(const OperatorDesc& desc, const TensorLayout& layout) {
  if (layout.rank < 2 || layout.rank > 2 + kBatchAxes) {
    throw std::invalid_argument(desc.type + ": matrices are of rank 2 to 4");
  }
}

// Axes that the tensor lacks are of length 1, and their strides 0.
MatrixSizes matrix_sizes(const TensorLayout& layout) {
  MatrixSizes sizes = {{1, 1}, layout.sizes[layout.rank - 2], layout.sizes[layout.rank - 1]};
  for (std::size_t axis = 0; axis + 2 < layout.rank; ++axis) {
    sizes.batch[axis + 2 + kBatchAxes - layout.rank] = layout.sizes[axis];
  }
  return sizes;
}

// An axis of length 1 may have any stride. It gets that of a packed matrix, so that rows and columns which are
// contiguous are found to be.
MatrixStrides matrix_strides(const TensorLayout& layout) {
  const MatrixSizes sizes = matrix_sizes(layout);
  MatrixStrides strides = {{0, 0}, layout.strides[layout.rank - 2], layout.strides[layout.rank - 1]};
  if (sizes.columns == 1) strides.column = 1;
  if (sizes.rows == 1) strides.row = sizes.columns;
  for (std::size_t axis = 0; axis + 2 < layout.rank; ++axis) {
    const std::size_t batch_axis = axis + 2 + kBatchAxes - layout.rank;
    if (sizes.batch[batch_axis] > 1) strides.batch[batch_axis] = layout.strides[axis];
  }
  return strides;
}

// Whether b has a matrix for each product along a batch axis, or one for all.
bool batch_fits(const MatrixSizes& b, const MatrixSizes& output) {
  const auto fits = [](std::int64_t of_b, std::int64_t length) { return of_b == length || of_b == 1; };
  return std::ranges::equal(b.batch, output.batch, fits);
}

// Makes the images of a batch axis rows of one product, where all share b.
bool fold(MatrixGeometry& geometry, std::size_t axis) {
  const std::int64_t count = geometry.batch[axis];
  if (count == 1) return true;
  if (geometry.b.batch[axis] != 0) return false;
  MatrixStrides* const tensors[] = {&geometry.a, &geometry.output, &geometry.bias};
  for (const MatrixStrides* strides : tensors) {
    if (geometry.m > 1 && strides->batch[axis] != geometry.m * strides->row) return false;
  }
  for (MatrixStrides* strides : tensors) {
    if (geometry.m == 1) strides->row = strides->batch[axis];
    strides->batch[axis] = 0;
  }
  geometry.m *= count;
  geometry.batch[axis] = 1;
  return true;
}

}  // namespace

std::array<std::int64_t, kBatchAxes> MatrixGeometry::batch_index(std::int64_t product) const {
  // The axis that b does not vary along is the inner one.
  if (b.batch[0] == 0 && b.batch[1] != 0) return {product % batch[0], product / batch[0]};
  return {product / batch[1], product % batch[1]};
}

MatrixGeometry matrix_geometry(const OperatorDesc& desc, const TensorLayout& a, const TensorLayout& b,
                               const TensorLayout& output, const std::optional<TensorLayout>& bias) {
  for (const TensorLayout* layout : {&a, &b, &output}) check_rank(desc, *layout);
  const MatrixSizes a_sizes = matrix_sizes(a), b_sizes = matrix_sizes(b), output_sizes = matrix_sizes(output);
  if (a_sizes.batch != output_sizes.batch || !batch_fits(b_sizes, output_sizes) || a_sizes.columns != b_sizes.rows ||
      a_sizes.rows != output_sizes.rows || b_sizes.columns != output_sizes.columns ||
      (bias && (bias->rank != output.rank || bias->sizes != output.sizes))) {
    throw std::invalid_argument(desc.type + ": the sizes of the matrices do not fit together");
  }
  if (bias && bias->type != output.type)
    throw std::invalid_argument(desc.type + ": a bias is of the output's data type");
  MatrixGeometry geometry = {.batch = output_sizes.batch,
                             .m = a_sizes.rows,
                             .k = a_sizes.columns,
                             .n = b_sizes.columns,
                             .parameter_rows = a_sizes.rows,
                             .a = matrix_strides(a),
                             .b = matrix_strides(b),
                             .output = matrix_strides(output),
                             .bias = matrix_strides(bias ? *bias : output)};
  if (fold(geometry, 1)) fold(geometry, 0);
  return geometry;
}

LineParameter line_parameter(const OperatorDesc& desc, const std::optional<TensorLayout>& layout, Line line,
                             std::int64_t length) {
  if (!layout || layout->element_count() == 1) return {};
  const std::size_t axis_from_end = line == Line::rows ? 2 : 1;
  if (layout->rank < axis_from_end || layout->sizes[layout->rank - axis_from_end] != length ||
      layout->element_count() != length) {
    throw std::invalid_argument(desc.type + ": a parameter is neither of one element nor one a row or column");
  }
  return {.stride = layout->strides[layout->rank - axis_from_end], .varies = true};
}

}  // namespace dmlcpu
