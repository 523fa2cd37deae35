#include "operators/resampling/volume_sample.h"

#include <algorithm>
#include <stdexcept>

#include "operators/plan_words.h"
#include "operators/resampling/grid_places.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kGrid, kOutput };

constexpr std::size_t kAxes = 3;      // of a volume: z, y, x
constexpr std::size_t kCorners = 8;   // of a point; bits of a number are further on along x, y and z
constexpr std::size_t kPoints = 128;  // of a task: 12 KiB with their corners' elements

// Points that are found once for all channels.
struct Points {
  std::size_t count;
  float beyond[kAxes][kPoints];
  std::int64_t corners[kCorners][kPoints];  // of those outside an element within
  std::uint8_t outside[kPoints];            // a bit for each corner
};

// Along an axis, the elements before and behind points.
struct Sides {
  std::int64_t offsets[2][kPoints];
  std::int32_t outside[2][kPoints];  // 0 or 1
};

class VolumeSample final : public CompiledOperator {
 public:
  VolumeSample(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target), places_(desc()) {
    const TensorLayout &input = desc().tensor(kInput), &grid = desc().tensor(kGrid), &output = desc().tensor(kOutput);
    if (grid.rank != 5 || output.rank != 5) throw std::invalid_argument(desc().type + ": volumes have 5 dimensions");
    bool fits = grid.sizes[0] == input.sizes[0] && output.sizes[0] == input.sizes[0] &&
                output.sizes[1] == input.sizes[1] && grid.sizes[4] == 3;
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      fits = fits && output.sizes[2 + axis] == grid.sizes[1 + axis];
      if (input.sizes[2 + axis] > 1 << 24) {  // as images have
        throw std::invalid_argument(desc().type + ": volumes have at most 2^24 elements along an axis");
      }
    }
    if (!fits) throw std::invalid_argument(desc().type + ": input, grid and output differ in sizes");
  }

  std::string describe() const override {
    return std::string("algorithm: ") + (places_.linear ? "between eight elements" : "the nearest element") +
           ", channel by channel\ntasks: " + std::to_string(task_count()) + " of " +
           counted(static_cast<std::int64_t>(kPoints), "point");
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    parallel_for(as_size(task_count()), target().num_threads, [&](std::size_t task, int) noexcept {
      const auto image = static_cast<std::int64_t>(task / blocks_of_volume());
      const std::size_t first = task % blocks_of_volume() * kPoints;
      const auto tensor = [&](std::size_t number) noexcept {
        return static_cast<float*>(tensors[number]) + image * desc().tensor(number).strides[0];
      };
      Points points;
      points.count = std::min(kPoints, points_of_volume() - first);
      std::int64_t targets[kPoints];
      find_points(tensor(kGrid), first, points, targets);
      const std::int64_t input_step = desc().tensor(kInput).strides[1], output_step = desc().tensor(kOutput).strides[1];
      for (std::int64_t c = 0; c < desc().tensor(kInput).sizes[1]; ++c) {
        float results[kPoints];
        look_up(points, tensor(kInput) + c * input_step, results);
        float* const output = tensor(kOutput) + c * output_step;
        for (std::size_t i = 0; i < points.count; ++i) output[targets[i]] = results[i];
      }
    });
  }

 private:
  std::size_t points_of_volume() const {
    const Extents& sizes = desc().tensor(kOutput).sizes;
    return as_size(sizes[2] * sizes[3] * sizes[4]);
  }
  std::size_t blocks_of_volume() const { return (points_of_volume() + kPoints - 1) / kPoints; }
  std::size_t corner_count() const { return places_.linear ? kCorners : 1; }
  std::int64_t task_count() const {
    return desc().tensor(kOutput).sizes[0] * static_cast<std::int64_t>(blocks_of_volume());
  }

  // Also where in a channel of the output each point is.
  void find_points(const float* grid, std::size_t first, Points& points, std::int64_t* targets) const noexcept {
    float entries[kAxes][kPoints];
    Sides sides[kAxes];
    read_entries(grid, static_cast<std::int64_t>(first), points.count, entries, targets);
    for (std::size_t axis = 0; axis < kAxes; ++axis) {
      places_.find(desc().tensor(kInput).sizes[2 + axis], points.count, entries[axis]);
      find_sides(axis, entries[axis], points, sides[axis]);
    }
    std::fill_n(points.outside, points.count, std::uint8_t{0});
    for (std::size_t corner = 0; corner < corner_count(); ++corner) {
      const std::size_t z = corner >> 2, y = corner >> 1 & 1, x = corner & 1;
      for (std::size_t i = 0; i < points.count; ++i) {
        points.corners[corner][i] = sides[0].offsets[z][i] + sides[1].offsets[y][i] + sides[2].offsets[x][i];
      }
      for (std::size_t i = 0; i < points.count; ++i) {
        const std::int32_t outside = sides[0].outside[z][i] | sides[1].outside[y][i] | sides[2].outside[x][i];
        points.outside[i] = static_cast<std::uint8_t>(points.outside[i] | outside << corner);
      }
    }
  }

  void read_entries(const float* grid, std::int64_t first, std::size_t count, float entries[][kPoints],
                    std::int64_t* targets) const noexcept {
    const TensorLayout &layout = desc().tensor(kGrid), &output = desc().tensor(kOutput);
    const std::int64_t rows = output.sizes[3], columns = output.sizes[4], step = layout.strides[4];
    const bool columns_last = places_.coordinates == Coordinates::in_pixels;
    std::int64_t column = first % columns, row = first / columns % rows, plane = first / columns / rows;
    for (std::size_t i = 0; i < count; ++i) {
      const float* entry = grid + plane * layout.strides[1] + row * layout.strides[2] + column * layout.strides[3];
      entries[0][i] = entry[columns_last ? 0 : 2 * step];
      entries[1][i] = entry[step];
      entries[2][i] = entry[columns_last ? 2 * step : 0];
      targets[i] = plane * output.strides[2] + row * output.strides[3] + column * output.strides[4];
      if (++column < columns) continue;
      column = 0;
      if (++row == rows) row = 0, ++plane;
    }
  }

  void find_sides(std::size_t axis, const float* places, Points& points, Sides& sides) const noexcept {
    const std::int64_t stride = desc().tensor(kInput).strides[2 + axis];
    const auto last = static_cast<std::int32_t>(desc().tensor(kInput).sizes[2 + axis] - 1);
    const std::int32_t has_outside = places_.border ? 0 : 1;
    for (std::size_t i = 0; i < points.count; ++i) {
      const std::int32_t whole = whole_of(places[i]);
      points.beyond[axis][i] = beyond(places[i], whole);
      for (std::int32_t side = 0; side < 2; ++side) {
        const std::int32_t within = std::min(std::max(whole + side, 0), last);
        sides.offsets[side][i] = within * stride;
        sides.outside[side][i] = static_cast<std::int32_t>(whole + side != within) & has_outside;
      }
    }
  }

  void look_up(const Points& points, const float* channel, float* results) const noexcept {
    float elements[kCorners][kPoints];
    const std::size_t corners = corner_count();
    for (std::size_t corner = 0; corner < corners; ++corner) {
      // The speed of so short a loop hangs on where its code lies, unless it is unrolled.
#pragma GCC unroll 8
      for (std::size_t i = 0; i < points.count; ++i) elements[corner][i] = channel[points.corners[corner][i]];
    }
    for (std::size_t i = 0; i < points.count; ++i) {
      if (points.outside[i] == 0) continue;
      for (std::size_t corner = 0; corner < corners; ++corner) {
        if ((points.outside[i] >> corner & 1) != 0) elements[corner][i] = 0;
      }
    }
    if (!places_.linear) return static_cast<void>(std::copy_n(elements[0], points.count, results));
    for (std::size_t i = 0; i < points.count; ++i) {
      const float w = points.beyond[0][i], v = points.beyond[1][i], u = points.beyond[2][i];
      const float other_w = 1.0F - w, other_v = 1.0F - v, other_u = 1.0F - u;
      const float before = other_v * (other_u * elements[0][i] + u * elements[1][i]) +
                           v * (other_u * elements[2][i] + u * elements[3][i]);
      const float behind = other_v * (other_u * elements[4][i] + u * elements[5][i]) +
                           v * (other_u * elements[6][i] + u * elements[7][i]);
      results[i] = other_w * before + w * behind;
    }
  }

  GridPlaces places_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_volume_sample(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<VolumeSample>(std::move(desc), target);
}

}  // namespace dmlcpu
