// Sizes and strides of a matrix product: a {.., M, K} by b {.., K, N} into output {.., M, N}, each of rank 2 to 4. A
// batch axis that b lacks, or has with length 1, repeats its matrix.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "operators/operator.h"

namespace dmlcpu {

// The two axes before a tensor's rows.
inline constexpr std::size_t kBatchAxes = 2;

// Elements between neighbours along each axis; 0 along a batch axis of length 1.
struct MatrixStrides {
  std::array<std::int64_t, kBatchAxes> batch;
  std::int64_t row, column;
};

struct MatrixGeometry {
  std::array<std::int64_t, kBatchAxes> batch;
  std::int64_t m, k, n;
  std::int64_t parameter_rows;  // m of the desc: parameters of rows repeat after so many rows
  MatrixStrides a, b, output, bias;

  std::int64_t products() const { return batch[0] * batch[1]; }
  // Matrices of b that differ: batch axes along which it is repeated do not count.
  std::int64_t matrices() const { return (b.batch[0] != 0 ? batch[0] : 1) * (b.batch[1] != 0 ? batch[1] : 1); }

  // Whether the elements of a row are no neighbours; a single one counts as one.
  bool gathers_a() const { return a.column != 1; }
  bool stages_output() const { return output.column != 1; }

  // Products are numbered such that those that share a matrix of b follow each other.
  std::array<std::int64_t, kBatchAxes> batch_index(std::int64_t product) const;
  std::int64_t products_of_matrix() const { return products() / matrices(); }
  std::int64_t matrix_of(std::int64_t product) const { return product / products_of_matrix(); }
  // From b's first element to the first of a matrix.
  std::int64_t offset_of_matrix(std::int64_t matrix) const {
    return offset(b, batch_index(matrix * products_of_matrix()));
  }
  static std::int64_t offset(const MatrixStrides& strides, const std::array<std::int64_t, kBatchAxes>& index) {
    return index[0] * strides.batch[0] + index[1] * strides.batch[1];
  }
};

// Reads the layouts of a product; bias, where there is one, has the output's sizes and data type. A batch that shares
// one b and whose rows follow each other evenly becomes rows of one product. Throws std::invalid_argument where they do
// not fit together: the kernels' memory safety rests on these checks alone.
MatrixGeometry matrix_geometry(const OperatorDesc& desc, const TensorLayout& a, const TensorLayout& b,
                               const TensorLayout& output, const std::optional<TensorLayout>& bias);

// A parameter of one element, or of one for each row ({.., M, 1}) or column ({.., N}).
struct LineParameter {
  std::int64_t stride = 0;  // elements; 0 for a single element
  bool varies = false;      // whether it has an element for each
};
enum class Line : std::uint8_t { rows, columns };
// Throws std::invalid_argument for any other sizes. length is M or N of the desc.
LineParameter line_parameter(const OperatorDesc& desc, const std::optional<TensorLayout>& layout, Line line,
                             std::int64_t length);

}  // namespace dmlcpu
