// The parameters of a product's rows and columns, made of the scales and zero points of an operator's tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/matrix/matrix_geometry.h"
#include "operators/matrix/matrix_product.h"
#include "operators/operator.h"

namespace dmlcpu {

// The number of each tensor in the desc of an operator; kAbsent for those that it does not have.
struct MatrixTensors {
  std::size_t a, a_scale = kAbsent, a_zero_point;
  std::size_t b, b_scale = kAbsent, b_zero_point;
  std::size_t output_scale = kAbsent, output_zero_point = kAbsent, bias = kAbsent, output;
};

// A scale or zero point of rows or columns.
class ScaleOrZeroPoint {
 public:
  // length is that of line_parameter(). Throws std::invalid_argument for any other sizes.
  ScaleOrZeroPoint(const OperatorDesc& desc, std::size_t number, Line line, std::int64_t length);

  bool varies() const { return line_.varies; }
  DataType type() const { return type_; }
  std::int64_t stride() const { return line_.stride; }

  // Null where it is absent.
  const void* at(const TensorPointers& tensors, std::int64_t index) const;
  // `otherwise` where it is absent.
  float value_at(const TensorPointers& tensors, std::int64_t index, float otherwise) const;
  // An absent zero point is 0.
  std::uint8_t code_at(const TensorPointers& tensors, std::int64_t index) const;

 private:
  std::size_t number_;
  DataType type_ = DataType::unknown;
  LineParameter line_;
};

// All of an operator's.
struct ScalesAndZeroPoints {
  // Throws std::invalid_argument as above, and where a scale is absent that may not be.
  ScalesAndZeroPoints(const OperatorDesc& desc, const MatrixTensors& numbers, const MatrixGeometry& geometry);

  bool rows_vary() const {
    return a_scale.varies() || a_zero_point.varies() || output_scale.varies() || output_zero_point.varies();
  }

  bool has_scales, ends_in_codes;
  std::uint8_t a_flip, b_flip, output_flip;  // 0x80 of INT8 a, UINT8 b and INT8 output
  ScaleOrZeroPoint a_scale, a_zero_point, b_scale, b_zero_point, output_scale, output_zero_point;
};

class MatrixMultiplyParameters {
 public:
  // All arguments outlive it.
  MatrixMultiplyParameters(const ScalesAndZeroPoints& given, const MatrixGeometry& geometry,
                           const MatrixProduct& product);

  // Fills size() bytes of memory, 64-byte aligned, which begin with what is returned.
  std::size_t size() const { return size_; }
  MatrixParameters prepare(const TensorPointers& tensors, std::uint8_t* memory) const;

 private:
  void prepare_rows(const TensorPointers& tensors, std::uint8_t* memory, MatrixParameters& parameters) const;
  void prepare_columns(const TensorPointers& tensors, std::uint8_t* memory, MatrixParameters& parameters) const;

  const ScalesAndZeroPoints& given_;
  const MatrixGeometry& geometry_;
  const MatrixProduct& product_;
  // Offsets into the memory.
  std::size_t row_zero_points_ = 0, row_multipliers_ = 0, row_output_zero_points_ = 0;
  std::size_t column_zero_points_ = 0, column_multipliers_ = 0, size_ = 0;
};

}  // namespace dmlcpu
