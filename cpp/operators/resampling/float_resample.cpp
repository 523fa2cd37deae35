// FLOAT_RESAMPLE: tensors input, output, FLOAT32, of sizes {N, C, H, W}; attributes as in resample_taps. Interpolated
// between columns, then between rows: a + (b - a) * weight, each operation rounded. Of graphs alone.
//
// Each source row is interpolated along its columns once, and kept while output rows use it. A row has all channels
// where they are neighbours in both tensors, one channel otherwise.

#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/resampling/resample_taps.h"
#include "operators/sizes.h"
#include "operators/strides/strided_runs.h"
#include "operators/task_size.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kOutput };

inline float between(float a, float b, float weight) noexcept { return a + (b - a) * weight; }

class FloatResample final : public CompiledOperator {
 public:
  FloatResample(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target) {
    const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
    check_resampled_images(desc(), input, output);
    rows_ = row_taps(desc(), input, output);
    columns_ = column_taps(desc(), input, output);
    const std::int64_t channels = input.sizes[1];
    const bool whole_pixels = channels > 1 && input.strides[1] == 1 && output.strides[1] == 1;
    pixel_ = whole_pixels ? as_size(channels) : 1;
    channels_ = whole_pixels ? 1 : channels;
    row_ = columns_.weight.size() * pixel_;
    dense_ = row_ == pixel_ || output.strides[3] == static_cast<std::int64_t>(pixel_);
  }

  std::string describe() const override {
    return "algorithm: columns, then rows\nrows: " + std::to_string(row_count()) + " of " + std::to_string(row_) +
           " elements, " + (pixel_ > 1 ? "of all channels" : "of one channel") +
           (dense_ ? "" : ", through scratch memory") + "\n" + tasks_line(task_count(), participants());
  }

  std::size_t temporary_size() const override { return scratch_floats() * sizeof(float) * as_size(participants()); }

 protected:
  void run(const TensorPointers& tensors) const override {
    auto* scratch = reinterpret_cast<float*>(thread_scratch(temporary_size()));
    parallel_for(as_size(task_count()), participants(), [&](std::size_t task, int slot) noexcept {
      Rows rows = {.interpolated = {}, .held = {-1, -1}, .output = scratch + as_size(slot) * scratch_floats()};
      for (std::size_t i = 0; i < 2; ++i) rows.interpolated[i] = rows.output + (i + 1) * row_floats();
      const std::int64_t begin = static_cast<std::int64_t>(task) * rows_of_task();
      for (std::int64_t row = begin; row < std::min(begin + rows_of_task(), row_count()); ++row) {
        run_row(tensors, row, rows);
      }
    });
  }

 private:
  // The scratch memory of one participant, and which source rows it holds.
  struct Rows {
    float* interpolated[2];  // along the columns, of source rows
    std::int64_t held[2];    // these rows, counted over all planes; -1 for none
    float* output;           // a row whose pixels have gaps between them
  };

  std::int64_t output_height() const { return desc().tensor(kOutput).sizes[2]; }
  std::int64_t row_count() const { return desc().tensor(kOutput).sizes[0] * channels_ * output_height(); }
  // As many as may be: each task interpolates two rows of the input anew that the one before has.
  std::int64_t rows_of_task() const {
    const auto most = static_cast<std::int64_t>(kMostElementsOfTask / row_);
    return std::max<std::int64_t>(1, std::min(most, divide_up(row_count(), target().num_threads)));
  }
  std::int64_t task_count() const { return divide_up(row_count(), rows_of_task()); }
  int participants() const { return static_cast<int>(std::min<std::int64_t>(task_count(), target().num_threads)); }
  std::size_t row_floats() const { return (row_ + 15) / 16 * 16; }  // whole cache lines
  std::size_t scratch_floats() const { return 3 * row_floats(); }

  void run_row(const TensorPointers& tensors, std::int64_t row, Rows& rows) const noexcept {
    const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
    const std::int64_t plane = row / output_height(), image = plane / channels_, channel = plane % channels_;
    const std::size_t place = as_size(row % output_height());
    const auto* source =
        static_cast<const float*>(tensors[kInput]) + image * input.strides[0] + channel * input.strides[1];
    auto* target = static_cast<float*>(tensors[kOutput]) + image * output.strides[0] + channel * output.strides[1] +
                   static_cast<std::int64_t>(place) * output.strides[2];
    const std::int64_t first = plane * input.sizes[2];
    const std::size_t lower = hold(source, first, rows_.lower[place], first + rows_.upper[place], rows);
    const std::size_t upper = hold(source, first, rows_.upper[place], first + rows_.lower[place], rows);
    const float* __restrict a = rows.interpolated[lower];
    const float* b = rows.interpolated[upper];
    float* __restrict results = dense_ ? target : rows.output;
    const float weight = rows_.weight[place];
    for (std::size_t i = 0; i < row_; ++i) results[i] = between(a[i], b[i], weight);
    if (dense_) return;
    for (std::size_t i = 0; i < columns_.weight.size(); ++i) {
      float* to = target + static_cast<std::int64_t>(i) * output.strides[3];
      std::copy_n(rows.output + i * pixel_, pixel_, to);
    }
  }

  // Which of the two rows holds a source row of a plane, interpolated along its columns; the other one may be kept.
  std::size_t hold(const float* plane, std::int64_t first, std::int32_t row, std::int64_t kept,
                   Rows& rows) const noexcept {
    for (std::size_t i = 0; i < 2; ++i) {
      if (rows.held[i] == first + row) return i;
    }
    const std::size_t place = rows.held[0] == kept ? 1 : 0;
    const TensorLayout& input = desc().tensor(kInput);
    const float* source = plane + row * input.strides[2];
    float* results = rows.interpolated[place];
    for (std::size_t i = 0; i < columns_.weight.size(); ++i) {
      const float* a = source + columns_.lower[i] * input.strides[3];
      const float* b = source + columns_.upper[i] * input.strides[3];
      const float weight = columns_.weight[i];
      for (std::size_t c = 0; c < pixel_; ++c) results[i * pixel_ + c] = between(a[c], b[c], weight);
    }
    rows.held[place] = first + row;
    return place;
  }

  Taps rows_, columns_;
  std::size_t pixel_ = 1, row_ = 1;  // neighbours that are one pixel of a row, elements of a row
  std::int64_t channels_ = 1;        // of one image; 1 where pixels are whole
  bool dense_ = true;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_float_resample(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<FloatResample>(std::move(desc), target);
}

}  // namespace dmlcpu
