#include "operators/matrix/matrix_results.h"

#include "operators/sizes.h"
#include "operators/strides/channel_planes.h"
#include "operators/strides/element_rows.h"
#include "operators/strides/element_width.h"

namespace dmlcpu {

void MatrixResults::take(BufferLayout& layout, std::size_t elements) {
  results_ = layout.take(are_direct() ? 0 : elements, desc_.output_bytes);
  bias_ = layout.take(desc_.has_bias && geometry_.bias.column != 1 ? elements : 0, desc_.output_bytes);
}

std::uint8_t* MatrixResults::output_of(const MatrixDispatch& dispatch, const MatrixRegion& region) const noexcept {
  return dispatch.output +
         static_cast<std::int64_t>(desc_.output_bytes) *
             (MatrixGeometry::offset(geometry_.output, region.index) + region.first_row * geometry_.output.row +
              region.first_column * geometry_.output.column);
}

// That of a region, with columns that are neighbours.
MatrixResults::Bias MatrixResults::bias_of(const MatrixDispatch& dispatch, const MatrixRegion& region,
                                           std::uint8_t* own) const noexcept {
  const MatrixStrides& strides = geometry_.bias;
  if (!desc_.has_bias) return {nullptr, as_size(strides.row)};
  const std::uint8_t* bias =
      dispatch.bias + static_cast<std::int64_t>(desc_.output_bytes) *
                          (MatrixGeometry::offset(strides, region.index) + region.first_row * strides.row +
                           region.first_column * strides.column);
  if (strides.column == 1) return {bias, as_size(strides.row)};
  const std::int64_t rows = strides.row == 0 ? 1 : region.rows;  // one that repeats is gathered once
  with_element_of(desc_.output_bytes, [&]<class Element>(Element) {
    copy_rows(reinterpret_cast<const Element*>(bias), {strides.row, strides.column},
              reinterpret_cast<Element*>(own + bias_), {region.columns, 1}, rows, region.columns);
  });
  return {own + bias_, strides.row == 0 ? 0 : as_size(region.columns)};
}

void MatrixResults::write_rescaled(const MatrixDispatch& dispatch, const MatrixRegion& region, const std::int32_t* sums,
                                   const std::int32_t* column_sum, std::uint8_t* own) const noexcept {
  const Bias bias = bias_of(dispatch, region, own);
  const bool corrects = column_sum != nullptr && dispatch.parameters.a_zero_point != nullptr;
  std::uint8_t* output = output_of(dispatch, region);
  const auto of_rows = [&](const float* values) { return values == nullptr ? nullptr : values + region.first_row; };
  desc_.rescale({.sums = sums,
                 .sums_row_stride = as_size(region.columns),
                 .m = as_size(region.rows),
                 .n = as_size(region.columns),
                 .row_zero_point = corrects ? dispatch.parameters.a_zero_point + region.first_row : nullptr,
                 .column_sum = corrects ? column_sum : nullptr,
                 .row_multiplier = of_rows(dispatch.parameters.row_multiplier),
                 .column_multiplier = dispatch.parameters.column_multiplier == nullptr
                                          ? nullptr
                                          : dispatch.parameters.column_multiplier + region.first_column,
                 .row_output_zero_point = of_rows(dispatch.parameters.row_output_zero_point),
                 .flip = dispatch.output_flip,
                 .bias = bias.data,
                 .bias_row_stride = bias.row_stride,
                 .output = are_direct() ? output : waiting(own),
                 .output_row_stride = as_size(are_direct() ? geometry_.output.row : region.columns)});
  if (!are_direct()) scatter(waiting(own), region, output);
}

void MatrixResults::scatter(const std::uint8_t* results, const MatrixRegion& region,
                            std::uint8_t* output) const noexcept {
  scatter_pixels(pack_, results, region.rows, region.columns, desc_.output_bytes, output, geometry_.output.row,
                 geometry_.output.column);
}

}  // namespace dmlcpu
