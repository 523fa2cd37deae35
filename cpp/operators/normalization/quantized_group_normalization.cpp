// QUANTIZED_GROUP_NORMALIZATION: tensors input, input scale, weight, bias, output zero point, output; attributes groups
// and epsilon, the bits of a float32. Input and output are {N, C, ...}; weight and bias are FLOAT32, one for each
// channel, in units of the output's scale. Of graphs alone.
//
// A group is C / groups neighbouring channels of an image at all its pixels. Of the mean and the factor that
// operators/normalization/code_moments.h has of it, in float64, each operation rounded once:
//
//   a = f * weight[c];    factor[c] = f32(a);    offset[c] = f32(bias[c] - mean * a)
//   y[p][c] = sat(rne(fma(code[p][c], factor[c], offset[c])) + output_zero_point)
//
// Where channels are neighbours in both tensors they are the lanes of kernels; few of them are repeated for several
// pixels. Elsewhere a channel's results are a table of 256, which its codes are looked up in.
#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>

#include "operators/attributes.h"
#include "operators/code_parameters.h"
#include "operators/normalization/code_moments.h"
#include "operators/operator.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/strided_runs.h"
#include "operators/task_size.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kInputScale, kWeight, kBias, kOutputZeroPoint, kOutput };

// The scale of what is read, the zero point of what is written.
constexpr CodeTensors kParameters = {kOutput, kInputScale, kOutputZeroPoint};

constexpr std::size_t kCodes = 256;
// Of one call of channel_moments.
constexpr std::size_t kMostPixels = std::size_t{1} << 16;

// Operand 0 is the output, 1 the input.
StridedRuns runs_of_pixels(const OperatorDesc& desc) {
  TensorLayout input = desc.tensor(kInput), output = desc.tensor(kOutput);
  if (input.rank < 2 || input.rank != output.rank || input.sizes != output.sizes) {
    throw std::invalid_argument(desc.type + ": input and output are not both {N, C, ...} of the same sizes");
  }
  // So that there is memory for everything that has a channel of an image.
  if (output.element_count() > output.span()) {
    throw std::invalid_argument(desc.type + ": elements of the output share an address");
  }
  for (TensorLayout* tensor : {&input, &output}) tensor->sizes[0] = tensor->sizes[1] = 1;
  return StridedRuns(std::array<const TensorLayout*, 2>{&output, &input});
}

// How many pixels of this many channels fill vectors of 64 lanes, without many that are left over.
std::size_t pixels_together(std::size_t channels, std::size_t most) {
  for (std::size_t pixels = 1; pixels < std::min<std::size_t>(most, 64); ++pixels) {
    const std::size_t lanes = pixels * channels, left_over = (64 - lanes % 64) % 64;
    if (left_over * 8 <= lanes) return pixels;
  }
  return std::min<std::size_t>(most, 64);
}

