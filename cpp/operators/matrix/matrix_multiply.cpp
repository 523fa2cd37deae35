// MATRIX_MULTIPLY_INTEGER, QUANTIZED_LINEAR_MATRIX_MULTIPLY, and MATRIX_MULTIPLY_INTEGER_TO_FLOAT of 8-bit tensors: the
// parameters of a dispatch, and how the product's sums leave.
#include <algorithm>
#include <memory>
#include <new>

#include "operators/buffer_layout.h"
#include "operators/matrix/matrix_product.h"
#include "operators/matrix/wide_matrix_multiply.h"
#include "operators/operator_table.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"
#include "runtime/scratch.h"

namespace dmlcpu {
namespace {

// The number of each tensor in the desc of an operator; kAbsent for those that it does not have.
struct TensorNumbers {
  std::size_t a, a_scale, a_zero_point;
  std::size_t b, b_scale, b_zero_point;
  std::size_t output_scale, output_zero_point, bias, output;
};

constexpr TensorNumbers kInteger = {0, kAbsent, 1, 2, kAbsent, 3, kAbsent, kAbsent, kAbsent, 4};
constexpr TensorNumbers kQuantizedLinear = {0, 1, 2, 3, 4, 5, 6, 7, kAbsent, 8};
constexpr TensorNumbers kToFloat = {0, 1, 2, 3, 4, 5, kAbsent, kAbsent, 6, 7};

// A scale or zero point of rows or columns.
struct Parameter {
  std::size_t number = kAbsent;
  DataType type = DataType::unknown;
  LineParameter line;

  const void* at(const TensorPointers& tensors, std::int64_t index) const {
    if (number == kAbsent || tensors[number] == nullptr) return nullptr;
    return element(tensors[number], type, index * line.stride);
  }
  float number_at(const TensorPointers& tensors, std::int64_t index, float otherwise) const {
    return value_as_float(at(tensors, index), type, otherwise);
  }
  // An absent zero point is 0.
  std::uint8_t code_at(const TensorPointers& tensors, std::int64_t index) const {
    const void* code = at(tensors, index);
    return code == nullptr ? std::uint8_t{0} : *static_cast<const std::uint8_t*>(code);
  }
};

class MatrixMultiply final : public CompiledOperator {
 public:
  MatrixMultiply(OperatorDesc operator_desc, ExecutionTarget execution_target, const TensorNumbers& numbers)
      : CompiledOperator(std::move(operator_desc), execution_target),
        numbers_(numbers),
        geometry_(matrix_geometry(desc(), desc().tensor(numbers.a), desc().tensor(numbers.b),
                                  desc().tensor(numbers.output), desc().optional_tensor(numbers.bias))),
        a_scale_(parameter(numbers.a_scale, Line::rows)),
        a_zero_point_(parameter(numbers.a_zero_point, Line::rows)),
        b_scale_(parameter(numbers.b_scale, Line::columns)),
        b_zero_point_(parameter(numbers.b_zero_point, Line::columns)),
        output_scale_(parameter(numbers.output_scale, Line::rows)),
        output_zero_point_(parameter(numbers.output_zero_point, Line::rows)),
        product_(make_matrix_product(product_desc(), target())) {
    for (const std::size_t number : {numbers.a_scale, numbers.b_scale, numbers.output_scale}) {
      if (number != kAbsent) desc().tensor(number);
    }
    const std::size_t rows = product_->rescales() ? as_size(geometry_.m) : 1, columns = product_->padded_columns();
    BufferLayout parameters;
    parameters.take(1, sizeof(MatrixParameters));
    row_zero_points_ = parameters.take(rows, sizeof(std::int32_t));
    row_multipliers_ = parameters.take(has_scales() ? rows : 0, sizeof(float));
    row_output_zero_points_ = parameters.take(rows, sizeof(float));
    column_zero_points_ = parameters.take(columns, sizeof(std::int32_t));
    column_multipliers_ = parameters.take(has_scales() ? columns : 0, sizeof(float));
    parameters_size_ = parameters.size();
    // Without any parameter there may be nothing owned, and no initialize.
    prepares_once_ = desc().tensor(numbers.b).owned && all_owned(prepared_tensors());
    BufferLayout layout;
    parameters_ = layout.take(prepares_once_ ? 0 : parameters_size_);
    product_scratch_ = layout.take(product_->scratch_size());
    scratch_size_ = layout.size();
  }

  std::size_t temporary_size() const override { return scratch_size_; }
  std::string describe() const override { return product_->describe(); }

