// Elements are (x - zero_point) in 64 bits, converted to float32, times their scale, rounded. Sums are chains of fused
// multiply-adds with k ascending (kernels/float_product), begun at 0; the bias is added to the last of them, and a
// FLOAT16 output is that sum rounded to nearest even.
//
// A task is a tile of rows and columns: blocks of k are dequantized into buffers in a cache and used up there.
#include "operators/matrix/wide_matrix_multiply.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "operators/buffer_layout.h"
#include "operators/element_types.h"
#include "operators/matrix/matrix_geometry.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"

enum Tensor : std::size_t { kA, kAScale, kAZeroPoint, kB, kBScale, kBZeroPoint, kBias, kOutput };

// A block of b takes 256 KiB and the sums of a tile 64 KiB, which stay in a level-2 cache of 512 KiB: each row of the
// tile reads the block again.
constexpr std::int64_t kTileRows = 64, kTileColumns = 256, kBlockTerms = 256;

// Elements of one matrix with their zero points and scales, as float32.
class DequantizedMatrix {
 public:
  DequantizedMatrix(const OperatorDesc& desc, Tensor tensor, Line line, std::int64_t length)
      : type_(desc.tensor(tensor).type),
        scale_type_(desc.tensor(tensor + 1).type),
        scale_number_(tensor + 1),
        zero_point_number_(tensor + 2),
        scale_(line_parameter(desc, desc.optional_tensor(scale_number_), line, length)),
        zero_point_(line_parameter(desc, desc.optional_tensor(zero_point_number_), line, length)) {
    const std::optional<TensorLayout>& zero_point = desc.optional_tensor(zero_point_number_);
    if (zero_point && zero_point->type != type_) {
      throw std::invalid_argument(desc.type + ": a zero point is of its matrix's data type");
    }
  }

  DataType type() const { return type_; }

  // count elements from first on, stride elements apart, whose parameters are those of a line and, from element to
  // element, parameter_step lines on.
  void read(const TensorPointers& tensors, const void* first, std::int64_t stride, std::int64_t count,
            std::int64_t line, std::int64_t parameter_step, float* values) const {
    with_element_of_type<std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t>(
        type_, [&]<class Element>(Element) {
          const auto* elements = static_cast<const Element*>(first);
          const auto* zero_points = static_cast<const Element*>(tensors[zero_point_number_]);
          for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t parameter = line + i * parameter_step;
            const std::int64_t zero_point = zero_points == nullptr ? 0 : zero_points[parameter * zero_point_.stride];
            const auto difference = static_cast<float>(std::int64_t{elements[i * stride]} - zero_point);
            values[i] =
                difference *
                value_as_float(element(tensors[scale_number_], scale_type_, parameter * scale_.stride), scale_type_);
          }
        });
  }

 private:
  DataType type_, scale_type_;
  std::size_t scale_number_, zero_point_number_;
  LineParameter scale_, zero_point_;
};