class QuantizedGroupNormalization final : public CompiledOperator {
 public:
  QuantizedGroupNormalization(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        runs_(runs_of_pixels(desc())),
        epsilon_(float_of_bits(desc(), "epsilon", desc().attribute("epsilon").front())),
        images_(as_size(desc().tensor(kInput).sizes[0])),
        channels_(as_size(desc().tensor(kInput).sizes[1])),
        groups_(index_attribute(desc(), "groups", channels_ + 1)) {
    check_parameters();
    // Kernels take steps forward alone.
    const auto neighbours = [&](Tensor tensor, std::size_t operand) {
      return (channels_ == 1 || desc().tensor(tensor).strides[1] == 1) && runs_.stride(operand) >= 0;
    };
    channels_last_ = neighbours(kInput, 1) && neighbours(kOutput, 0);
    const auto dense = [&](std::size_t operand) { return runs_.stride(operand) == desc_channels(); };
    together_ = channels_last_ && dense(0) && dense(1) ? pixels_together(channels_, runs_.length()) : 1;
    const double elements = runs_.elements() * static_cast<double>(channels_);
    const std::size_t pixels =
        std::max(elements_of_task(elements, target().num_threads) / channels_ / together_, std::size_t{1});
    task_pixels_ = std::min(pixels, kMostPixels) * together_;
    tasks_of_run_ = (runs_.length() + task_pixels_ - 1) / task_pixels_;
  }

  std::string describe() const override {
    const std::string pixels = std::to_string(runs_.count()) + " of " + std::to_string(runs_.length());
    return std::string("algorithm: exact moments of groups, ") +
           (channels_last_ ? "channels as lanes, pixels together: " + std::to_string(together_)
                           : "a table for each channel") +
           "\nkernel: " + kernel_words(target(), "layer_normalization") + "\nruns of pixels: " + pixels + "\n" +
           tasks_line(static_cast<std::int64_t>(task_count()), participants());
  }

  std::size_t temporary_size() const override {
    return images_ * channels_ * slots() * sizeof(CodeMoments) +
           lanes() * (2 * images_ * sizeof(float) + 2 * slots() * sizeof(std::uint32_t));
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    Memory memory{reinterpret_cast<CodeMoments*>(thread_scratch(temporary_size())), nullptr, nullptr};
    const std::size_t totals = images_ * channels_;
    memory.factors = reinterpret_cast<float*>(memory.moments + totals * slots());
    memory.sums = reinterpret_cast<std::uint32_t*>(memory.factors + 2 * images_ * lanes());
    std::fill_n(memory.moments, totals * slots(), CodeMoments{0, 0});
    const auto* input = static_cast<const std::uint8_t*>(tensors[kInput]);
    auto* output = static_cast<std::uint8_t*>(tensors[kOutput]);
    const CodeParameters parameters = code_parameters(desc(), tensors, kParameters);
    parallel_for(task_count(), target().num_threads, [&](std::size_t task, int slot) noexcept {
      channels_last_ ? add_moments(input, part_of(task), memory, as_size(slot))
                     : add_moments_of_channel(input, task, memory);
    });
    compute_factors(tensors, parameters.scale, memory);
    parallel_for(task_count(), target().num_threads, [&](std::size_t task, int) noexcept {
      channels_last_ ? normalize(input, output, part_of(task), memory, parameters)
                     : normalize_channel(input, output, task, memory, parameters);
    });
  }

 private:
  // moments: by slot, image and channel. factors: by image the factors of lanes, then their offsets. sums: by slot
  // those of lanes, then of their squares.
  struct Memory {
    CodeMoments* moments;
    float* factors;
    std::uint32_t* sums;
  };
  // Pixels of a run of an image.
  struct Part {
    std::size_t image, pixels;
    std::int64_t input_offset, output_offset;
  };

  std::int64_t desc_channels() const { return desc().tensor(kInput).sizes[1]; }
  std::uint8_t input_flip() const { return offset_flip(desc().tensor(kInput).type); }
  const LayerNormalizationKernels& kernels() const { return *target().kernels().layer_normalization; }
  std::size_t lanes() const { return channels_last_ ? channels_ * together_ : channels_; }
  std::size_t task_count() const { return images_ * (channels_last_ ? runs_.count() * tasks_of_run_ : channels_); }
  std::int64_t participants() const {
    return std::min<std::int64_t>(target().num_threads, static_cast<std::int64_t>(task_count()));
  }
  // Each task of a table has its own channel.
  std::size_t slots() const { return channels_last_ ? as_size(participants()) : 1; }

  void check_parameters() const {
    if (groups_ == 0 || channels_ % groups_ != 0) {
      throw std::invalid_argument(desc().type + ": the groups do not divide the channels");
    }
    if (channels_ / groups_ * runs_.count() * runs_.length() > kMostCodes) {
      throw std::invalid_argument(desc().type + ": groups of more than 2^23 elements");
    }
    for (const Tensor tensor : {kWeight, kBias}) {
      const TensorLayout& layout = desc().tensor(tensor);
      if (layout.rank != 1 || layout.sizes[0] != desc_channels() || layout.span() != desc_channels()) {
        throw std::invalid_argument(desc().type + ": a parameter has not one element for each channel");
      }
    }
    check_code_parameters(desc(), kParameters);
  }

  Part part_of(std::size_t task) const {
    const std::size_t run = task / tasks_of_run_ % runs_.count(), image = task / tasks_of_run_ / runs_.count();
    const std::size_t first = task % tasks_of_run_ * task_pixels_;
    const auto index = static_cast<std::int64_t>(image), pixel = static_cast<std::int64_t>(first);
    const StridedRuns::Offsets offsets = runs_.offsets(run);
    return {image, std::min(task_pixels_, runs_.length() - first),
            index * desc().tensor(kInput).strides[0] + offsets[1] + pixel * runs_.stride(1),
            index * desc().tensor(kOutput).strides[0] + offsets[0] + pixel * runs_.stride(0)};
  }

  // Calls body(codes, pixel) for the pixels of a part as kernels take them: several together, then those that are left.
  template <class Body>
  void for_each_rows(const std::uint8_t* input, const Part& part, const Body& body) const {
    const auto step = as_size(runs_.stride(1)) * together_;
    const std::size_t rows = part.pixels / together_, left = part.pixels % together_;
    const std::uint8_t* codes = input + part.input_offset;
    if (rows > 0) body(ChannelCodes{codes, step, rows, lanes(), input_flip()}, std::size_t{0});
    if (left > 0) body(ChannelCodes{codes + rows * step, step, 1, left * channels_, input_flip()}, rows * together_);
  }

  void add_moments(const std::uint8_t* input, const Part& part, const Memory& memory, std::size_t slot) const {
    std::uint32_t *sums = memory.sums + slot * 2 * lanes(), *squares = sums + lanes();
    CodeMoments* moments = memory.moments + (slot * images_ + part.image) * channels_;
    for_each_rows(input, part, [&](const ChannelCodes& codes, std::size_t) noexcept {
      std::fill_n(sums, 2 * lanes(), 0U);
      kernels().channel_moments(codes, sums, squares);
      for (std::size_t lane = 0; lane < codes.channels; ++lane) {
        moments[lane % channels_].sum += sums[lane];
        moments[lane % channels_].sum_of_squares += squares[lane];
      }
    });
  }

  // The channel of an image that a task of tables is for, at the first run's first pixel.
  std::int64_t channel_offset(Tensor tensor, std::size_t task) const {
    const TensorLayout& layout = desc().tensor(tensor);
    return static_cast<std::int64_t>(task / channels_) * layout.strides[0] +
           static_cast<std::int64_t>(task % channels_) * layout.strides[1];
  }

  void add_moments_of_channel(const std::uint8_t* input, std::size_t task, const Memory& memory) const {
    const std::uint8_t *first = input + channel_offset(kInput, task), flip = input_flip();
    CodeMoments& moments = memory.moments[task];
    for (std::size_t run = 0; run < runs_.count(); ++run) {
      const std::uint8_t* codes = first + runs_.offsets(run)[1];
      if (runs_.apart(1) || runs_.stride(1) == 0) {
        for (std::size_t i = 0; i < runs_.length(); ++i) {
          const auto code = static_cast<std::uint64_t>(codes[static_cast<std::int64_t>(i) * runs_.stride(1)] ^ flip);
          moments.sum += code;
          moments.sum_of_squares += code * code;
        }
        continue;
      }
      const CodeMoments of_run = kernels().moments(codes, runs_.length(), flip);
      moments.sum += of_run.sum;
      moments.sum_of_squares += of_run.sum_of_squares;
    }
  }

  void compute_factors(const TensorPointers& tensors, double scale, const Memory& memory) const {
    const auto *weight = static_cast<const float*>(tensors[kWeight]), *bias = static_cast<const float*>(tensors[kBias]);
    const std::size_t channels = channels_ / groups_, count = channels * runs_.count() * runs_.length();
    for (std::size_t group = 0; group < images_ * groups_; ++group) {
      CodeMoments moments = {0, 0};
      for (std::size_t slot = 0; slot < slots(); ++slot) {
        const CodeMoments* of_channels = memory.moments + slot * images_ * channels_ + group * channels;
        for (std::size_t c = 0; c < channels; ++c) {
          moments.sum += of_channels[c].sum;
          moments.sum_of_squares += of_channels[c].sum_of_squares;
        }
      }
      const CodeDistribution codes = distribution_of(moments, count, scale, epsilon_);
      float *factors = memory.factors + group / groups_ * 2 * lanes(), *offsets = factors + lanes();
      const std::size_t first = group % groups_ * channels;
      for (std::size_t c = first; c < first + channels; ++c) {
        const double factor = codes.factor * static_cast<double>(weight[c]);
        const double offset = static_cast<double>(bias[c]) - codes.mean * factor;
        for (std::size_t lane = c; lane < lanes(); lane += channels_) {
          factors[lane] = static_cast<float>(factor);
          offsets[lane] = static_cast<float>(offset);
        }
      }
    }
  }

  void normalize(const std::uint8_t* input, std::uint8_t* output, const Part& part, const Memory& memory,
                 const CodeParameters& parameters) const {
    const float* factors = memory.factors + part.image * 2 * lanes();
    const std::size_t step = as_size(runs_.stride(0));
    for_each_rows(input, part, [&](const ChannelCodes& codes, std::size_t pixel) noexcept {
      kernels().channels({.input = codes,
                          .output = output + part.output_offset + pixel * step,
                          .output_pixel_step = step * together_,
                          .factor = factors,
                          .offset = factors + lanes(),
                          .output_zero_point = parameters.zero_point,
                          .output_flip = parameters.flip});
    });
  }

  void normalize_channel(const std::uint8_t* input, std::uint8_t* output, std::size_t task, const Memory& memory,
                         const CodeParameters& parameters) const {
    std::array<std::uint8_t, kCodes> codes, table;
    std::array<float, kCodes> factors, offsets;
    const float* factor = memory.factors + task / channels_ * 2 * lanes() + task % channels_;
    std::iota(codes.begin(), codes.end(), std::uint8_t{0});
    factors.fill(factor[0]);
    offsets.fill(factor[lanes()]);
    kernels().channels({.input = {codes.data(), kCodes, 1, kCodes, input_flip()},
                        .output = table.data(),
                        .output_pixel_step = kCodes,
                        .factor = factors.data(),
                        .offset = offsets.data(),
                        .output_zero_point = parameters.zero_point,
                        .output_flip = parameters.flip});
    const TableFunction look_up = target().kernels().table->look_up;
    const bool in_place = !runs_.apart(0) && !runs_.apart(1) && runs_.stride(1) != 0;
    for (std::size_t run = 0; run < runs_.count(); ++run) {
      const StridedRuns::Offsets offsets_of_run = runs_.offsets(run);
      const std::uint8_t* from = input + channel_offset(kInput, task) + offsets_of_run[1];
      std::uint8_t* to = output + channel_offset(kOutput, task) + offsets_of_run[0];
      if (in_place) {
        look_up({.table = table.data(), .input = from, .count = runs_.length(), .output = to});
        continue;
      }
      for (std::size_t i = 0; i < runs_.length(); ++i) {
        const auto pixel = static_cast<std::int64_t>(i);
        to[pixel * runs_.stride(0)] = table[from[pixel * runs_.stride(1)]];
      }
    }
  }

  StridedRuns runs_;  // of the pixels of a channel of an image
  float epsilon_;
  std::size_t images_, channels_, groups_;
  bool channels_last_ = false;
  std::size_t together_ = 1;  // pixels that are one row of lanes
  std::size_t task_pixels_ = 1, tasks_of_run_ = 1;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_quantized_group_normalization(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<QuantizedGroupNormalization>(std::move(desc), target);
}

}  // namespace dmlcpu
