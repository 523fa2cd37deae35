#include "operators/recurrence/recurrent_product.h"

#include <algorithm>
#include <cstring>

#include "operators/buffer_layout.h"
#include "operators/matrix/float_panels.h"
#include "operators/matrix/matrix_product.h"
#include "operators/plan_words.h"
#include "operators/quantization/dynamic_codes.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Multiplications of a step that pay for waking a thread: some 10 us of them.
constexpr std::int64_t kLeastShared = 1 << 18, kLeastSharedOfCodes = 1 << 20;

class FloatRecurrentProduct final : public RecurrentProduct {
 public:
  FloatRecurrentProduct(const RecurrentSizes& sizes, const TensorLayout& matrices, const ExecutionTarget& target)
      : sizes_(sizes),
        direction_stride_(matrices.strides[0]),
        strides_{{0, 0}, matrices.strides[1], matrices.strides[2]},
        target_(target),
        tiles_(divide_up(sizes.columns, kFloatPanelColumns)),
        width_(float_panel_width(target.kernels())) {}

  std::size_t packed_size() const override { return as_size(sizes_.directions * matrix_floats()) * sizeof(float); }
  void pack(const void* matrices, std::uint8_t* packed) const override {
    for (std::int64_t direction = 0; direction < sizes_.directions; ++direction) {
      pack_float_panels(*target_.kernels().pack, static_cast<const float*>(matrices) + direction * direction_stride_,
                        strides_, sizes_.hidden, sizes_.columns, width_,
                        reinterpret_cast<float*>(packed) + direction * matrix_floats());
    }
  }

  std::size_t prepared_size() const override { return 0; }
  void prepare(const RecurrentParameters&, std::uint8_t*) const override {}
  std::size_t scratch_size() const override { return 0; }

  void run(const float* states, const std::uint8_t* packed, const std::uint8_t*, float* sums,
           std::uint8_t*) const override {
    const auto* matrices = reinterpret_cast<const float*>(packed);
    parallel_for(as_size(sizes_.directions * tiles_), target_.num_threads, [&](std::size_t task, int) noexcept {
      const std::int64_t direction = static_cast<std::int64_t>(task) / tiles_;
      const std::int64_t column = static_cast<std::int64_t>(task) % tiles_ * kFloatPanelColumns;
      multiply(states + direction * sizes_.sequences * sizes_.hidden,
               matrices + direction * matrix_floats() + column * sizes_.hidden,
               std::min(kFloatPanelColumns, sizes_.columns - column),
               sums + direction * sizes_.sequences * sizes_.columns + column);
    });
  }

  std::string describe() const override {
    return "product: float32, k in order, on " +
           counted(std::min<std::int64_t>(target_.num_threads, sizes_.directions * tiles_), "thread") +
           "\nkernel: " + kernel_words(target_, "float_product");
  }

 private:
  std::int64_t matrix_floats() const { return float_panels_size(sizes_.hidden, sizes_.columns, width_); }

  void multiply(const float* states, const float* panels, std::int64_t columns, float* sums) const noexcept {
    const std::int64_t most =
        width_ < kFloatPanelColumns ? narrow_panel_terms(sizes_.sequences, sizes_.hidden) : kFloatBlockTerms;
    for (std::int64_t k = 0; k < sizes_.hidden; k += most) {
      target_.kernels().float_product->accumulate({.a = states + k,
                                                   .a_row_stride = as_size(sizes_.hidden),
                                                   .b = panels + k * width_,
                                                   .b_row_stride = as_size(width_),
                                                   .m = as_size(sizes_.sequences),
                                                   .k = as_size(std::min(most, sizes_.hidden - k)),
                                                   .n = as_size(columns),
                                                   .sums = sums,
                                                   .sums_row_stride = as_size(sizes_.columns),
                                                   .begins = k == 0,
                                                   .b_panel_stride = as_size(sizes_.hidden * width_)});
    }
  }

  RecurrentSizes sizes_;
  std::int64_t direction_stride_;
  MatrixStrides strides_;
  ExecutionTarget target_;
  std::int64_t tiles_;  // of columns
  std::int64_t width_;  // of panels
};

