// GRID_SAMPLE: tensors input {N, C, H, W}, grid {N, OH, OW, 2}, output {N, C, OH, OW}, FLOAT32; attributes
// interpolation (0: the nearest pixel, 1: between four), padding (0: zeros, 1: the nearest pixel of the border),
// coordinates. An entry of the grid is where to look. Of graphs alone.
//
//   coordinates   entries
//   0             x and y, from -1 at one outer edge of the pixels to 1 at the other
//   1             x and y, from -1 at one outer pixel's centre to 1 at the other
//   2             y and x, in pixels from the first one on
//
//   x        ((entry + 1) * W - 1) / 2, (entry + 1) / 2 * (W - 1), or the entry; y likewise
//   between  (1 - v) * ((1 - u) * p00 + u * p01) + v * ((1 - u) * p10 + u * p11), each operation rounded; u and v are
//            how far x and y are beyond the pixels left of and above them
//
// A place that is no number is outside on the left, or above. Volumes have a dimension more (volume_sample.h).
//
// WEIGHTED_GRID_SAMPLE: the same of images, and behind the grid weights {N, 1, OH, OW}, with which results are
// multiplied.
#include <algorithm>
#include <stdexcept>

#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/resampling/grid_places.h"
#include "operators/resampling/plane_points.h"
#include "operators/resampling/volume_sample.h"
#include "operators/sizes.h"
#include "operators/strides/strided_runs.h"
#include "operators/strides/transposed_elements.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kGrid, kWeights };  // and behind them the output

constexpr std::int64_t kOutside = -1;

// An output element of each channel: the four pixels that it is between, and how far it is beyond the first of them.
struct Point {
  std::int64_t pixels[2][2];  // within a channel, or kOutside
  float across, down;
  float weight;  // where points have weights
  std::int64_t output;
};

