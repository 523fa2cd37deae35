// QUANTIZED_RESAMPLE: tensors input, input scale, input zero point, output scale, output zero point, output of sizes
// {N, C, H, W}; of each spatial axis, for every output index: the lower and the upper source index and the weight of
// the upper one, as the bits of a float32. Of graphs alone.
//
// If all weights are 0 and the input has the type, the scale and the zero point of the output, codes are copied: the
// arithmetic would leave all but extreme scales' codes as they are. Otherwise each source row is interpolated along its
// columns once, kept while output rows use it, and output rows are interpolated between two of these.
//
// A row has all channels where they are neighbours in both tensors, one channel otherwise. Rows with gaps between their
// pixels, as in a part of a joined tensor, pass through scratch memory.
#include <algorithm>
#include <cstring>

#include "operators/code_parameters.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/resampling/nearest_columns.h"
#include "operators/resampling/resample_taps.h"
#include "operators/sizes.h"
#include "operators/strides/strided_runs.h"
#include "operators/task_size.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kInputScale, kInputZeroPoint, kOutputScale, kOutputZeroPoint, kOutput };

constexpr CodeTensors kInputCodes = {kInput, kInputScale, kInputZeroPoint};
constexpr CodeTensors kOutputCodes = {kOutput, kOutputScale, kOutputZeroPoint};

// The same taps for every element of a row of pixels of several channels: lower and upper become places in the row.
Taps spread_over_channels(const Taps& taps, std::int32_t channels, bool each_element) {
  Taps spread;
  for (std::size_t i = 0; i < taps.weight.size(); ++i) {
    for (std::int32_t c = 0; c < (each_element ? channels : 1); ++c) {
      spread.lower.push_back(taps.lower[i] * channels + c);
      spread.upper.push_back(taps.upper[i] * channels + c);
      spread.weight.push_back(taps.weight[i]);
    }
  }
  return spread;
}

// Rows of a tensor, in elements: those of plane p begin at p / channels * image + p % channels * channel; pixels are
// pixel apart, without gaps where dense.
struct Planes {
  std::int64_t image, channel, row, pixel;
  bool dense;
};

class QuantizedResample final : public CompiledOperator {
 public:
  QuantizedResample(OperatorDesc&& operator_desc, ExecutionTarget execution_target);

  std::string describe() const override {
    return std::string("algorithm: ") + (nearest_ ? "copies where the parameters are equal, otherwise " : "") +
           "columns, then rows\nkernels: " + kernel_words(target(), "dequantize") + ", " +
           kernel_words(target(), "resample") + "\nrows: " + std::to_string(row_count()) + " of " +
           std::to_string(output_row_) + " elements, " + (whole_pixels_ ? "of all channels" : "of one channel") +
           (input_.dense && output_.dense ? "" : ", through scratch memory") + "\n" +
           tasks_line(task_count(), participants());
  }

  std::size_t temporary_size() const override { return scratch_size() * as_size(participants()); }

 protected:
  void run(const TensorPointers& tensors) const override;

 private:
  // What one dispatch works with.
  struct Job {
    const std::uint8_t* input;
    std::uint8_t* output;
    CodeParameters input_parameters, output_parameters;
    bool copies;
  };

  // The first elements of one plane.
  struct Plane {
    std::int64_t number;
    const std::uint8_t* input;
    std::uint8_t* output;
  };

  // The scratch memory of one participant, and which source rows it holds.
  struct Rows {
    float* source;              // one input row, code minus zero point
    float* interpolated[2];     // along the columns, of source rows
    std::int64_t held[2];       // these rows, counted over all planes; -1 for none
    std::uint8_t* input_codes;  // one row of each, where pixels have gaps between them
    std::uint8_t* output_codes;
  };

  static constexpr std::size_t kMinimumChannels = 16;  // of pixels that are interpolated by runs

