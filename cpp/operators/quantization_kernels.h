// Which kernels of quantize and dequantize are for which data types. Null where there is none; the types that
// operator_table.h admits have one.
#pragma once

#include "kernels/dequantize/dequantize.h"
#include "kernels/quantize/quantize.h"
#include "runtime/data_type.h"

namespace dmlcpu {

inline DequantizeFunction dequantize_kernel(const DequantizeKernels& kernels, DataType input, DataType output) {
  const DequantizeToFloat& row = output == DataType::float16 ? kernels.to_float16 : kernels.to_float32;
  switch (input) {
    case DataType::uint8:
      return row.uint8;
    case DataType::int8:
      return row.int8;
    case DataType::uint16:
      return row.uint16;
    case DataType::int16:
      return row.int16;
    case DataType::uint32:
      return row.uint32;
    case DataType::int32:
      return row.int32;
    default:
      return nullptr;
  }
}

// Those that divide by the scale.
inline QuantizeFunction quantize_kernel(const QuantizeKernels& kernels, DataType input) {
  switch (input) {
    case DataType::float32:
      return kernels.divide_float32;
    case DataType::float16:
      return kernels.divide_float16;
    case DataType::int32:
      return kernels.divide_int32;
    default:
      return nullptr;
  }
}

}  // namespace dmlcpu
