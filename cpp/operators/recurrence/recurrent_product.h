// The product within a step of a recurrent operator: the states of each direction times its recurrence matrix.
//
//   sums[direction][sequence][column] = sum over k of states[direction][sequence][k] * matrix[direction][k][column]
//
// Of FLOAT32 matrices, chains of fused multiply-adds with k ascending, begun at 0 (kernels/float_product). Of codes
// the states of a direction are quantized together, as QUANTIZE_BY_RANGE does it, and multiplied as by
// MATRIX_MULTIPLY_INTEGER_TO_FLOAT.
//
// A matrix is packed once; every step reads all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "operators/operator.h"

namespace dmlcpu {

struct RecurrentSizes {
  std::int64_t directions, sequences, hidden, columns;  // a matrix has `hidden` rows of `columns`

  std::size_t states() const { return static_cast<std::size_t>(directions * sequences * hidden); }
  std::size_t sums() const { return static_cast<std::size_t>(directions * sequences * columns); }
};

// Of codes: the scales and zero points of columns; scale and zero_point are {directions, columns}, of any strides.
struct RecurrentParameters {
  const TensorLayout* scale_layout;
  const float* scale;
  const TensorLayout* zero_point_layout;  // null where zero points are 0
  const std::uint8_t* zero_point;
};

class RecurrentProduct {
 public:
  virtual ~RecurrentProduct() = default;
  RecurrentProduct(const RecurrentProduct&) = delete;
  RecurrentProduct& operator=(const RecurrentProduct&) = delete;

  // Bytes of the packed matrices.
  virtual std::size_t packed_size() const = 0;
  virtual void pack(const void* matrices, std::uint8_t* packed) const = 0;

  // What the parameters become, in prepared_size() bytes, 64-byte aligned.
  virtual std::size_t prepared_size() const = 0;
  virtual void prepare(const RecurrentParameters& parameters, std::uint8_t* prepared) const = 0;

  // States and sums are contiguous; packed, prepared and the scratch_size() bytes of scratch are 64-byte aligned.
  virtual std::size_t scratch_size() const = 0;
  virtual void run(const float* states, const std::uint8_t* packed, const std::uint8_t* prepared, float* sums,
                   std::uint8_t* scratch) const = 0;

  virtual std::string describe() const = 0;

 protected:
  RecurrentProduct() = default;
};

// matrices are {directions, hidden, columns}, FLOAT32, UINT8 or INT8.
std::unique_ptr<RecurrentProduct> make_recurrent_product(const RecurrentSizes& sizes, const TensorLayout& matrices,
                                                         const ExecutionTarget& target);

}  // namespace dmlcpu