class WideMatrixMultiply final : public CompiledOperator {
 public:
  WideMatrixMultiply(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        geometry_(matrix_geometry(desc(), desc().tensor(kA), desc().tensor(kB), desc().tensor(kOutput),
                                  desc().optional_tensor(kBias))),
        a_(desc(), kA, Line::rows, geometry_.parameter_rows),
        b_(desc(), kB, Line::columns, geometry_.n),
        row_tiles_(divide_up(geometry_.m, kTileRows)),
        column_tiles_(divide_up(geometry_.n, kTileColumns)),
        tasks_(geometry_.products() * row_tiles_ * column_tiles_) {
    BufferLayout own;
    a_values_ = own.take(as_size(kBlockTerms), sizeof(float));
    b_values_ = own.take(as_size(kBlockTerms * kTileColumns), sizeof(float));
    sums_ = own.take(as_size(kTileRows * kTileColumns), sizeof(float));
    participant_size_ = own.size();
  }

  std::size_t temporary_size() const override { return as_size(participants()) * participant_size_; }
  std::string describe() const override {
    return "algorithm: float32 product of dequantized elements, k in order\nkernel: " +
           kernel_words(target(), "float_product") +
           "\nwhy: sums of elements of more than 8 bits exceed 32 bits\ntile: " + std::to_string(kTileRows) +
           " rows, " + std::to_string(kTileColumns) + " columns, " + tasks_on_threads(tasks_, participants());
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    std::uint8_t* scratch = thread_scratch(temporary_size());
    parallel_for(as_size(tasks_), target().num_threads, [&](std::size_t task, int slot) noexcept {
      run_tile(tensors, static_cast<std::int64_t>(task), scratch + as_size(slot) * participant_size_);
    });
  }

 private:
  std::int64_t participants() const { return std::min<std::int64_t>(target().num_threads, tasks_); }
  void run_tile(const TensorPointers& tensors, std::int64_t task, std::uint8_t* own) const noexcept;
  void write_row(const TensorPointers& tensors, std::int64_t bias, std::int64_t output, std::int64_t columns,
                 const float* sums) const noexcept;

  MatrixGeometry geometry_;
  DequantizedMatrix a_, b_;
  std::int64_t row_tiles_, column_tiles_, tasks_;
  std::size_t a_values_, b_values_, sums_, participant_size_;
};

void WideMatrixMultiply::run_tile(const TensorPointers& tensors, std::int64_t task, std::uint8_t* own) const noexcept {
  const auto index = geometry_.batch_index(task / (row_tiles_ * column_tiles_));
  const std::int64_t first_row = task / column_tiles_ % row_tiles_ * kTileRows;
  const std::int64_t first_column = task % column_tiles_ * kTileColumns;
  const std::int64_t rows = std::min(kTileRows, geometry_.m - first_row);
  const std::int64_t columns = std::min(kTileColumns, geometry_.n - first_column);
  auto* a_values = reinterpret_cast<float*>(own + a_values_);
  auto* b_values = reinterpret_cast<float*>(own + b_values_);
  auto* sums = reinterpret_cast<float*>(own + sums_);
  const std::int64_t a_place = MatrixGeometry::offset(geometry_.a, index) + first_row * geometry_.a.row;
  const std::int64_t b_place = MatrixGeometry::offset(geometry_.b, index) + first_column * geometry_.b.column;
  for (std::int64_t k = 0; k < geometry_.k; k += kBlockTerms) {
    const std::int64_t terms = std::min(kBlockTerms, geometry_.k - k);
    for (std::int64_t i = 0; i < terms; ++i) {
      b_.read(tensors, element(tensors[kB], b_.type(), b_place + (k + i) * geometry_.b.row), geometry_.b.column,
              columns, first_column, 1, b_values + i * columns);
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      a_.read(tensors, element(tensors[kA], a_.type(), a_place + row * geometry_.a.row + k * geometry_.a.column),
              geometry_.a.column, terms, (first_row + row) % geometry_.parameter_rows, 0, a_values);
      target().kernels().float_product->accumulate({.a = a_values,
                                                    .a_row_stride = 0,
                                                    .b = b_values,
                                                    .b_row_stride = as_size(columns),
                                                    .m = 1,
                                                    .k = as_size(terms),
                                                    .n = as_size(columns),
                                                    .sums = sums + row * columns,
                                                    .sums_row_stride = 0,
                                                    .begins = k == 0});
    }
  }
  const std::int64_t bias = MatrixGeometry::offset(geometry_.bias, index) + first_column * geometry_.bias.column;
  const std::int64_t output = MatrixGeometry::offset(geometry_.output, index) + first_column * geometry_.output.column;
  for (std::int64_t row = 0; row < rows; ++row) {
    write_row(tensors, bias + (first_row + row) * geometry_.bias.row, output + (first_row + row) * geometry_.output.row,
              columns, sums + row * columns);
  }
}

// bias and output are the numbers of their tensors' elements where the row begins.
void WideMatrixMultiply::write_row(const TensorPointers& tensors, std::int64_t bias, std::int64_t output,
                                   std::int64_t columns, const float* sums) const noexcept {
  const DataType type = desc().tensor(kOutput).type;
  for (std::int64_t column = 0; column < columns; ++column) {
    float sum = sums[column];
    if (tensors[kBias] != nullptr) {
      sum += value_as_float(element(tensors[kBias], type, bias + column * geometry_.bias.column), type);
    }
    if (std::isnan(sum)) sum = std::numeric_limits<float>::quiet_NaN();  // as kernels/rescale
    void* target_element = element(tensors[kOutput], type, output + column * geometry_.output.column);
    if (type == DataType::float32) {
      std::memcpy(target_element, &sum, sizeof(sum));
    } else {
      const Half half = narrow(sum);
      std::memcpy(target_element, &half, sizeof(half));
    }
  }
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_wide_matrix_multiply(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<WideMatrixMultiply>(std::move(desc), target);
}

}  // namespace dmlcpu
