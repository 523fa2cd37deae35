// QUANTIZED_LINEAR_AVERAGE_POOLING: tensors input, input scale, input zero point, output scale, output zero point,
// output. Channels are the lanes of the kernels. A task walks down output rows of one strip of channels; where input
// rows are staged (see pooling_plan.h), those that the next band of rows reads as well are kept.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "operators/buffer_layout.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/pooling/pixel_rows.h"
#include "operators/pooling/pooling_plan.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kInputScale, kInputZeroPoint, kOutputScale, kOutputZeroPoint, kOutput };

struct Dispatch {
  const std::uint8_t* input;
  std::uint8_t* output;
  PoolParameters parameters;
  std::uint8_t flip;
};

// One task: output rows of one slice, of the channels [channel, channel + channels).
struct Task {
  std::int64_t image, depth, channel, channels;
  std::int64_t first_row, end_row;
};

// Input elements as a kernel finds them: the one at the origin, by position, and the steps along the axes.
template <class Element>
struct Source {
  const Element* data;
  std::int64_t origin[3];
  std::int64_t steps[3];
};

class QuantizedLinearAveragePooling final : public CompiledOperator {
 public:
  QuantizedLinearAveragePooling(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        geometry_(pooling_geometry(desc(), desc().tensor(kInput), desc().tensor(kOutput))),
        plan_(geometry_, target().kernels().pool->least_plane, target().num_threads) {
    check_parameters();
    BufferLayout own;
    const std::int64_t slice = plan_.staged_rows * geometry_.axes[2].input * plan_.pixel_step;
    const bool transposes_input = geometry_.input_channel_step != 1;
    transposed_ = own.take(as_size(transposes_input || !plan_.stages_values ? slice : 0),
                           as_size(plan_.stages_values ? 1 : plan_.staged_slices));
    values_ = own.take(as_size(plan_.stages_values ? slice : 0), as_size(plan_.staged_slices) * sizeof(float));
    results_ = own.take(as_size(plan_.stages_output ? plan_.band_rows : 0),
                        as_size(geometry_.axes[2].output * plan_.pixel_step));
    participant_size_ = own.size();
    participants_ = static_cast<std::size_t>(
        std::min<std::int64_t>(plan_.task_count(geometry_), static_cast<std::int64_t>(target().num_threads)));
    BufferLayout layout;
    parameters_ = layout.take(prepares_once() ? 0 : as_size(plan_.lanes), kParameterBytes);
    participant_ = layout.take(participants_, participant_size_);
    scratch_size_ = layout.size();
  }

  std::size_t temporary_size() const override { return scratch_size_; }
  std::string describe() const override {
    return "algorithm: windows of channels\nkernel: " + kernel_words(target(), "pool") + "\n" + plan_.describe() +
           ", on " + counted(static_cast<std::int64_t>(participants_), "thread");
  }

 protected:
  std::size_t prepared_size() const override { return prepares_once() ? as_size(plan_.lanes) * kParameterBytes : 0; }
  void prepare_owned(const TensorPointers& owned, std::uint8_t* prepared) const override {
    if (prepares_once()) prepare(owned, reinterpret_cast<float*>(prepared));
  }
  TensorSet prepared_only() const override { return prepares_once() ? prepared_tensors() : TensorSet{}; }

  void run(const TensorPointers& tensors) const override {
    std::uint8_t* scratch = thread_scratch(scratch_size_);
    const Dispatch dispatch = {.input = static_cast<const std::uint8_t*>(tensors[kInput]),
                               .output = static_cast<std::uint8_t*>(tensors[kOutput]),
                               .parameters = prepares_once()
                                                 ? parameters_at(reinterpret_cast<const float*>(prepared()))
                                                 : prepare(tensors, reinterpret_cast<float*>(scratch + parameters_)),
                               .flip = offset_flip(desc().tensor(kInput).type)};
    const auto tasks = as_size(plan_.task_count(geometry_));
    parallel_for(tasks, target().num_threads, [&](std::size_t index, int slot) noexcept {
      run_task(dispatch, task(static_cast<std::int64_t>(index)),
               scratch + participant_ + as_size(slot) * participant_size_);
    });
  }

 private:
  static constexpr std::size_t kParameterBytes = 4 * sizeof(float);  // of a lane

  void check_parameters() const;
  TensorSet prepared_tensors() const { return present({kInputScale, kInputZeroPoint, kOutputScale, kOutputZeroPoint}); }
  bool prepares_once() const { return all_owned(prepared_tensors()); }
  PoolParameters prepare(const TensorPointers& tensors, float* values) const;
  PoolParameters parameters_at(const float* values) const {
    const std::size_t lanes = as_size(plan_.lanes);
    return {values, values + lanes, values + 2 * lanes, values + 3 * lanes};
  }
  void fill_parameter(const TensorPointers& tensors, Tensor tensor, float* values) const;
  void fill_zero_points(const TensorPointers& tensors, Tensor tensor, float* values) const;  // in the offset domain

  Task task(std::int64_t index) const;
  void average_planes(const Dispatch& dispatch, const Task& task) const noexcept;
  PoolParameters parameters_of(const Dispatch& dispatch, const Task& task) const;
  void run_task(const Dispatch& dispatch, const Task& task, std::uint8_t* own) const noexcept;
  void stage(const Dispatch& dispatch, const Task& task, IndexRange rows, std::int64_t first_row,
             std::uint8_t* own) const noexcept;
  void keep_rows(IndexRange held, std::int64_t first_row, std::uint8_t* own) const noexcept;
  template <class Element>
  void run_row(const Dispatch& dispatch, const Task& task, const Source<Element>& source, std::int64_t row,
               std::uint8_t* output, std::int64_t output_step) const noexcept;

  void average(const PoolRun<std::uint8_t>& run) const noexcept { target().kernels().pool->average_codes(run); }
  void average(const PoolRun<float>& run) const noexcept { target().kernels().pool->average_values(run); }

  // Elements of a staged row and of a staged slice of rows.
  std::int64_t row_elements() const { return geometry_.axes[2].input * plan_.pixel_step; }
  std::int64_t slice_elements() const { return plan_.staged_rows * row_elements(); }

  PoolingGeometry geometry_;
  PoolingPlan plan_;
  // Offsets into a participant's scratch memory, and into all of it.
  std::size_t transposed_ = 0, values_ = 0, results_ = 0, participant_size_ = 0;
  std::size_t parameters_ = 0, participant_ = 0, participants_ = 1, scratch_size_ = 0;
};

void QuantizedLinearAveragePooling::check_parameters() const {
  for (const std::size_t index : {kInputScale, kOutputScale}) desc().tensor(index);
  for (const std::size_t index : {kInputScale, kInputZeroPoint, kOutputScale, kOutputZeroPoint}) {
    const std::optional<TensorLayout>& layout = desc().tensors.at(index);
    if (!layout) continue;
    const std::int64_t channels = layout->sizes[1];
    const bool is_zero_point = index == kInputZeroPoint || index == kOutputZeroPoint;
    if (layout->rank != desc().tensor(kInput).rank || layout->element_count() != channels ||
        (channels != 1 && channels != geometry_.channels) ||
        (is_zero_point && layout->type != desc().tensor(kInput).type)) {
      throw std::invalid_argument(desc().type + ": a parameter is neither of one element nor one a channel");
    }
  }
}

void QuantizedLinearAveragePooling::fill_parameter(const TensorPointers& tensors, Tensor tensor, float* values) const {
  const std::optional<TensorLayout>& layout = desc().optional_tensor(tensor);
  if (!layout || layout->sizes[1] == 1) {
    std::fill_n(values, plan_.lanes, layout ? value_as_float(tensors[tensor], layout->type) : 0.0F);
    return;
  }
  gather_as_float(tensors[tensor], layout->type, layout->strides[1], as_size(geometry_.channels), values);
  for (std::int64_t lane = geometry_.channels; lane < plan_.lanes; ++lane) {
    values[lane] = values[lane - geometry_.channels];
  }
}

void QuantizedLinearAveragePooling::fill_zero_points(const TensorPointers& tensors, Tensor tensor,
                                                     float* values) const {
  fill_parameter(tensors, tensor, values);
  const float offset = offset_flip(desc().tensor(kInput).type);
  for (std::int64_t lane = 0; lane < plan_.lanes; ++lane) values[lane] += offset;
}

PoolParameters QuantizedLinearAveragePooling::prepare(const TensorPointers& tensors, float* values) const {
  const auto lanes = as_size(plan_.lanes);
  fill_zero_points(tensors, kInputZeroPoint, values);
  fill_parameter(tensors, kInputScale, values + lanes);
  fill_parameter(tensors, kOutputScale, values + 2 * lanes);
  fill_zero_points(tensors, kOutputZeroPoint, values + 3 * lanes);
  return parameters_at(values);
}

Task QuantizedLinearAveragePooling::task(std::int64_t index) const {
  const std::int64_t first_row = index % plan_.tasks_of_slice * plan_.task_rows;
  const std::int64_t slice = index / plan_.tasks_of_slice;
  const std::int64_t channel = slice % plan_.strips * plan_.strip_channels, depth = slice / plan_.strips;
  return {.image = depth / geometry_.axes[0].output,
          .depth = depth % geometry_.axes[0].output,
          .channel = channel,
          .channels = std::min(plan_.strip_channels, geometry_.channels - channel),
          .first_row = first_row,
          .end_row = std::min(first_row + plan_.task_rows, geometry_.axes[1].output)};
}

PoolParameters QuantizedLinearAveragePooling::parameters_of(const Dispatch& dispatch, const Task& task) const {
  const PoolParameters& all = dispatch.parameters;
  return {all.input_zero_point + task.channel, all.input_scale + task.channel, all.output_scale + task.channel,
          all.output_zero_point + task.channel};
}

void QuantizedLinearAveragePooling::run_task(const Dispatch& dispatch, const Task& task,
                                             std::uint8_t* own) const noexcept {
  if (plan_.whole_planes) return average_planes(dispatch, task);
  const PoolingAxis &depth = geometry_.axes[0], &height = geometry_.axes[1], &width = geometry_.axes[2];
  const std::uint8_t* input =
      dispatch.input + task.image * geometry_.input_image_step + task.channel * geometry_.input_channel_step;
  std::uint8_t* output = dispatch.output + task.image * geometry_.output_image_step +
                         task.channel * geometry_.output_channel_step + task.depth * depth.output_step;
  const std::int64_t first_slice = depth.positions(task.depth, task.depth + 1).begin;
  IndexRange held{0, 0};  // input rows that are staged
  for (std::int64_t row = task.first_row; row < task.end_row; row += plan_.band_rows) {
    const std::int64_t end = std::min(row + plan_.band_rows, task.end_row);
    const IndexRange needed = height.positions(row, end);
    if (plan_.stages_input) {
      if (held.begin <= needed.begin && needed.begin < held.end) {
        keep_rows({needed.begin, held.end}, held.begin, own);
        stage(dispatch, task, {held.end, needed.end}, needed.begin, own);
      } else {
        stage(dispatch, task, needed, needed.begin, own);
      }
      held = needed;
    }
    for (std::int64_t i = row; i < end; ++i) {
      std::uint8_t* result = output + i * height.output_step;
      std::int64_t result_step = width.output_step;
      if (plan_.stages_output) {
        result = own + results_ + (i - row) * width.output * plan_.pixel_step;
        result_step = plan_.pixel_step;
      }
      const std::int64_t staged_steps[3] = {slice_elements(), row_elements(), plan_.pixel_step};
      const auto staged = [&]<class Element>(const Element* data) {
        return Source<Element>{
            data, {first_slice, needed.begin, 0}, {staged_steps[0], staged_steps[1], staged_steps[2]}};
      };
      if (plan_.stages_values) {
        run_row(dispatch, task, staged(reinterpret_cast<const float*>(own + values_)), i, result, result_step);
      } else if (plan_.stages_input) {
        run_row(dispatch, task, staged(static_cast<const std::uint8_t*>(own + transposed_)), i, result, result_step);
      } else {
        const Source<std::uint8_t> in_place = {
            input, {0, 0, 0}, {depth.input_step, height.input_step, width.input_step}};
        run_row(dispatch, task, in_place, i, result, result_step);
      }
    }
    if (plan_.stages_output) {
      scatter_pixels({.channels = task.channels,
                      .channel_step = geometry_.output_channel_step,
                      .rows = end - row,
                      .row_step = height.output_step,
                      .columns = width.output,
                      .column_step = width.output_step},
                     *target().kernels().pack, own + results_, plan_.pixel_step, output + row * height.output_step);
    }
  }
}

void QuantizedLinearAveragePooling::average_planes(const Dispatch& dispatch, const Task& task) const noexcept {
  const std::int64_t taps = geometry_.axes[0].input * geometry_.axes[1].input * geometry_.axes[2].input;
  target().kernels().pool->average_planes(
      {.input = dispatch.input + task.image * geometry_.input_image_step + task.channel * geometry_.input_channel_step,
       .channel_step = as_size(geometry_.input_channel_step),
       .taps = as_size(taps),
       .count = geometry_.divisor(taps),
       .channels = as_size(task.channels),
       .parameters = parameters_of(dispatch, task),
       .flip = dispatch.flip,
       .output = dispatch.output + task.image * geometry_.output_image_step + task.channel});
}

// Moves staged rows to the front, where the first one of them belongs now.
void QuantizedLinearAveragePooling::keep_rows(IndexRange rows, std::int64_t first_row,
                                              std::uint8_t* own) const noexcept {
  const std::size_t element = plan_.stages_values ? sizeof(float) : 1;
  std::uint8_t* staged = own + (plan_.stages_values ? values_ : transposed_);
  const std::size_t row_bytes = as_size(row_elements()) * element;
  for (std::int64_t slice = 0; slice < plan_.staged_slices; ++slice, staged += as_size(slice_elements()) * element) {
    std::memmove(staged, staged + as_size(rows.begin - first_row) * row_bytes, as_size(rows.count()) * row_bytes);
  }
}

// Input rows, of which first_row stands at the front.
void QuantizedLinearAveragePooling::stage(const Dispatch& dispatch, const Task& task, IndexRange rows,
                                          std::int64_t first_row, std::uint8_t* own) const noexcept {
  const PoolingAxis &depth = geometry_.axes[0], &height = geometry_.axes[1], &width = geometry_.axes[2];
  if (rows.begin >= rows.end) return;
  const IndexRange slices = depth.positions(task.depth, task.depth + 1);
  for (std::int64_t slice = slices.begin; slice < slices.end; ++slice) {
    const std::int64_t offset = (slice - slices.begin) * slice_elements() + (rows.begin - first_row) * row_elements();
    PixelRows pixels = {.channels = task.channels,
                        .channel_step = geometry_.input_channel_step,
                        .rows = rows.count(),
                        .row_step = height.input_step,
                        .columns = width.input,
                        .column_step = width.input_step};
    const std::uint8_t* codes = dispatch.input + task.image * geometry_.input_image_step +
                                task.channel * geometry_.input_channel_step + slice * depth.input_step +
                                rows.begin * height.input_step;
    if (pixels.channel_step != 1 || !plan_.stages_values) {
      std::uint8_t* transposed = own + transposed_ + (plan_.stages_values ? 0 : offset);
      gather_pixels(pixels, *target().kernels().pack, codes, plan_.pixel_step, transposed);
      if (!plan_.stages_values) continue;
      codes = transposed;
      pixels.column_step = plan_.pixel_step;
      pixels.row_step = row_elements();
    }
    const bool is_run = plan_.flat && pixels.column_step == pixels.channels;
    for (std::int64_t row = 0; row < pixels.rows; ++row) {
      target().kernels().pool->dequantize(
          {.codes = codes + row * pixels.row_step,
           .pixel_step = as_size(pixels.column_step),
           .pixels = as_size(is_run ? 1 : pixels.columns),
           .channels = as_size(is_run ? pixels.columns * pixels.channels : pixels.channels),
           .parameters = parameters_of(dispatch, task),
           .flip = dispatch.flip,
           .values = reinterpret_cast<float*>(own + values_) + offset + row * row_elements(),
           .value_pixel_step = as_size(plan_.pixel_step)});
    }
  }
}

// One output row: the windows that lie inside of the image together, those at its sides one by one.
template <class Element>
void QuantizedLinearAveragePooling::run_row(const Dispatch& dispatch, const Task& task, const Source<Element>& source,
                                            std::int64_t row, std::uint8_t* output,
                                            std::int64_t output_step) const noexcept {
  const PoolingAxis* axes = geometry_.axes;
  const std::int64_t indices[2] = {task.depth, row};
  PoolRun<Element> run = {.input = source.data,
                          .taps = {},
                          .tap_steps = {},
                          .count = 0.0F,
                          .pixels = 1,
                          .pixel_step = as_size(axes[2].stride * source.steps[2]),
                          .channels = as_size(task.channels),
                          .parameters = parameters_of(dispatch, task),
                          .flip = dispatch.flip,
                          .output = output,
                          .output_pixel_step = as_size(output_step)};
  std::int64_t taps = 1, offset = 0;
  for (std::size_t i = 0; i < 3; ++i) run.tap_steps[i] = as_size(axes[i].dilation * source.steps[i]);
  for (std::size_t i = 0; i < 2; ++i) {
    const IndexRange inside = axes[i].taps(indices[i]);
    run.taps[i] = as_size(inside.count());
    taps *= inside.count();
    if (inside.end > inside.begin) {
      offset += (axes[i].position(indices[i], inside.begin) - source.origin[i]) * source.steps[i];
    }
  }
  const IndexRange whole = axes[2].whole_windows();
  for (std::int64_t column = 0; column < axes[2].output;) {
    const IndexRange inside = axes[2].taps(column);
    const std::int64_t pixels = column == whole.begin && whole.begin < whole.end ? whole.count() : 1;
    run.taps[2] = as_size(inside.count());
    const std::int64_t all_taps = taps * inside.count();
    if (all_taps > 0) run.input = source.data + offset + axes[2].position(column, inside.begin) * source.steps[2];
    run.count = geometry_.divisor(all_taps);
    run.output = output + column * output_step;
    run.pixels = as_size(plan_.flat ? 1 : pixels);
    run.channels = as_size(plan_.flat ? pixels * task.channels : task.channels);
    average(run);
    column += pixels;
  }
}

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_linear_average_pooling(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedLinearAveragePooling>(std::move(desc), target);
}

}  // namespace dmlcpu
