// MATRIX_MULTIPLY_INTEGER, QUANTIZED_LINEAR_MATRIX_MULTIPLY, and MATRIX_MULTIPLY_INTEGER_TO_FLOAT of 8-bit tensors: a
// product (matrix_product.h) and its parameters.
#include <memory>
#include <optional>
#include <utility>

#include "operators/buffer_layout.h"
#include "operators/matrix/matrix_geometry.h"
#include "operators/matrix/matrix_multiply_parameters.h"
#include "operators/matrix/matrix_product.h"
#include "operators/matrix/wide_matrix_multiply.h"
#include "operators/operator.h"
#include "runtime/scratch.h"

namespace dmlcpu {
namespace {

constexpr MatrixTensors kInteger = {.a = 0, .a_zero_point = 1, .b = 2, .b_zero_point = 3, .output = 4};
constexpr MatrixTensors kQuantizedLinear = {.a = 0,
                                            .a_scale = 1,
                                            .a_zero_point = 2,
                                            .b = 3,
                                            .b_scale = 4,
                                            .b_zero_point = 5,
                                            .output_scale = 6,
                                            .output_zero_point = 7,
                                            .output = 8};
constexpr MatrixTensors kToFloat = {
    .a = 0, .a_scale = 1, .a_zero_point = 2, .b = 3, .b_scale = 4, .b_zero_point = 5, .bias = 6, .output = 7};

class MatrixMultiply final : public CompiledOperator {
 public:
  MatrixMultiply(OperatorDesc&& operator_desc, ExecutionTarget execution_target, const MatrixTensors& numbers)
      : CompiledOperator(std::move(operator_desc), execution_target),
        numbers_(numbers),
        geometry_(matrix_geometry(desc(), desc().tensor(numbers.a), desc().tensor(numbers.b),
                                  desc().tensor(numbers.output), desc().optional_tensor(numbers.bias))),
        given_(desc(), numbers, geometry_),
        product_(make_matrix_product(product_desc(), target())),
        parameters_(given_, geometry_, *product_) {
    // Without any parameter there may be nothing owned, and no initialize.
    prepares_once_ = desc().tensor(numbers.b).owned && all_owned(prepared_tensors());
    BufferLayout layout;
    parameters_at_ = layout.take(prepares_once_ ? 0 : parameters_.size());
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

  std::size_t prepared_size() const override { return prepares_once_ ? parameters_.size() : 0; }
  void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const override {
    if (prepares_once_) parameters_.prepare(owned, prepared);
  }
  TensorSet prepared_only() const override { return prepares_once_ ? prepared_tensors() : TensorSet{}; }

  void run(const TensorPointers& tensors) const override {
    std::uint8_t* scratch = thread_scratch(scratch_size_);
    product_->run(
        {.a = static_cast<const std::uint8_t*>(tensors[numbers_.a]),
         .b = static_cast<const std::uint8_t*>(tensors[numbers_.b]),
         .parameters = prepares_once_ ? *reinterpret_cast<const MatrixParameters*>(prepared())
                                      : parameters_.prepare(tensors, scratch + parameters_at_),
         .output_flip = given_.output_flip,
         .bias = numbers_.bias == kAbsent ? nullptr : static_cast<const std::uint8_t*>(tensors[numbers_.bias]),
         .output = static_cast<std::uint8_t*>(tensors[numbers_.output])},
        scratch + product_scratch_);
  }

 private:
  TensorSet prepared_tensors() const {
    return present({numbers_.a_scale, numbers_.a_zero_point, numbers_.b_scale, numbers_.b_zero_point,
                    numbers_.output_scale, numbers_.output_zero_point});
  }

  MatrixProductDesc product_desc() const {
    const DataType output = desc().tensor(numbers_.output).type;
    const RescaleKernels& kernels = *target().kernels().rescale;
    return {.geometry = geometry_,
            .a_flip = given_.a_flip,
            .b_flip = given_.b_flip,
            .b_owned = desc().tensor(numbers_.b).owned,
            .rows_vary = given_.rows_vary(),
            .ends_in_codes = given_.ends_in_codes,
            .ends_in_floats = numbers_.bias != kAbsent,
            .rescale = given_.ends_in_codes          ? kernels.to_codes
                       : output == DataType::int32   ? kernels.to_sums
                       : output == DataType::float32 ? kernels.to_float32
                                                     : kernels.to_float16,
            .output_bytes = element_size(output),
            .has_bias = desc().optional_tensor(numbers_.bias).has_value()};
  }

  MatrixTensors numbers_;
  MatrixGeometry geometry_;
  ScalesAndZeroPoints given_;
  std::unique_ptr<MatrixProduct> product_;
  MatrixMultiplyParameters parameters_;
  bool prepares_once_ = false;                                              // the parameters, at initialize
  std::size_t parameters_at_ = 0, product_scratch_ = 0, scratch_size_ = 0;  // in the scratch memory, and its size
};

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
