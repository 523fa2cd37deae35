// GRID_SAMPLE: tensors input {N, C, H, W}, grid {N, OH, OW, 2}, output {N, C, OH, OW}, FLOAT32; attributes
// interpolation (0: the nearest pixel, 1: between four), padding (0: zeros, 1: the nearest pixel of the border),
// align_corners. An entry of the grid is where to look, x and y, from -1 at one side to 1 at the other: of the pixels'
// outer edges, or with align_corners of their centres. Of graphs alone.
//
//   x        (grid + 1) / 2 * (W - 1), or ((grid + 1) * W - 1) / 2; y likewise
//   between  (1 - v) * ((1 - u) * p00 + u * p01) + v * ((1 - u) * p10 + u * p11), each operation rounded; u and v are
//            how far x and y are beyond the pixels left of and above them
//
// A place that is no number is outside on the left, or above.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/operator_table.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/strided_runs.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kGrid, kOutput };

constexpr std::int64_t kOutside = -1;

// An output element of each channel: the four pixels that it is between, and how far it is beyond the first of them.
struct Point {
  std::int64_t pixels[2][2];  // within a channel, or kOutside
  float across, down;
  std::int64_t output;
};

class GridSample final : public CompiledOperator {
 public:
  GridSample(OperatorDesc operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        linear_(index_attribute(desc(), "interpolation", 2) == 1),
        border_(index_attribute(desc(), "padding", 2) == 1),
        aligned_(index_attribute(desc(), "align_corners", 2) == 1) {
    const TensorLayout &input = desc().tensor(kInput), &grid = desc().tensor(kGrid), &output = desc().tensor(kOutput);
    if (input.rank != 4 || grid.rank != 4 || output.rank != 4) {
      throw std::invalid_argument(desc().type + ": images and grid have 4 dimensions");
    }
    if (grid.sizes[0] != input.sizes[0] || output.sizes[0] != input.sizes[0] || output.sizes[1] != input.sizes[1] ||
        output.sizes[2] != grid.sizes[1] || output.sizes[3] != grid.sizes[2] || grid.sizes[3] != 2) {
      throw std::invalid_argument(desc().type + ": input, grid and output differ in sizes");
    }
    // Where floats are no longer exact places of pixels.
    if (input.sizes[2] > 1 << 24 || input.sizes[3] > 1 << 24) {
      throw std::invalid_argument(desc().type + ": images have at most 2^24 rows and columns");
    }
  }

  std::string describe() const override {
    return std::string("algorithm: ") + (linear_ ? "between four pixels" : "the nearest pixel") + ", " +
           (channels_are_neighbours() ? "of all channels at a time" : "channel by channel") +
           "\ntasks: " + std::to_string(task_count()) + " of " + counted(static_cast<std::int64_t>(kPoints), "point");
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
    parallel_for(as_size(task_count()), target().num_threads, [&](std::size_t task, int) noexcept {
      const std::int64_t image = static_cast<std::int64_t>(task) / blocks_of_image();
      const std::int64_t first = static_cast<std::int64_t>(task) % blocks_of_image() * kPoints;
      const std::int64_t count = std::min(kPoints, points_of_image() - first);
      Point points[kPoints];
      find_points(static_cast<const float*>(tensors[kGrid]), image, first, count, points);
      sample(static_cast<const float*>(tensors[kInput]) + image * input.strides[0],
             static_cast<float*>(tensors[kOutput]) + image * output.strides[0], points, count);
    });
  }

 private:
  static constexpr std::int64_t kPoints = 256;  // of a task: 12 KiB

  std::int64_t points_of_image() const { return desc().tensor(kOutput).sizes[2] * desc().tensor(kOutput).sizes[3]; }
  std::int64_t blocks_of_image() const { return divide_up(points_of_image(), kPoints); }
  std::int64_t task_count() const { return desc().tensor(kOutput).sizes[0] * blocks_of_image(); }
  bool channels_are_neighbours() const {
    return desc().tensor(kInput).sizes[1] > 1 && desc().tensor(kInput).strides[1] == 1;
  }

  // Within reach of the pixels; of zeros beyond them everything is alike.
  float place(float entry, std::int64_t size) const noexcept {
    const auto length = static_cast<float>(size);
    float place = aligned_ ? (entry + 1.0F) / 2.0F * (length - 1.0F) : ((entry + 1.0F) * length - 1.0F) / 2.0F;
    if (!linear_) place = std::nearbyint(place);
    const float lowest = border_ ? 0.0F : -2.0F, highest = border_ ? length - 1.0F : length + 1.0F;
    return place > lowest ? std::min(place, highest) : lowest;
  }

  void find_points(const float* grid, std::int64_t image, std::int64_t first, std::int64_t count,
                   Point* points) const noexcept {
    const TensorLayout &input = desc().tensor(kInput), &grid_layout = desc().tensor(kGrid),
                       &output = desc().tensor(kOutput);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = (first + i) / output.sizes[3], column = (first + i) % output.sizes[3];
      const float* entry =
          grid + image * grid_layout.strides[0] + row * grid_layout.strides[1] + column * grid_layout.strides[2];
      const float x = place(entry[0], input.sizes[3]), y = place(entry[grid_layout.strides[3]], input.sizes[2]);
      const float left = std::floor(x), top = std::floor(y);
      Point& point = points[i];
      point.across = x - left;
      point.down = y - top;
      point.output = row * output.strides[2] + column * output.strides[3];
      for (std::int64_t v = 0; v < 2; ++v) {
        for (std::int64_t u = 0; u < 2; ++u) {
          point.pixels[v][u] = pixel(static_cast<std::int64_t>(left) + u, static_cast<std::int64_t>(top) + v);
        }
      }
    }
  }

  std::int64_t pixel(std::int64_t x, std::int64_t y) const noexcept {
    const TensorLayout& input = desc().tensor(kInput);
    if (border_) {
      x = std::min(x, input.sizes[3] - 1);
      y = std::min(y, input.sizes[2] - 1);
    }
    const bool inside = x >= 0 && x < input.sizes[3] && y >= 0 && y < input.sizes[2];
    return inside ? y * input.strides[2] + x * input.strides[3] : kOutside;
  }

  float value(const float* channel, const Point& point) const noexcept {
    const auto at = [&](std::int64_t pixel) noexcept { return pixel == kOutside ? 0.0F : channel[pixel]; };
    if (!linear_) return at(point.pixels[0][0]);
    const float u = point.across, v = point.down;
    return (1.0F - v) * ((1.0F - u) * at(point.pixels[0][0]) + u * at(point.pixels[0][1])) +
           v * ((1.0F - u) * at(point.pixels[1][0]) + u * at(point.pixels[1][1]));
  }

  void sample(const float* input, float* output, const Point* points, std::int64_t count) const noexcept {
    const std::int64_t channels = desc().tensor(kInput).sizes[1];
    const std::int64_t input_step = desc().tensor(kInput).strides[1], output_step = desc().tensor(kOutput).strides[1];
    if (channels_are_neighbours()) {
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t c = 0; c < channels; ++c) {
          output[points[i].output + c * output_step] = value(input + c, points[i]);
        }
      }
      return;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t i = 0; i < count; ++i) {
        output[points[i].output + c * output_step] = value(input + c * input_step, points[i]);
      }
    }
  }

  bool linear_, border_, aligned_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_grid_sample(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<GridSample>(std::move(desc), target);
}

}  // namespace dmlcpu