  std::int64_t row_count() const { return planes_ * output_height_; }
  // As many as may be: each task interpolates two rows of the input anew that the one before has.
  std::int64_t rows_of_task() const {
    const auto most = static_cast<std::int64_t>(kMostElementsOfTask / output_row_);
    return std::max<std::int64_t>(1, std::min(most, divide_up(row_count(), target().num_threads)));
  }
  std::int64_t task_count() const { return divide_up(row_count(), rows_of_task()); }
  int participants() const { return static_cast<int>(std::min<std::int64_t>(task_count(), target().num_threads)); }
  // Whole cache lines.
  std::size_t input_floats() const { return (input_row_ + 15) / 16 * 16; }
  std::size_t output_floats() const { return (output_row_ + 15) / 16 * 16; }
  std::size_t scratch_size() const { return 5 * input_floats() + 9 * output_floats() + 64; }
  Rows rows_in(std::uint8_t* scratch) const;

  Plane plane_of(const Job& job, std::int64_t plane) const {
    const std::int64_t image = plane / channels_, channel = plane % channels_;
    return {plane, job.input + image * input_.image + channel * input_.channel,
            job.output + image * output_.image + channel * output_.channel};
  }
  const std::uint8_t* input_row(const Plane& plane, std::int64_t row, Rows& rows) const;
  void copy_pixels(const std::uint8_t* source, std::int64_t source_step, std::uint8_t* target, std::int64_t target_step,
                   std::size_t row) const;
  std::int64_t rows_in_order(std::int64_t row, std::int64_t limit) const;
  std::size_t hold(const Job& job, const Plane& plane, std::int64_t row, std::int64_t kept, Rows& rows) const;
  void interpolate_row(const Job& job, const Plane& plane, std::int64_t row, Rows& rows, std::uint8_t* output) const;

  void run_rows(const Job& job, std::int64_t begin, std::int64_t end, Rows& rows) const;

  bool nearest_ = false, whole_pixels_ = false;
  std::int64_t input_height_ = 0, output_height_ = 0;
  std::int64_t planes_ = 0, channels_ = 0;      // planes are images, of one channel, where pixels are whole
  std::size_t pixel_ = 1;                       // neighbours that are one pixel of a row
  std::size_t input_row_ = 0, output_row_ = 0;  // elements
  std::size_t run_ = 1;                         // elements that each entry of columns_ covers
  bool rows_follow_ = false;                    // in both tensors, and have the same columns
  Planes input_{}, output_{};
  Taps rows_, columns_;
  NearestColumns nearest_columns_;  // of columns_
};