MatrixProductDesc product_desc(const RecurrentSizes& sizes, const TensorLayout& matrices,
                               const ExecutionTarget& target) {
  const MatrixStrides sums = {{0, 0}, sizes.columns, 1};
  return {.geometry = {.batch = {1, 1},
                       .m = sizes.sequences,
                       .k = sizes.hidden,
                       .n = sizes.columns,
                       .parameter_rows = sizes.sequences,
                       .a = {{0, 0}, sizes.hidden, 1},
                       .b = {{0, 0}, matrices.strides[1], matrices.strides[2]},
                       .output = sums,
                       .bias = sums},
          .a_flip = 0,
          .b_flip = static_cast<std::uint8_t>(0x80 ^ offset_flip(matrices.type)),
          .b_owned = true,
          .rows_vary = false,
          .ends_in_codes = false,
          .ends_in_floats = true,
          .rescale = target.kernels().rescale->to_float32,
          .output_bytes = sizeof(float),
          .has_bias = false};
}

class QuantizedRecurrentProduct final : public RecurrentProduct {
 public:
  QuantizedRecurrentProduct(const RecurrentSizes& sizes, const TensorLayout& matrices, const ExecutionTarget& target)
      : sizes_(sizes),
        direction_stride_(matrices.strides[0]),
        target_(target),
        desc_(product_desc(sizes, matrices, target)),
        product_(make_matrix_product(desc_, target)) {
    const std::size_t rows = as_size(sizes.sequences), columns = product_->padded_columns();
    BufferLayout packed, prepared, scratch;
    packed.take(product_->packed_b()->size());
    packed_direction_ = packed.size();
    prepared.take(columns, sizeof(float));
    zero_points_ = prepared.take(columns, sizeof(std::int32_t));
    has_zero_points_ = prepared.take(1);
    prepared_direction_ = prepared.size();
    codes_ = scratch.take(rows * as_size(sizes.hidden));
    row_multipliers_ = scratch.take(rows, sizeof(float));
    row_zero_points_ = scratch.take(rows, sizeof(std::int32_t));
    product_scratch_ = scratch.take(product_->scratch_size());
    scratch_size_ = scratch.size();
  }

  std::size_t packed_size() const override { return as_size(sizes_.directions) * packed_direction_; }
  void pack(const void* matrices, std::uint8_t* packed) const override {
    for (std::int64_t direction = 0; direction < sizes_.directions; ++direction) {
      product_->packed_b()->pack(static_cast<const std::uint8_t*>(matrices) + direction * direction_stride_,
                                 packed + as_size(direction) * packed_direction_);
    }
  }

  std::size_t prepared_size() const override { return as_size(sizes_.directions) * prepared_direction_; }
  void prepare(const RecurrentParameters& parameters, std::uint8_t* prepared) const override;

  std::size_t scratch_size() const override { return scratch_size_; }
  void run(const float* states, const std::uint8_t* packed, const std::uint8_t* prepared, float* sums,
           std::uint8_t* scratch) const override {
    for (std::int64_t direction = 0; direction < sizes_.directions; ++direction) {
      run_direction(states + direction * sizes_.sequences * sizes_.hidden,
                    packed + as_size(direction) * packed_direction_,
                    prepared + as_size(direction) * prepared_direction_,
                    sums + direction * sizes_.sequences * sizes_.columns, scratch);
    }
  }

  std::string describe() const override {
    return "product: of states quantized by their range\n" + product_->describe();
  }

 private:
  void run_direction(const float* states, const std::uint8_t* packed, const std::uint8_t* prepared, float* sums,
                     std::uint8_t* scratch) const;