 protected:
  std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const override {
    if (tensor != numbers_.b) return std::nullopt;
    AlignedBuffer packed(product_->packed_b()->size());
    product_->packed_b()->pack(static_cast<const std::uint8_t*>(data), packed.data());
    return packed;
  }
  std::size_t packed_owned_size(std::size_t tensor) const override {
    return tensor == numbers_.b ? product_->packed_b()->size() : CompiledOperator::packed_owned_size(tensor);
  }

  std::vector<std::size_t> packing(std::size_t tensor) const override {
    return tensor == numbers_.b ? product_->packed_b()->packing() : CompiledOperator::packing(tensor);
  }

  std::size_t prepared_size() const override { return prepares_once_ ? parameters_size_ : 0; }
  void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const override {
    if (prepares_once_) prepare(owned, prepared);
  }
  TensorSet prepared_only() const override { return prepares_once_ ? prepared_tensors() : TensorSet{}; }

  void run(const TensorPointers& tensors) const override {
    std::uint8_t* scratch = thread_scratch(scratch_size_);
    product_->run(
        {.a = static_cast<const std::uint8_t*>(tensors[numbers_.a]),
         .b = static_cast<const std::uint8_t*>(tensors[numbers_.b]),
         .parameters = prepares_once_ ? *reinterpret_cast<const MatrixParameters*>(prepared())
                                      : prepare(tensors, scratch + parameters_),
         .output_flip = output_flip(),
         .bias = numbers_.bias == kAbsent ? nullptr : static_cast<const std::uint8_t*>(tensors[numbers_.bias]),
         .output = static_cast<std::uint8_t*>(tensors[numbers_.output])},
        scratch + product_scratch_);
  }

 private:
  TensorSet prepared_tensors() const {
    return present({numbers_.a_scale, numbers_.a_zero_point, numbers_.b_scale, numbers_.b_zero_point,
                    numbers_.output_scale, numbers_.output_zero_point});
  }

  bool has_scales() const { return numbers_.a_scale != kAbsent; }
  bool ends_in_codes() const { return numbers_.output_scale != kAbsent; }
  std::uint8_t a_flip() const { return offset_flip(desc().tensor(numbers_.a).type); }
  std::uint8_t b_flip() const { return static_cast<std::uint8_t>(0x80 ^ offset_flip(desc().tensor(numbers_.b).type)); }
  std::uint8_t output_flip() const { return offset_flip(desc().tensor(numbers_.output).type); }

  Parameter parameter(std::size_t number, Line line) const {
    const std::optional<TensorLayout>& layout = desc().optional_tensor(number);
    if (!layout) return {};
    const std::int64_t length = line == Line::rows ? geometry_.parameter_rows : geometry_.n;
    return {number, layout->type, line_parameter(desc(), layout, line, length)};
  }

  MatrixProductDesc product_desc() const {
    const DataType output = desc().tensor(numbers_.output).type;
    const RescaleKernels& kernels = *target().kernels().rescale;
    return {.geometry = geometry_,
            .a_flip = a_flip(),
            .b_flip = b_flip(),
            .b_owned = desc().tensor(numbers_.b).owned,
            .rows_vary = a_scale_.line.varies || a_zero_point_.line.varies || output_scale_.line.varies ||
                         output_zero_point_.line.varies,
            .ends_in_codes = ends_in_codes(),
            .ends_in_floats = numbers_.bias != kAbsent,
            .rescale = ends_in_codes()               ? kernels.to_codes
                       : output == DataType::int32   ? kernels.to_sums
                       : output == DataType::float32 ? kernels.to_float32
                                                     : kernels.to_float16,
            .output_bytes = element_size(output),
            .has_bias = desc().optional_tensor(numbers_.bias).has_value()};
  }

  MatrixParameters prepare(const TensorPointers& tensors, std::uint8_t* memory) const {
    MatrixParameters parameters{};
    prepare_rows(tensors, memory, parameters);
    prepare_columns(tensors, memory, parameters);
    return *new (memory) MatrixParameters(parameters);
  }
  void prepare_rows(const TensorPointers& tensors, std::uint8_t* memory, MatrixParameters& parameters) const;
  void prepare_columns(const TensorPointers& tensors, std::uint8_t* memory, MatrixParameters& parameters) const;

