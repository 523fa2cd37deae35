// The table of operators: a row for each, with the factory that plans it. compile_operator, operator_arrangement and
// operator_stage_role read it, and nothing else does. Operators do not include it, so that a new row compiles none of
// them anew.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>

#include "operators/operator.h"

namespace dmlcpu {

// A factory for each operator, in the folder of its kind, in the file of its name or of its kin: plans a desc whose
// tensors have the types of the row. Throws as compile_operator does.
std::unique_ptr<CompiledOperator> compile_quantize_linear(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_dequantize_linear(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantize(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_dequantize(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_dynamic_quantize_linear(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_linear_add(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_linear_average_pooling(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_linear_convolution(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_convolution_integer(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_convolution_integer_to_float(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_matrix_multiply_integer(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_linear_matrix_multiply(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_matrix_multiply_integer_to_float(OperatorDesc desc, ExecutionTarget target);

// The same for operators that only graphs are made of.
std::unique_ptr<CompiledOperator> compile_code_table(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_multiply(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_copy(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_padding(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_max_pooling(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_max_pooling_indices(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_max_unpooling(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_float_pooling(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_float_convolution(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_softmax(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_softmax(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_layer_normalization(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_group_normalization(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_layer_normalization(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_group_normalization(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_reduce_mean(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_float_product(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_dequantized_product(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_block_product(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_quantized_resample(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_grid_sample(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_float_resample(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_float_interpolation(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_element_wise_binary(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_element_wise_unary(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_rotary_embedding(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_float_table(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_cast(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_element_wise_logical(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_element_wise_if(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_gather(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_gather_elements(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_scatter_elements(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_append_to_past(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_arg_extreme(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_top_k(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_cumulative_summation(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_cumulative_product(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_rnn(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_lstm(OperatorDesc desc, ExecutionTarget target);
std::unique_ptr<CompiledOperator> compile_gru(OperatorDesc desc, ExecutionTarget target);

// A set of data types: bit t for the type of number t.
using DataTypes = unsigned;

template <class... Types>
constexpr DataTypes set_of(Types... types) {
  return ((1U << static_cast<unsigned>(types)) | ...);
}

inline constexpr DataTypes kFloat32 = set_of(DataType::float32), kInt32 = set_of(DataType::int32);
inline constexpr DataTypes kFloats = kFloat32 | set_of(DataType::float16);
inline constexpr DataTypes kCodes = set_of(DataType::uint8, DataType::int8);
inline constexpr DataTypes kBlockCodes = kCodes | set_of(DataType::uint4, DataType::int4);
inline constexpr DataTypes kIntegers = kCodes | kInt32 | set_of(DataType::uint16, DataType::int16, DataType::uint32);
inline constexpr DataTypes kIndices = kInt32 | set_of(DataType::int64), kConditions = set_of(DataType::uint8);
inline constexpr DataTypes kTotalled = kIndices | kFloat32 | set_of(DataType::uint32);
inline constexpr DataTypes kAnyType = kFloats | kIntegers | kIndices;

using Factory = std::unique_ptr<CompiledOperator> (*)(OperatorDesc, ExecutionTarget);

// The operators, with the order of axes, the types that their kernels read and write as those of each tensor, inputs
// first, and what they are to stages, where they are anything.
struct OperatorRow {
  const char* type;
  Factory compile;
  Arrangement arrangement;
  DataTypes inputs[kMaxTensors];  // of those that there are not, 0
  DataTypes outputs[kMaxTensors];
  StageRole stage_role = {};

  constexpr bool is_output(std::size_t tensor) const { return inputs[tensor] == 0; }
  constexpr DataTypes types(std::size_t tensor) const {
    const auto end = std::find(std::begin(inputs), std::end(inputs), DataTypes{0});
    const auto count = static_cast<std::size_t>(end - std::begin(inputs));
    return tensor < count ? inputs[tensor] : outputs[tensor - count];
  }
};

inline constexpr StageRole kTakesStages = {.takes_stages = true};
// A stage of one operand, and of two.
constexpr StageRole stage_of(std::size_t operand) { return {.operand_count = 1, .operands = {operand}}; }
constexpr StageRole stage_of(std::size_t a, std::size_t b) { return {.operand_count = 2, .operands = {a, b}}; }
constexpr StageRole of_floats(StageRole role) {
  role.elements = StageElements::floats;
  return role;
}

inline constexpr OperatorRow kOperators[] = {
    {"ELEMENT_WISE_QUANTIZE_LINEAR",
     compile_quantize_linear,
     Arrangement::element_wise,
     {kFloats | kInt32, kFloats, kCodes},
     {kCodes}},
    {"ELEMENT_WISE_DEQUANTIZE_LINEAR",
     compile_dequantize_linear,
     Arrangement::element_wise,
     {kIntegers, kFloats, kIntegers},
     {kFloats}},
    {"QUANTIZE", compile_quantize, Arrangement::own, {kFloats, kFloats, kBlockCodes}, {kBlockCodes}},
    {"DEQUANTIZE", compile_dequantize, Arrangement::own, {kBlockCodes, kFloats, kBlockCodes}, {kFloats}},
    {"ELEMENT_WISE_QUANTIZED_LINEAR_ADD",
     compile_quantized_linear_add,
     Arrangement::element_wise,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kFloat32, kCodes},
     {kCodes},
     stage_of(0, 3)},
    {"DYNAMIC_QUANTIZE_LINEAR",
     compile_dynamic_quantize_linear,
     Arrangement::element_wise,
     {kFloats},
     {kCodes, kFloat32, kCodes}},
    {"QUANTIZED_LINEAR_AVERAGE_POOLING",
     compile_quantized_linear_average_pooling,
     Arrangement::channels,
     {kCodes, kFloat32, kCodes, kFloat32, kCodes},
     {kCodes}},
    {"QUANTIZED_LINEAR_CONVOLUTION",
     compile_quantized_linear_convolution,
     Arrangement::channels,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kInt32, kFloat32, kCodes},
     {kCodes},
     kTakesStages},
    {"CODE_TABLE",
     compile_code_table,
     Arrangement::element_wise,
     {kCodes, set_of(DataType::uint8)},
     {kCodes},
     stage_of(0)},
    {"QUANTIZED_MULTIPLY",
     compile_quantized_multiply,
     Arrangement::element_wise,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kFloat32, kCodes},
     {kCodes},
     stage_of(0, 3)},
    {"COPY", compile_copy, Arrangement::element_wise, {kAnyType | kBlockCodes}, {kAnyType | kBlockCodes}},
    {"PADDING", compile_padding, Arrangement::element_wise, {kCodes}, {kCodes}},
    {"MAX_POOLING", compile_max_pooling, Arrangement::channels, {kCodes}, {kCodes}},
    {"MAX_POOLING_INDICES",
     compile_max_pooling_indices,
     Arrangement::own,
     {kCodes | kFloat32},
     {set_of(DataType::int64)}},
    {"MAX_UNPOOLING", compile_max_unpooling, Arrangement::own, {kAnyType, kIndices}, {kAnyType}},
    {"FLOAT_POOLING", compile_float_pooling, Arrangement::channels_if_small, {kFloat32}, {kFloat32}},
    {"FLOAT_CONVOLUTION",
     compile_float_convolution,
     Arrangement::channels,
     {kFloat32, kFloat32, kFloat32},
     {kFloat32},
     of_floats(kTakesStages)},
    {"CONVOLUTION_INTEGER",
     compile_convolution_integer,
     Arrangement::channels,
     {kCodes, kCodes, kCodes, kCodes},
     {kInt32}},
    {"CONVOLUTION_INTEGER_TO_FLOAT",
     compile_convolution_integer_to_float,
     Arrangement::channels,
     {kCodes, kCodes, kCodes, kCodes, kFloat32, kFloat32},
     {kFloat32}},
    {"MATRIX_MULTIPLY_INTEGER",
     compile_matrix_multiply_integer,
     Arrangement::own,
     {kCodes, kCodes, kCodes, kCodes},
     {kInt32}},
    {"QUANTIZED_LINEAR_MATRIX_MULTIPLY",
     compile_quantized_linear_matrix_multiply,
     Arrangement::own,
     {kCodes, kFloat32, kCodes, kCodes, kFloat32, kCodes, kFloat32, kCodes},
     {kCodes}},
    {"MATRIX_MULTIPLY_INTEGER_TO_FLOAT",
     compile_matrix_multiply_integer_to_float,
     Arrangement::own,
     {kIntegers, kFloats, kIntegers, kIntegers, kFloats, kIntegers, kFloats},
     {kFloats}},
    {"SOFTMAX", compile_softmax, Arrangement::element_wise, {kFloat32}, {kFloat32}},
    {"LOG_SOFTMAX", compile_softmax, Arrangement::element_wise, {kFloat32}, {kFloat32}},
    {"QUANTIZED_SOFTMAX",
     compile_quantized_softmax,
     Arrangement::element_wise,
     {kCodes, kFloat32, kCodes, kFloat32, kCodes},
     {kCodes}},
    {"LAYER_NORMALIZATION",
     compile_layer_normalization,
     Arrangement::element_wise,
     {kFloat32, kFloat32, kFloat32},
     {kFloat32}},
    {"GROUP_NORMALIZATION",
     compile_group_normalization,
     Arrangement::element_wise,
     {kFloat32, kFloat32, kFloat32},
     {kFloat32}},
    {"QUANTIZED_LAYER_NORMALIZATION",
     compile_quantized_layer_normalization,
     Arrangement::element_wise,
     {kCodes, kFloat32, kFloat32, kFloat32, kCodes},
     {kCodes}},
    {"QUANTIZED_GROUP_NORMALIZATION",
     compile_quantized_group_normalization,
     Arrangement::element_wise,
     {kCodes, kFloat32, kFloat32, kFloat32, kCodes},
     {kCodes}},
    {"REDUCE_MEAN", compile_reduce_mean, Arrangement::element_wise, {kFloat32}, {kFloat32}},
    {"REDUCE_SUM", compile_reduce_mean, Arrangement::element_wise, {kFloat32}, {kFloat32}},
    {"FLOAT_PRODUCT", compile_float_product, Arrangement::own, {kFloat32, kFloat32}, {kFloat32}},
    {"DEQUANTIZED_PRODUCT",
     compile_dequantized_product,
     Arrangement::own,
     {kFloat32, set_of(DataType::uint8), kFloat32, set_of(DataType::uint8)},
     {kFloat32}},
    {"QUANTIZED_BLOCK_PRODUCT",
     compile_quantized_block_product,
     Arrangement::own,
     {kFloat32, set_of(DataType::uint8), kFloat32, set_of(DataType::uint8)},
     {kFloat32}},
    {"QUANTIZE_BY_RANGE",
     compile_dynamic_quantize_linear,
     Arrangement::element_wise,
     {kFloat32},
     {set_of(DataType::uint8), kFloat32, set_of(DataType::uint8)}},
    {"QUANTIZED_RESAMPLE",
     compile_quantized_resample,
     Arrangement::channels,
     {kCodes, kFloat32, kCodes, kFloat32, kCodes},
     {kCodes}},
    {"GRID_SAMPLE", compile_grid_sample, Arrangement::own, {kFloat32, kFloat32}, {kFloat32}},
    {"WEIGHTED_GRID_SAMPLE", compile_grid_sample, Arrangement::channels, {kFloat32, kFloat32, kFloat32}, {kFloat32}},
    {"FLOAT_RESAMPLE", compile_float_resample, Arrangement::channels, {kFloat32}, {kFloat32}},
    {"FLOAT_INTERPOLATION", compile_float_interpolation, Arrangement::element_wise, {kFloat32}, {kFloat32}},
    {"ELEMENT_WISE_BINARY",
     compile_element_wise_binary,
     Arrangement::element_wise,
     {kFloat32 | kIndices, kFloat32 | kIndices},
     {kFloat32 | kIndices},
     of_floats(stage_of(0, 1))},
    {"ELEMENT_WISE_UNARY",
     compile_element_wise_unary,
     Arrangement::element_wise,
     {kFloat32},
     {kFloat32},
     of_floats(stage_of(0))},
    {"ROTARY_EMBEDDING", compile_rotary_embedding, Arrangement::own, {kFloat32, kFloat32, kFloat32}, {kFloat32}},
    {"FLOAT_TABLE", compile_float_table, Arrangement::element_wise, {kCodes, kFloat32}, {kFloat32}},
    {"CAST", compile_cast, Arrangement::element_wise, {kCodes | kIndices | kFloats}, {kIndices | kFloats}},
    {"ELEMENT_WISE_LOGICAL",
     compile_element_wise_logical,
     Arrangement::element_wise,
     {kConditions | kIndices | kFloat32, kConditions | kIndices | kFloat32},
     {kConditions}},
    {"ELEMENT_WISE_IF",
     compile_element_wise_if,
     Arrangement::element_wise,
     {kConditions, kAnyType, kAnyType},
     {kAnyType}},
    {"GATHER", compile_gather, Arrangement::own, {kAnyType, kIndices}, {kAnyType}},
    {"GATHER_ELEMENTS", compile_gather_elements, Arrangement::own, {kAnyType, kIndices}, {kAnyType}},
    {"SCATTER_ELEMENTS", compile_scatter_elements, Arrangement::own, {kAnyType, kIndices, kAnyType}, {kAnyType}},
    {"APPEND_TO_PAST", compile_append_to_past, Arrangement::own, {kAnyType, kAnyType, kInt32}, {kAnyType}},
    {"ARGMAX",
     compile_arg_extreme,
     Arrangement::element_wise,
     {kCodes | kFloat32 | kIndices},
     {set_of(DataType::int64)}},
    {"ARGMIN",
     compile_arg_extreme,
     Arrangement::element_wise,
     {kCodes | kFloat32 | kIndices},
     {set_of(DataType::int64)}},
    {"TOP_K",
     compile_top_k,
     Arrangement::own,
     {kCodes | kFloat32 | kIndices},
     {kCodes | kFloat32 | kIndices, set_of(DataType::int64)}},
    {"CUMULATIVE_SUMMATION", compile_cumulative_summation, Arrangement::own, {kTotalled}, {kTotalled}},
    {"CUMULATIVE_PRODUCT", compile_cumulative_product, Arrangement::own, {kTotalled}, {kTotalled}},
    {"RNN",
     compile_rnn,
     Arrangement::own,
     {kFloat32, kFloat32 | kCodes, kFloat32, kCodes, kFloat32, kInt32},
     {kFloat32, kFloat32}},
    {"LSTM",
     compile_lstm,
     Arrangement::own,
     {kFloat32, kFloat32 | kCodes, kFloat32, kCodes, kFloat32, kInt32, kFloat32},
     {kFloat32, kFloat32, kFloat32}},
    {"GRU",
     compile_gru,
     Arrangement::own,
     {kFloat32, kFloat32 | kCodes, kFloat32, kCodes, kFloat32, kInt32, kFloat32},
     {kFloat32, kFloat32}},
};

}  // namespace dmlcpu