class GridSample final : public CompiledOperator {
 public:
  GridSample(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        weighted_(desc().type == "WEIGHTED_GRID_SAMPLE"),
        places_(desc()) {
    const TensorLayout &input = desc().tensor(kInput), &grid = desc().tensor(kGrid), &output = output_layout();
    if (input.rank != 4 || grid.rank != 4 || output.rank != 4) {
      throw std::invalid_argument(desc().type + ": images and grid have 4 dimensions");
    }
    if (grid.sizes[0] != input.sizes[0] || output.sizes[0] != input.sizes[0] || output.sizes[1] != input.sizes[1] ||
        output.sizes[2] != grid.sizes[1] || output.sizes[3] != grid.sizes[2] || grid.sizes[3] != 2) {
      throw std::invalid_argument(desc().type + ": input, grid and output differ in sizes");
    }
    if (weighted_) check_weights();
    // Where floats are no longer exact places of pixels.
    if (input.sizes[2] > 1 << 24 || input.sizes[3] > 1 << 24) {
      throw std::invalid_argument(desc().type + ": images have at most 2^24 rows and columns");
    }
    in_planes_ = !channels_are_neighbours() &&
                 PlanePoints::takes(input.sizes[2], input.sizes[3], input.strides[2], input.strides[3]);
  }

  std::string describe() const override {
    return std::string("algorithm: ") + (places_.linear ? "between four pixels" : "the nearest pixel") + ", " +
           (channels_are_neighbours() ? "of all channels at a time"
            : in_planes_              ? "plane by plane"
                                      : "channel by channel") +
           "\ntasks: " + std::to_string(task_count()) + " of " + counted(static_cast<std::int64_t>(kPoints), "point");
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    const TensorLayout &input = desc().tensor(kInput), &output = output_layout();
    parallel_for(as_size(task_count()), target().num_threads, [&](std::size_t task, int) noexcept {
      const std::int64_t image = static_cast<std::int64_t>(task) / blocks_of_image();
      const std::int64_t first = static_cast<std::int64_t>(task) % blocks_of_image() * kPoints;
      const std::int64_t count = std::min(kPoints, points_of_image() - first);
      float x[kPoints], y[kPoints], weights[kPoints];
      if (weighted_) read_weights(static_cast<const float*>(tensors[kWeights]), image, first, count, weights);
      find_places(static_cast<const float*>(tensors[kGrid]) + image * desc().tensor(kGrid).strides[0], first, count, x,
                  y);
      const float* const pixels = static_cast<const float*>(tensors[kInput]) + image * input.strides[0];
      float* const results = static_cast<float*>(tensors[output_number()]) + image * output.strides[0];
      if (in_planes_) return sample_planes(pixels, x, y, first, count, weights, results);
      Point points[kPoints];
      find_points(x, y, first, count, points);
      for (std::int64_t i = 0; i < count && weighted_; ++i) points[i].weight = weights[i];
      sample(pixels, results, points, count);
    });
  }

 private:
  static constexpr std::int64_t kPoints = PlanePoints::kMost;  // of a task: 12 KiB
  static constexpr std::int64_t kChannels = 64;                // at a time
  static constexpr std::int64_t kRows = 16;                    // points of these
  static constexpr float kZeros[kChannels] = {};

  std::size_t output_number() const { return weighted_ ? kWeights + 1 : kWeights; }
  const TensorLayout& output_layout() const { return desc().tensor(output_number()); }

  void check_weights() const {
    const TensorLayout &weights = desc().tensor(kWeights), &output = output_layout();
    if (weights.rank != 4 || weights.sizes[0] != output.sizes[0] || weights.sizes[1] != 1 ||
        weights.sizes[2] != output.sizes[2] || weights.sizes[3] != output.sizes[3]) {
      throw std::invalid_argument(desc().type + ": weights and output differ in sizes");
    }
  }

  std::int64_t points_of_image() const { return output_layout().sizes[2] * output_layout().sizes[3]; }
  std::int64_t blocks_of_image() const { return divide_up(points_of_image(), kPoints); }
  std::int64_t task_count() const { return output_layout().sizes[0] * blocks_of_image(); }
  bool channels_are_neighbours() const {
    return desc().tensor(kInput).sizes[1] > 1 && desc().tensor(kInput).strides[1] == 1;
  }

  // Brings the entries of some points together.
  void read_entries(const float* grid, std::int64_t first, std::int64_t count, float* former,
                    float* latter) const noexcept {
    const TensorLayout& layout = desc().tensor(kGrid);
    const std::int64_t width = layout.sizes[2];
    for (std::int64_t i = 0, row = first / width, column = first % width; i < count; ++row, column = 0) {
      const float* entry = grid + row * layout.strides[1] + column * layout.strides[2];
      for (; column < width && i < count; ++column, ++i, entry += layout.strides[2]) {
        former[i] = entry[0];
        latter[i] = entry[layout.strides[3]];
      }
    }
  }

  void read_weights(const float* weights, std::int64_t image, std::int64_t first, std::int64_t count,
                    float* read) const noexcept {
    const TensorLayout& layout = desc().tensor(kWeights);
    const std::int64_t width = layout.sizes[3];
    const float* const plane = weights + image * layout.strides[0];
    for (std::int64_t i = 0, row = first / width, column = first % width; i < count; ++row, column = 0) {
      const float* weight = plane + row * layout.strides[2] + column * layout.strides[3];
      for (; column < width && i < count; ++column, ++i, weight += layout.strides[3]) read[i] = *weight;
    }
  }

  void find_places(const float* grid, std::int64_t first, std::int64_t count, float* x, float* y) const noexcept {
    const bool rows_first = places_.coordinates == Coordinates::in_pixels;
    read_entries(grid, first, count, rows_first ? y : x, rows_first ? x : y);
    places_.find(desc().tensor(kInput).sizes[3], as_size(count), x);
    places_.find(desc().tensor(kInput).sizes[2], as_size(count), y);
  }

  void find_points(const float* x, const float* y, std::int64_t first, std::int64_t count,
                   Point* points) const noexcept {
    const TensorLayout &input = desc().tensor(kInput), &output = output_layout();
    std::int64_t row = first / output.sizes[3], column = first % output.sizes[3];
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t left = whole_of(x[i]), top = whole_of(y[i]);
      const std::int64_t columns[2] = {pixel(left, input.sizes[3], input.strides[3]),
                                       pixel(left + 1, input.sizes[3], input.strides[3])};
      const std::int64_t rows[2] = {pixel(top, input.sizes[2], input.strides[2]),
                                    pixel(top + 1, input.sizes[2], input.strides[2])};
      Point& point = points[i];
      point.across = beyond(x[i], left);
      point.down = beyond(y[i], top);
      point.output = row * output.strides[2] + column * output.strides[3];
      for (std::size_t v = 0; v < 2; ++v) {
        for (std::size_t u = 0; u < 2; ++u) {
          point.pixels[v][u] = rows[v] < 0 || columns[u] < 0 ? kOutside : rows[v] + columns[u];
        }
      }
      if (++column == output.sizes[3]) column = 0, ++row;
    }
  }

  // The offset of a row's or a column's number along an axis.
  std::int64_t pixel(std::int64_t number, std::int64_t size, std::int64_t stride) const noexcept {
    if (places_.border) number = std::min(number, size - 1);
    return number >= 0 && number < size ? number * stride : kOutside;
  }

  // Of as many channels as are asked for, which are neighbours in the input.
  void values(const float* input, const Point& point, std::int64_t channels, float* results) const noexcept {
    const auto at = [&](std::size_t v, std::size_t u) noexcept {
      return point.pixels[v][u] == kOutside ? kZeros : input + point.pixels[v][u];
    };
    const float *p00 = at(0, 0), *p01 = at(0, 1), *p10 = at(1, 0), *p11 = at(1, 1);
    if (!places_.linear) {
      std::copy_n(p00, channels, results);
    } else {
      interpolate(p00, p01, p10, p11, point, channels, results);
    }
    if (!weighted_) return;
    for (std::int64_t c = 0; c < channels; ++c) results[c] *= point.weight;
  }