  TensorNumbers numbers_;
  MatrixGeometry geometry_;
  Parameter a_scale_, a_zero_point_, b_scale_, b_zero_point_, output_scale_, output_zero_point_;
  std::unique_ptr<MatrixProduct> product_;
  bool prepares_once_ = false;  // the parameters, at initialize
  // Offsets into the memory of these, which begins with their MatrixParameters, and into the scratch buffer.
  std::size_t row_zero_points_ = 0, row_multipliers_ = 0, row_output_zero_points_ = 0;
  std::size_t column_zero_points_ = 0, column_multipliers_ = 0, parameters_size_ = 0;
  std::size_t parameters_ = 0, product_scratch_ = 0, scratch_size_ = 0;
};

// The multiplier is b_scale * (a_scale / output_scale), or b_scale * a_scale: a factor of the row and one of the
// column.
void MatrixMultiply::prepare_rows(const TensorPointers& tensors, std::uint8_t* memory,
                                  MatrixParameters& parameters) const {
  auto* zero_points = reinterpret_cast<std::int32_t*>(memory + row_zero_points_);
  auto* multipliers = reinterpret_cast<float*>(memory + row_multipliers_);
  auto* output_zero_points = reinterpret_cast<float*>(memory + row_output_zero_points_);
  const std::int64_t rows = product_->rescales() ? geometry_.m : 1;
  const bool a_is_signed = product_->a_is_signed();
  bool any_zero_point = false;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = i % geometry_.parameter_rows;
    const std::uint8_t code = a_zero_point_.code_at(tensors, row);
    zero_points[i] = a_is_signed ? static_cast<std::int8_t>(code) : code ^ a_flip();
    any_zero_point |= zero_points[i] != 0;
    output_zero_points[i] = static_cast<float>(output_zero_point_.code_at(tensors, row) ^ output_flip());
    if (!has_scales()) continue;
    const float a_scale = a_scale_.number_at(tensors, row, 1.0F);
    multipliers[i] = ends_in_codes() ? a_scale / output_scale_.number_at(tensors, row, 1.0F) : a_scale;
  }
  parameters.a_zero_point = any_zero_point ? zero_points : nullptr;
  parameters.row_multiplier = has_scales() ? multipliers : nullptr;
  parameters.row_output_zero_point = output_zero_points;
}

void MatrixMultiply::prepare_columns(const TensorPointers& tensors, std::uint8_t* memory,
                                     MatrixParameters& parameters) const {
  auto* zero_points = reinterpret_cast<std::int32_t*>(memory + column_zero_points_);
  auto* multipliers = reinterpret_cast<float*>(memory + column_multipliers_);
  const auto padding = static_cast<std::ptrdiff_t>(product_->padded_columns()) - geometry_.n;
  const auto* codes = static_cast<const std::uint8_t*>(b_zero_point_.at(tensors, 0));
  bool any_zero_point = false;
  for (std::int64_t column = 0; column < geometry_.n; ++column) {
    // A zero point of 0 in UINT8 is -128 once the codes have become signed.
    const std::uint8_t code = codes == nullptr ? std::uint8_t{0} : codes[column * b_zero_point_.line.stride];
    zero_points[column] = static_cast<std::int8_t>(code ^ b_flip());
    any_zero_point |= zero_points[column] != 0;
  }
  std::fill_n(zero_points + geometry_.n, padding, 0);
  parameters.b_zero_point = any_zero_point ? zero_points : nullptr;
  if (!has_scales()) return;
  gather_as_float(b_scale_.at(tensors, 0), b_scale_.type, b_scale_.line.stride, as_size(geometry_.n), multipliers);
  if (!product_->rescales()) {
    const float of_row = parameters.row_multiplier[0];
    for (std::int64_t column = 0; column < geometry_.n; ++column) multipliers[column] *= of_row;
  }
  std::fill_n(multipliers + geometry_.n, padding, 0.0F);
  parameters.column_multiplier = multipliers;
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_matrix_multiply_integer(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<MatrixMultiply>(std::move(desc), target, kInteger);
}

std::unique_ptr<CompiledOperator> compile_quantized_linear_matrix_multiply(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<MatrixMultiply>(std::move(desc), target, kQuantizedLinear);
}

std::unique_ptr<CompiledOperator> compile_matrix_multiply_integer_to_float(OperatorDesc desc, ExecutionTarget target) {
  const auto is_wide = [&](std::size_t number) { return element_size(desc.tensor(number).type) != 1; };
  if (is_wide(kToFloat.a) || is_wide(kToFloat.b)) return compile_wide_matrix_multiply(std::move(desc), target);
  return std::make_unique<MatrixMultiply>(std::move(desc), target, kToFloat);
}

}  // namespace dmlcpu
