// MAX_POOLING_INDICES: tensors input, codes of 8 bits or FLOAT32, {N, C, W}, {N, C, H, W} or {N, C, D, H, W}, output
// INT64; attributes of a window, and storage_order. Each output is the place in the whole input of its window's
// maximum, the first of equal ones in row-major order; of NaN the first. Padding never wins; a window of nothing else
// is refused. Of graphs alone: the second output of DirectML's MAX_POOLING2, for MAX_UNPOOLING.
//
//   storage_order  0: places count through all axes, the last one fastest
//                  1: through those of a channel the first one fastest
//
// Whole windows of a row are compared tap by tap: the maxima of many columns, and where they are in their plane, both
// of 32 bits if the plane allows, so that the compiler makes vectors of them. A tap's elements are brought to a line
// first. Windows that reach into the padding are walked one by one.
#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "operators/attributes.h"
#include "operators/element_types.h"
#include "operators/operator.h"
#include "operators/pooling/pooling_geometry.h"
#include "operators/sizes.h"
#include "operators/task_size.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

// Columns whose maxima are kept together.
constexpr std::size_t kColumns = 128;

struct PlacedAxis : PoolingAxis {
  std::int64_t place_step = 0;  // between the places of neighbours
  IndexRange whole{0, 1};       // the windows that are inside as a whole
};