  RecurrentSizes sizes_;
  std::int64_t direction_stride_;
  ExecutionTarget target_;
  MatrixProductDesc desc_;
  std::unique_ptr<MatrixProduct> product_;
  // Of a direction: bytes of its packed matrix, and of its multipliers; behind these the zero points, and whether any
  // of them is not 0.
  std::size_t packed_direction_ = 0, prepared_direction_ = 0, zero_points_ = 0, has_zero_points_ = 0;
  // Offsets into the scratch memory.
  std::size_t codes_ = 0, row_multipliers_ = 0, row_zero_points_ = 0, product_scratch_ = 0, scratch_size_ = 0;
};

void QuantizedRecurrentProduct::prepare(const RecurrentParameters& parameters, std::uint8_t* prepared) const {
  std::memset(prepared, 0, prepared_size());
  for (std::int64_t direction = 0; direction < sizes_.directions; ++direction) {
    std::uint8_t* own = prepared + as_size(direction) * prepared_direction_;
    auto* multipliers = reinterpret_cast<float*>(own);
    auto* zero_points = reinterpret_cast<std::int32_t*>(own + zero_points_);
    for (std::int64_t column = 0; column < sizes_.columns; ++column) {
      const auto place = [&](const TensorLayout& layout) {
        return direction * layout.strides[0] + column * layout.strides[1];
      };
      multipliers[column] = parameters.scale[place(*parameters.scale_layout)];
      const std::uint8_t code = parameters.zero_point_layout == nullptr
                                    ? std::uint8_t{0}
                                    : parameters.zero_point[place(*parameters.zero_point_layout)];
      zero_points[column] = static_cast<std::int8_t>(code ^ desc_.b_flip);
      if (zero_points[column] != 0) own[has_zero_points_] = 1;
    }
  }
}

void QuantizedRecurrentProduct::run_direction(const float* states, const std::uint8_t* packed,
                                              const std::uint8_t* prepared, float* sums, std::uint8_t* scratch) const {
  const std::size_t count = as_size(sizes_.sequences * sizes_.hidden);
  Range range{};
  target_.kernels().range->float32(states, count, range);
  const DynamicCodes codes = divided_codes(range);
  target_.kernels().quantize->divide_float32({.input = states,
                                              .output = scratch + codes_,
                                              .count = count,
                                              .scale = &codes.operand,
                                              .zero_point = &codes.zero_point,
                                              .per_element = false,
                                              .flip = 0});
  auto* row_multipliers = reinterpret_cast<float*>(scratch + row_multipliers_);
  auto* row_zero_points = reinterpret_cast<std::int32_t*>(scratch + row_zero_points_);
  std::fill_n(row_multipliers, sizes_.sequences, codes.scale);
  std::fill_n(row_zero_points, sizes_.sequences, static_cast<std::int32_t>(codes.zero_point));
  const auto* zero_points = reinterpret_cast<const std::int32_t*>(prepared + zero_points_);
  product_->run({.a = scratch + codes_,
                 .b = packed,
                 .parameters = {.b_zero_point = prepared[has_zero_points_] == 0 ? nullptr : zero_points,
                                .column_multiplier = reinterpret_cast<const float*>(prepared),
                                .a_zero_point = codes.zero_point == 0.0F ? nullptr : row_zero_points,
                                .row_multiplier = row_multipliers,
                                .row_output_zero_point = nullptr},
                 .output_flip = 0,
                 .bias = nullptr,
                 .output = reinterpret_cast<std::uint8_t*>(sums)},
                scratch + product_scratch_);
}

}  // namespace

std::unique_ptr<RecurrentProduct> make_recurrent_product(const RecurrentSizes& sizes, const TensorLayout& matrices,
                                                         const ExecutionTarget& target) {
  const bool is_float = matrices.type == DataType::float32;
  const std::int64_t products = sizes.directions * sizes.sequences * sizes.hidden * sizes.columns;
  const bool is_shared = products >= (is_float ? kLeastShared : kLeastSharedOfCodes);
  const ExecutionTarget own = {target.isa, is_shared ? target.num_threads : 1};
  if (is_float) return std::make_unique<FloatRecurrentProduct>(sizes, matrices, own);
  return std::make_unique<QuantizedRecurrentProduct>(sizes, matrices, own);
}

}  // namespace dmlcpu