  static void interpolate(const float* p00, const float* p01, const float* p10, const float* p11, const Point& point,
                          std::int64_t channels, float* results) noexcept {
    const float u = point.across, v = point.down, other_u = 1.0F - u, other_v = 1.0F - v;
    for (std::int64_t c = 0; c < channels; ++c) {
      results[c] = other_v * (other_u * p00[c] + u * p01[c]) + v * (other_u * p10[c] + u * p11[c]);
    }
  }

  // Of some points and channels. Where the points are neighbours in the output and the channels are not, they are
  // turned round, so that cache lines are written whole.
  void sample_rows(const float* input, const Point* points, std::int64_t rows, std::int64_t channels,
                   float* output) const noexcept {
    const TensorLayout& layout = output_layout();
    const std::int64_t step = layout.strides[1];
    if (step == 1) {
      for (std::int64_t i = 0; i < rows; ++i) values(input, points[i], channels, output + points[i].output);
      return;
    }
    float results[kRows * kChannels];
    for (std::int64_t i = 0; i < rows; ++i) values(input, points[i], channels, results + i * channels);
    const bool along_rows = layout.strides[3] == 1 || layout.sizes[3] == 1;
    if (along_rows && points[rows - 1].output - points[0].output == rows - 1) {
      transpose_elements(*target().kernels().pack, sizeof(float), results, channels, rows, channels,
                         output + points[0].output, step);
      return;
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      float* target = output + points[i].output;
      for (std::int64_t c = 0; c < channels; ++c) target[c * step] = results[i * channels + c];
    }
  }

  void sample(const float* input, float* output, const Point* points, std::int64_t count) const noexcept {
    const std::int64_t channels = desc().tensor(kInput).sizes[1];
    const std::int64_t input_step = desc().tensor(kInput).strides[1], output_step = output_layout().strides[1];
    if (channels_are_neighbours()) {
      for (std::int64_t first = 0; first < channels; first += kChannels) {
        const std::int64_t together = std::min(kChannels, channels - first);
        for (std::int64_t i = 0; i < count; i += kRows) {
          sample_rows(input + first, points + i, std::min(kRows, count - i), together, output + first * output_step);
        }
      }
      return;
    }
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t i = 0; i < count; ++i) {
        values(input + c * input_step, points[i], 1, output + points[i].output + c * output_step);
      }
    }
  }

  void sample_planes(const float* input, const float* x, const float* y, std::int64_t first, std::int64_t count,
                     const float* weights, float* output) const noexcept {
    const TensorLayout &images = desc().tensor(kInput), &results = output_layout();
    const PlaneSizes sizes = {static_cast<std::int32_t>(images.sizes[2]), static_cast<std::int32_t>(images.sizes[3]),
                              images.strides[2]};
    PlanePoints points;
    if (places_.linear) {
      points.find(sizes, x, y, as_size(count), places_.border);
    } else {
      points.find_nearest(sizes, x, y, as_size(count));
    }
    const std::int64_t width = results.sizes[3], row = first / width, column = first % width;
    const bool are_neighbours = results.strides[3] == 1 && (results.strides[2] == width || column + count <= width);
    float* target = output + row * results.strides[2] + column * results.strides[3];
    for (std::int64_t c = 0; c < images.sizes[1]; ++c) {
      float apart[kPoints];
      float* const together = are_neighbours ? target + c * results.strides[1] : apart;
      const float* const plane = input + c * images.strides[1];
      places_.linear ? points.interpolate(plane, together) : points.look_up(plane, together);
      for (std::int64_t i = 0; i < count && weighted_; ++i) together[i] *= weights[i];
      if (!are_neighbours) spread(apart, row, column, count, output + c * results.strides[1]);
    }
  }

  // Brings results that are together to their places in a plane of the output.
  void spread(const float* results, std::int64_t row, std::int64_t column, std::int64_t count,
              float* plane) const noexcept {
    const TensorLayout& layout = output_layout();
    for (std::int64_t i = 0; i < count; ++row, column = 0) {
      float* target = plane + row * layout.strides[2];
      for (; column < layout.sizes[3] && i < count; ++column, ++i) target[column * layout.strides[3]] = results[i];
    }
  }

  bool weighted_;
  GridPlaces places_;
  bool in_planes_ = false;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_grid_sample(OperatorDesc desc, ExecutionTarget target) {
  if (desc.type == "GRID_SAMPLE" && desc.tensor(kInput).rank == 5)
    return compile_volume_sample(std::move(desc), target);
  return std::make_unique<GridSample>(std::move(desc), target);
}

}  // namespace dmlcpu