class MaxPoolingIndices final : public CompiledOperator {
 public:
  MaxPoolingIndices(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target) {
    const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
    if (input.rank < 3 || input.rank > 5 || output.rank != input.rank || input.sizes[0] != output.sizes[0] ||
        input.sizes[1] != output.sizes[1]) {
      throw std::invalid_argument(desc().type + ": input and output are of rank 3 to 5 and share all but their planes");
    }
    for (std::size_t axis = 2; axis < input.rank; ++axis) axes_[axis + 3 - input.rank] = placed_axis(axis);
    const bool first_fastest = index_attribute(desc(), "storage_order", 2) == 1;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      PlacedAxis& axis = axes_[first_fastest ? i : axes_.size() - 1 - i];
      axis.place_step = plane_;
      plane_ *= axis.input;  // at most the tensor's elements, which have been counted
    }
  }

  std::string describe() const override {
    return "algorithm: windows of a row tap by tap\ntasks: " + std::to_string(rows_to_a_task()) + " output rows each";
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    with_element_of_type<std::uint8_t, std::int8_t, float>(desc().tensor(kInput).type, [&]<class Element>(Element) {
      if (plane_ <= INT32_MAX) return pool<Element, std::int32_t>(tensors);
      pool<Element, std::int64_t>(tensors);
    });
  }

 private:
  PlacedAxis placed_axis(std::size_t number) const {
    const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
    PlacedAxis axis{pooling_axis(desc(), number - 2, input.sizes[number], output.sizes[number])};
    axis.input_step = input.strides[number];
    axis.output_step = output.strides[number];
    // No position depends on these, which may be too large to be multiplied by steps in memory.
    if (axis.window == 1) axis.dilation = 1;
    if (axis.output == 1) axis.stride = 1;
    axis.whole = axis.whole_windows();
    for (std::int64_t i = 0; i < axis.output; ++i) {
      if (axis.taps(i).count() == 0) throw std::invalid_argument(desc().type + ": a window is wholly in the padding");
    }
    return axis;
  }

  double rows() const {
    const TensorLayout& output = desc().tensor(kOutput);
    return as_number(output.sizes[0]) * as_number(output.sizes[1]) * as_number(axes_[0].output) *
           as_number(axes_[1].output);
  }

  std::size_t rows_to_a_task() const {
    double elements = as_number(axes_[2].output);
    for (const PlacedAxis& axis : axes_) elements *= as_number(std::min(axis.window, axis.input));
    return rows_of_task(rows(), elements, target().num_threads);
  }

  // Place: of the elements of a plane.
  template <class Element, class Place>
  void pool(const TensorPointers& tensors) const {
    const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
    const std::size_t count = static_cast<std::size_t>(rows()), of_task = rows_to_a_task();
    parallel_for((count + of_task - 1) / of_task, target().num_threads, [&](std::size_t task, int) noexcept {
      for (std::size_t row = task * of_task; row < std::min((task + 1) * of_task, count); ++row) {
        const auto number = static_cast<std::int64_t>(row);
        const std::int64_t y = number % axes_[1].output, z = number / axes_[1].output % axes_[0].output;
        const std::int64_t plane = number / axes_[1].output / axes_[0].output;
        const std::int64_t image = plane / input.sizes[1], channel = plane % input.sizes[1];
        pool_row<Place>(
            static_cast<const Element*>(tensors[kInput]) + image * input.strides[0] + channel * input.strides[1], z, y,
            plane * plane_,
            static_cast<std::int64_t*>(tensors[kOutput]) + image * output.strides[0] + channel * output.strides[1] +
                z * axes_[0].output_step + y * axes_[1].output_step);
      }
    });
  }

  // The windows of an output row of a plane whose first element has the place base.
  template <class Place, class Element>
  void pool_row(const Element* plane, std::int64_t z, std::int64_t y, std::int64_t base,
                std::int64_t* output) const noexcept {
    const PlacedAxis& axis = axes_[2];
    std::int64_t count = 1;
    for (std::int64_t x = 0; x < axis.output; x += count) {
      if (x < axis.whole.begin || x >= axis.whole.end) {
        output[x * axis.output_step] = base + place_of_maximum(plane, {z, y, x});
        count = 1;
        continue;
      }
      count = std::min(static_cast<std::int64_t>(kColumns), axis.whole.end - x);
      pool_columns<Place>(plane, {z, y, x}, as_size(count), base, output + x * axis.output_step);
    }
  }

  // In its plane, of the window at a position.
  template <class Element>
  std::int64_t place_of_maximum(const Element* plane, const std::array<std::int64_t, 3>& at) const noexcept {
    const auto& [depth, height, width] = axes_;
    const IndexRange of_depth = depth.taps(at[0]), of_height = height.taps(at[1]), of_width = width.taps(at[2]);
    const std::int64_t first = width.position(at[2], of_width.begin);
    const Element* largest = nullptr;
    std::int64_t found = 0;
    for (std::int64_t d = of_depth.begin; d < of_depth.end; ++d) {
      for (std::int64_t h = of_height.begin; h < of_height.end; ++h) {
        const std::int64_t z = depth.position(at[0], d), y = height.position(at[1], h);
        const Element* input = plane + z * depth.input_step + y * height.input_step + first * width.input_step;
        std::int64_t place = z * depth.place_step + y * height.place_step + first * width.place_step;
        for (std::int64_t w = of_width.begin; w < of_width.end; ++w) {
          if (largest == nullptr || is_larger(*input, *largest)) {
            largest = input;
            found = place;
          }
          input += width.dilation * width.input_step;
          place += width.dilation * width.place_step;
        }
      }
    }
    return found;
  }

  // Of count outputs from the one at a position on, whose windows have the same taps inside.
  template <class Place, class Element>
  void pool_columns(const Element* plane, const std::array<std::int64_t, 3>& first, std::size_t count,
                    std::int64_t base, std::int64_t* output) const noexcept {
    using Number = std::conditional_t<std::is_same_v<Element, float>, float, std::int32_t>;
    Number maxima[kColumns], line[kColumns];
    Place places[kColumns];
    IndexRange taps[3];
    for (std::size_t i = 0; i < 3; ++i) taps[i] = axes_[i].taps(first[i]);
    const std::int64_t step = axes_[2].stride * axes_[2].input_step;
    bool is_first = true;
    for (std::int64_t d = taps[0].begin; d < taps[0].end; ++d) {
      for (std::int64_t h = taps[1].begin; h < taps[1].end; ++h) {
        for (std::int64_t w = taps[2].begin; w < taps[2].end; ++w) {
          const std::int64_t position[] = {axes_[0].position(first[0], d), axes_[1].position(first[1], h),
                                           axes_[2].position(first[2], w)};
          const Element* input = plane;
          std::int64_t place = 0;
          for (std::size_t i = 0; i < 3; ++i) {
            input += position[i] * axes_[i].input_step;
            place += position[i] * axes_[i].place_step;
          }
          if (is_first) {
            copy_line(input, step, count, maxima);
            std::fill_n(places, count, static_cast<Place>(place));
            is_first = false;
          } else {
            copy_line(input, step, count, line);
            take_larger(line, static_cast<Place>(place), count, maxima, places);
          }
        }
      }
    }
    // Each column is a stride further than the one before.
    const std::int64_t further = axes_[2].stride * axes_[2].place_step;
    for (std::size_t i = 0; i < count; ++i) {
      const auto column = static_cast<std::int64_t>(i);
      output[column * axes_[2].output_step] = base + places[i] + column * further;
    }
  }

  template <class Element, class Number>
  static void copy_line(const Element* input, std::int64_t step, std::size_t count, Number* line) noexcept {
    if (step == 1) {
      std::copy_n(input, count, line);
    } else if (step == 2) {
      for (std::size_t i = 0; i < count; ++i) line[i] = input[2 * i];
    } else {
      for (std::size_t i = 0; i < count; ++i) line[i] = input[static_cast<std::int64_t>(i) * step];
    }
  }

  // NaN is larger than all numbers.
  template <class Number>
  static bool is_larger(Number element, Number largest) noexcept {
    return !(element <= largest) & (largest == largest);
  }

  template <class Number, class Place>
  static void take_larger(const Number* __restrict line, Place place, std::size_t count, Number* __restrict maxima,
                          Place* __restrict places) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      const Number element = line[i], largest = maxima[i];
      const bool takes = is_larger(element, largest);
      maxima[i] = takes ? element : largest;
      places[i] = takes ? place : places[i];
    }
  }

  std::array<PlacedAxis, 3> axes_{};  // depth, height, width: 1 where there are fewer
  std::int64_t plane_ = 1;            // elements of one
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_max_pooling_indices(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<MaxPoolingIndices>(std::move(desc), target);
}

}  // namespace dmlcpu
