#include "operators/pooling/plane_averages.h"

#include "operators/sizes.h"
#include "runtime/aligned_buffer.h"

namespace dmlcpu {
namespace {

// Whether windows are such that the masks of their taps take less time than a copy of the rows does, whose vectors have
// none: measured. High windows have a mask for each row of taps.
bool pays(const PoolingGeometry& geometry, std::size_t lanes) {
  constexpr std::int64_t kShortRow = 16, kMostColumns = 64;
  const std::int64_t height = geometry.axes[1].window, width = geometry.axes[2].window;
  const std::int64_t columns = geometry.axes[2].input;
  if (lanes > 8 || columns <= kShortRow) return height <= 2 * width;
  return width == 3 && height <= 3 && !geometry.include_padding && columns <= kMostColumns;
}

bool keeps_size(const PoolingAxis& axis) { return axis.stride == 1 && axis.dilation == 1 && axis.input == axis.output; }

}  // namespace

bool PlaneAverages::applies(const PoolingGeometry& geometry, const ExecutionTarget& target) {
  // More taps pay for a copy of the rows, of which these are vectors without masks.
  constexpr std::int64_t kMostElements = 8192, kMostTaps = 16;
  const PoolingAxis &vertical = geometry.axes[1], &horizontal = geometry.axes[2];
  const bool is_dense = horizontal.input_step == 1 && horizontal.output_step == 1 &&
                        vertical.input_step == horizontal.input && vertical.output_step == horizontal.input;
  return target.kernels().float_pool->lanes > 1 && is_dense && keeps_size(vertical) && keeps_size(horizontal) &&
         horizontal.window <= static_cast<std::int64_t>(FloatPlane::kMostTaps) &&
         vertical.window <= kMostTaps / horizontal.window && vertical.input <= kMostElements / horizontal.input &&
         geometry.input_channel_step != 1 && geometry.output_channel_step != 1 &&
         pays(geometry, target.kernels().float_pool->lanes);
}

PlaneAverages::PlaneAverages(const PoolingGeometry& geometry, const ExecutionTarget& target)
    : kernel_(target.kernels().float_pool->averages_of_plane) {
  const PoolingAxis &vertical = geometry.axes[1], &horizontal = geometry.axes[2];
  const std::size_t rows = as_size(vertical.input), columns = as_size(horizontal.input);
  const std::size_t bytes = round_up(rows * columns, 16) / 8;
  inside_.resize(as_size(horizontal.window) * bytes);
  for (std::size_t element = 0; element < rows * columns; ++element) {
    const auto y = static_cast<std::int64_t>(element / columns), x = static_cast<std::int64_t>(element % columns);
    const IndexRange taps = horizontal.taps(x);
    for (std::int64_t j = taps.begin; j < taps.end; ++j) {
      inside_[as_size(j) * bytes + element / 8] |= static_cast<std::uint8_t>(1U << element % 8);
    }
    if (!geometry.include_padding) divisors_.push_back(geometry.divisor(vertical.taps(y).count() * taps.count()));
  }
  if (geometry.include_padding) divisors_ = {geometry.divisor(vertical.window * horizontal.window)};
  plane_ = {.input = nullptr,
            .rows = rows,
            .columns = columns,
            .tap_rows = as_size(vertical.window),
            .taps = as_size(horizontal.window),
            .rows_before = vertical.padding,
            .columns_before = horizontal.padding,
            .inside = nullptr,
            .tap_bytes = bytes,
            .divisors = nullptr,
            .divisor_repeats = geometry.include_padding,
            .output = nullptr};
}

void PlaneAverages::run(const float* plane, float* output) const noexcept {
  FloatPlane operands = plane_;
  operands.input = plane;
  operands.inside = inside_.data();
  operands.divisors = divisors_.data();
  operands.output = output;
  kernel_(operands);
}

}  // namespace dmlcpu