QuantizedResample::QuantizedResample(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
    : CompiledOperator(std::move(operator_desc), execution_target) {
  check_code_parameters(desc(), kInputCodes);
  check_code_parameters(desc(), kOutputCodes);
  const TensorLayout &input = desc().tensor(kInput), &output = desc().tensor(kOutput);
  check_resampled_images(desc(), input, output);
  rows_ = row_taps(desc(), input, output);
  columns_ = column_taps(desc(), input, output);
  // A row of weight 0 changes nothing: all values are finite, and top + 0 is top, which is never -0.
  for (std::size_t i = 0; i < rows_.weight.size(); ++i) {
    if (rows_.weight[i] == 0.0F) rows_.upper[i] = rows_.lower[i];
  }
  nearest_ = rows_.nearest() && columns_.nearest();
  input_height_ = input.sizes[2];
  output_height_ = output.sizes[2];

  const std::int64_t channels = input.sizes[1];
  // A row's elements are all in memory, so that their count is in range.
  whole_pixels_ = channels > 1 && input.strides[1] == 1 && output.strides[1] == 1 &&
                  (input.sizes[3] == 1 || input.strides[3] >= channels) &&
                  std::max(input.sizes[3], output.sizes[3]) <= INT32_MAX / channels;
  const std::int64_t row_channels = whole_pixels_ ? channels : 1;
  channels_ = whole_pixels_ ? 1 : channels;
  planes_ = input.sizes[0] * channels_;
  input_row_ = as_size(input.sizes[3] * row_channels);
  output_row_ = as_size(output.sizes[3] * row_channels);
  pixel_ = as_size(row_channels);
  const auto planes_of = [&](const TensorLayout& tensor) {
    const bool dense = tensor.sizes[3] == 1 || tensor.strides[3] == row_channels;
    return Planes{tensor.strides[0], tensor.strides[1], tensor.strides[2], tensor.strides[3], dense};
  };
  input_ = planes_of(input);
  output_ = planes_of(output);
  if (whole_pixels_) {
    const bool each_element = as_size(channels) < kMinimumChannels;
    run_ = each_element ? 1 : as_size(channels);
    columns_ = spread_over_channels(columns_, static_cast<std::int32_t>(channels), each_element);
  }
  nearest_columns_ = NearestColumns(columns_.lower, run_);
  rows_follow_ = input_row_ == output_row_ && nearest_columns_.in_order() && input_.dense && output_.dense &&
                 input_.row == static_cast<std::int64_t>(input_row_) && output_.row == input_.row;
}

QuantizedResample::Rows QuantizedResample::rows_in(std::uint8_t* scratch) const {
  auto* floats = reinterpret_cast<float*>(scratch);
  float* const interpolated = floats + input_floats();
  auto* const codes = reinterpret_cast<std::uint8_t*>(interpolated + 2 * output_floats());
  return {.source = floats,
          .interpolated = {interpolated, interpolated + output_floats()},
          .held = {-1, -1},
          .input_codes = codes,
          .output_codes = codes + input_floats()};
}

// Copies a row of so many elements between pixels that are other distances apart.
void QuantizedResample::copy_pixels(const std::uint8_t* __restrict source, std::int64_t source_step,
                                    std::uint8_t* __restrict target, std::int64_t target_step, std::size_t row) const {
  const auto count = static_cast<std::int64_t>(row / pixel_);
  if (pixel_ == 1) {
    for (std::int64_t i = 0; i < count; ++i) target[i * target_step] = source[i * source_step];
  } else {
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(target + i * target_step, source + i * source_step, pixel_);
  }
}

const std::uint8_t* QuantizedResample::input_row(const Plane& plane, std::int64_t row, Rows& rows) const {
  const std::uint8_t* first = plane.input + row * input_.row;
  if (input_.dense) return first;
  copy_pixels(first, input_.pixel, rows.input_codes, static_cast<std::int64_t>(pixel_), input_row_);
  return rows.input_codes;
}

// Rows from this one on, at most limit, that are one copy: a whole row of the source each, and one after the other
// there.
std::int64_t QuantizedResample::rows_in_order(std::int64_t row, std::int64_t limit) const {
  if (!rows_follow_) return 1;
  const std::int32_t* source = rows_.lower.data() + row;
  std::int64_t count = 1;
  while (count < limit && source[count] == source[count - 1] + 1) ++count;
  return count;
}

// Makes one of the two interpolated rows that of a source row, unless one is, and returns which. That of row kept
// stays.
std::size_t QuantizedResample::hold(const Job& job, const Plane& plane, std::int64_t row, std::int64_t kept,
                                    Rows& rows) const {
  const std::int64_t wanted = plane.number * input_height_ + row;
  for (std::size_t i = 0; i < 2; ++i) {
    if (rows.held[i] == wanted) return i;
  }
  const std::size_t place = rows.held[0] == plane.number * input_height_ + kept ? 1 : 0;
  const bool is_signed = desc().tensor(kInput).type == DataType::int8;
  const DequantizeToFloat& dequantize = target().kernels().dequantize->to_float32;
  const float one = 1.0F, zero_point = job.input_parameters.zero_point - job.input_parameters.flip;
  (is_signed ? dequantize.int8 : dequantize.uint8)({.input = input_row(plane, row, rows),
                                                    .output = rows.source,
                                                    .count = input_row_,
                                                    .scale = &one,
                                                    .zero_point = &zero_point,
                                                    .per_element = false});
  target().kernels().resample->columns({.input = rows.source,
                                        .lower = columns_.lower.data(),
                                        .upper = columns_.upper.data(),
                                        .weight = columns_.weight.data(),
                                        .columns = columns_.weight.size(),
                                        .channels = run_,
                                        .output = rows.interpolated[place]});
  rows.held[place] = wanted;
  return place;
}

void QuantizedResample::interpolate_row(const Job& job, const Plane& plane, std::int64_t row, Rows& rows,
                                        std::uint8_t* output) const {
  const std::int64_t lower = rows_.lower[as_size(row)], upper = rows_.upper[as_size(row)];
  const std::size_t top = hold(job, plane, lower, upper, rows), bottom = hold(job, plane, upper, lower, rows);
  target().kernels().resample->rows({.top = rows.interpolated[top],
                                     .bottom = rows.interpolated[bottom],
                                     .weight = rows_.weight[as_size(row)],
                                     .count = output_row_,
                                     .input_scale = job.input_parameters.scale,
                                     .output_scale = job.output_parameters.scale,
                                     .output_zero_point = job.output_parameters.zero_point,
                                     .output_flip = job.output_parameters.flip,
                                     .output = output});
}

// Output rows [begin, end), counted over all planes.
void QuantizedResample::run_rows(const Job& job, std::int64_t begin, std::int64_t end, Rows& rows) const {
  const std::uint8_t* last_output = nullptr;  // the row before, where it is a copy of the same source row
  std::int64_t last_source = -1;
  Plane plane = plane_of(job, begin / output_height_);
  for (std::int64_t i = begin, row = begin % output_height_; i < end; ++i, ++row) {
    if (row == output_height_) {
      plane = plane_of(job, plane.number + 1);
      row = 0;
      last_source = -1;
    }
    std::uint8_t* const first = plane.output + row * output_.row;
    std::uint8_t* const output = output_.dense ? first : rows.output_codes;
    const std::int64_t source = rows_.lower[as_size(row)];
    if (!job.copies) {
      interpolate_row(job, plane, row, rows, output);
    } else if (source == last_source) {
      if (output_.dense) std::memmove(output, last_output, output_row_);
    } else if (const std::int64_t count = rows_in_order(row, std::min(end - i, output_height_ - row)); count > 1) {
      std::memcpy(output, plane.input + source * input_.row, as_size(count) * output_row_);
      i += count - 1;
      row += count - 1;
      last_source = source + count - 1;
      last_output = output + (count - 1) * output_.row;
      continue;
    } else {
      nearest_columns_.copy(input_row(plane, source, rows), output);
    }
    last_source = source;
    last_output = output;
    if (output_.dense) continue;
    copy_pixels(output, static_cast<std::int64_t>(pixel_), first, output_.pixel, output_row_);
  }
}

void QuantizedResample::run(const TensorPointers& tensors) const {
  const CodeParameters input = code_parameters(desc(), tensors, kInputCodes);
  const CodeParameters output = code_parameters(desc(), tensors, kOutputCodes);
  const Job job = {.input = static_cast<const std::uint8_t*>(tensors[kInput]),
                   .output = static_cast<std::uint8_t*>(tensors[kOutput]),
                   .input_parameters = input,
                   .output_parameters = output,
                   .copies = nearest_ && input.flip == output.flip && input.scale == output.scale &&
                             input.zero_point == output.zero_point};
  std::uint8_t* const scratch = thread_scratch(temporary_size());
  parallel_for(as_size(task_count()), target().num_threads, [&](std::size_t task, int slot) noexcept {
    Rows rows = rows_in(scratch + as_size(slot) * scratch_size());
    const std::int64_t begin = static_cast<std::int64_t>(task) * rows_of_task();
    run_rows(job, begin, std::min(begin + rows_of_task(), row_count()), rows);
  });
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_resample(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedResample>(std::move(desc), target);
}

}  // namespace dmlcpu
