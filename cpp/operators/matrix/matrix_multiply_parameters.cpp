#include "operators/matrix/matrix_multiply_parameters.h"

#include <algorithm>
#include <new>
#include <optional>

#include "operators/buffer_layout.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"

namespace dmlcpu {

ScaleOrZeroPoint::ScaleOrZeroPoint(const OperatorDesc& desc, std::size_t number, Line line, std::int64_t length)
    : number_(number) {
  const std::optional<TensorLayout>& layout = desc.optional_tensor(number);
  if (!layout) return;
  type_ = layout->type;
  line_ = line_parameter(desc, layout, line, length);
}

const void* ScaleOrZeroPoint::at(const TensorPointers& tensors, std::int64_t index) const {
  if (number_ == kAbsent || tensors[number_] == nullptr) return nullptr;
  return element(tensors[number_], type_, index * line_.stride);
}

float ScaleOrZeroPoint::value_at(const TensorPointers& tensors, std::int64_t index, float otherwise) const {
  return value_as_float(at(tensors, index), type_, otherwise);
}

std::uint8_t ScaleOrZeroPoint::code_at(const TensorPointers& tensors, std::int64_t index) const {
  const void* code = at(tensors, index);
  return code == nullptr ? std::uint8_t{0} : *static_cast<const std::uint8_t*>(code);
}

ScalesAndZeroPoints::ScalesAndZeroPoints(const OperatorDesc& desc, const MatrixTensors& numbers,
                                         const MatrixGeometry& geometry)
    : has_scales(numbers.a_scale != kAbsent),
      ends_in_codes(numbers.output_scale != kAbsent),
      a_flip(offset_flip(desc.tensor(numbers.a).type)),
      b_flip(static_cast<std::uint8_t>(0x80 ^ offset_flip(desc.tensor(numbers.b).type))),
      output_flip(offset_flip(desc.tensor(numbers.output).type)),
      a_scale(desc, numbers.a_scale, Line::rows, geometry.parameter_rows),
      a_zero_point(desc, numbers.a_zero_point, Line::rows, geometry.parameter_rows),
      b_scale(desc, numbers.b_scale, Line::columns, geometry.n),
      b_zero_point(desc, numbers.b_zero_point, Line::columns, geometry.n),
      output_scale(desc, numbers.output_scale, Line::rows, geometry.parameter_rows),
      output_zero_point(desc, numbers.output_zero_point, Line::rows, geometry.parameter_rows) {
  for (const std::size_t number : {numbers.a_scale, numbers.b_scale, numbers.output_scale}) {
    if (number != kAbsent) desc.tensor(number);
  }
}

MatrixMultiplyParameters::MatrixMultiplyParameters(const ScalesAndZeroPoints& given, const MatrixGeometry& geometry,
                                                   const MatrixProduct& product)
    : given_(given), geometry_(geometry), product_(product) {
  const std::size_t rows = product.rescales() ? as_size(geometry.m) : 1, columns = product.padded_columns();
  BufferLayout memory;
  memory.take(1, sizeof(MatrixParameters));
  row_zero_points_ = memory.take(rows, sizeof(std::int32_t));
  row_multipliers_ = memory.take(given.has_scales ? rows : 0, sizeof(float));
  row_output_zero_points_ = memory.take(rows, sizeof(float));
  column_zero_points_ = memory.take(columns, sizeof(std::int32_t));
  column_multipliers_ = memory.take(given.has_scales ? columns : 0, sizeof(float));
  size_ = memory.size();
}

MatrixParameters MatrixMultiplyParameters::prepare(const TensorPointers& tensors, std::uint8_t* memory) const {
  MatrixParameters parameters{};
  prepare_rows(tensors, memory, parameters);
  prepare_columns(tensors, memory, parameters);
  return *new (memory) MatrixParameters(parameters);
}

// The multiplier is b_scale * (a_scale / output_scale), or b_scale * a_scale: a factor of the row and one of the
// column.
void MatrixMultiplyParameters::prepare_rows(const TensorPointers& tensors, std::uint8_t* memory,
                                            MatrixParameters& parameters) const {
  auto* zero_points = reinterpret_cast<std::int32_t*>(memory + row_zero_points_);
  auto* multipliers = reinterpret_cast<float*>(memory + row_multipliers_);
  auto* output_zero_points = reinterpret_cast<float*>(memory + row_output_zero_points_);
  const std::int64_t rows = product_.rescales() ? geometry_.m : 1;
  const bool a_is_signed = product_.a_is_signed();
  bool any_zero_point = false;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = i % geometry_.parameter_rows;
    const std::uint8_t code = given_.a_zero_point.code_at(tensors, row);
    zero_points[i] = a_is_signed ? static_cast<std::int8_t>(code) : code ^ given_.a_flip;
    any_zero_point |= zero_points[i] != 0;
    output_zero_points[i] = static_cast<float>(given_.output_zero_point.code_at(tensors, row) ^ given_.output_flip);
    if (!given_.has_scales) continue;
    const float a_scale = given_.a_scale.value_at(tensors, row, 1.0F);
    multipliers[i] = given_.ends_in_codes ? a_scale / given_.output_scale.value_at(tensors, row, 1.0F) : a_scale;
  }
  parameters.a_zero_point = any_zero_point ? zero_points : nullptr;
  parameters.row_multiplier = given_.has_scales ? multipliers : nullptr;
  parameters.row_output_zero_point = output_zero_points;
}

void MatrixMultiplyParameters::prepare_columns(const TensorPointers& tensors, std::uint8_t* memory,
                                               MatrixParameters& parameters) const {
  auto* zero_points = reinterpret_cast<std::int32_t*>(memory + column_zero_points_);
  auto* multipliers = reinterpret_cast<float*>(memory + column_multipliers_);
  const auto padding = static_cast<std::ptrdiff_t>(product_.padded_columns()) - geometry_.n;
  const auto* codes = static_cast<const std::uint8_t*>(given_.b_zero_point.at(tensors, 0));
  bool any_zero_point = false;
  for (std::int64_t column = 0; column < geometry_.n; ++column) {
    // A zero point of 0 in UINT8 is -128 once the codes have become signed.
    const std::uint8_t code = codes == nullptr ? std::uint8_t{0} : codes[column * given_.b_zero_point.stride()];
    zero_points[column] = static_cast<std::int8_t>(code ^ given_.b_flip);
    any_zero_point |= zero_points[column] != 0;
  }
  std::fill_n(zero_points + geometry_.n, padding, 0);
  parameters.b_zero_point = any_zero_point ? zero_points : nullptr;
  if (!given_.has_scales) return;
  gather_as_float(given_.b_scale.at(tensors, 0), given_.b_scale.type(), given_.b_scale.stride(), as_size(geometry_.n),
                  multipliers);
  if (!product_.rescales()) {
    const float of_row = parameters.row_multiplier[0];
    for (std::int64_t column = 0; column < geometry_.n; ++column) multipliers[column] *= of_row;
  }
  std::fill_n(multipliers + geometry_.n, padding, 0.0F);
  parameters.column_multiplier = multipliers;
}

}  // namespace dmlcpu
