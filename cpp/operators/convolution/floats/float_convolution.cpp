// FLOAT_CONVOLUTION: tensors input, filter, bias (optional), output, FLOAT32, {N, C, H, W} or {N, C, W}; attributes
// strides, dilations, start_padding, end_padding, group_count. Of graphs alone. float_convolution_algorithm.h has the
// arithmetic.
//
// An input that an algorithm reads slowly is copied first (float_input_staging.h):
//
//   input {N, C, H, W} -> {n, H, W, C} -> algorithm -> output, of any strides
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "operators/buffer_layout.h"
#include "operators/convolution/floats/float_convolution_algorithm.h"
#include "operators/convolution/floats/float_input_staging.h"
#include "operators/operator.h"
#include "operators/product_rate.h"
#include "operators/sizes.h"
#include "runtime/scratch.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kInput, kFilter, kBias, kOutput };

// As far as an estimate for AVX-512 tells.
ExecutionTarget with_threads_that_pay(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  constexpr double kStepsPerCycle = 16;
  const double outputs =
      as_number(geometry.batch) * as_number(geometry.image_pixels()) * as_number(geometry.output_channels);
  const double most = outputs * as_number(geometry.reduction()) / kStepsPerCycle / kLeastCyclesOfConvolution;
  return with_at_most(most, target);
}

FloatInputStaging::Channels channel_order(const ConvolutionGeometry& geometry) {
  return float_grouped_applies(geometry) ? FloatInputStaging::Channels::by_place_in_group
                                         : FloatInputStaging::Channels::of_group_together;
}

class FloatConvolution final : public CompiledOperator {
 public:
  FloatConvolution(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        geometry_(convolution_geometry(desc(), desc().tensor(kInput), desc().tensor(kFilter), desc().tensor(kOutput))),
        staging_(geometry_, channel_order(geometry_), with_threads_that_pay(geometry_, target())) {
    check_bias();
    if (geometry_.of_volumes()) throw std::invalid_argument(desc().type + ": no algorithm convolves volumes of floats");
    // An element of the filter becomes a row of a panel at most.
    if (desc().tensor(kFilter).element_count() > INT64_MAX / 1024) {
      throw std::invalid_argument(desc().type + ": the filter is too large to be packed");
    }
    const ConvolutionGeometry& inner = staging_.inner();
    const ExecutionTarget chosen = with_threads_that_pay(inner, target());
    const bool is_grouped = float_grouped_applies(inner) && staging_.lies_by_place_in_group();
    algorithm_ = is_grouped ? make_float_grouped_convolution(inner, chosen)
                            : make_float_product_convolution(inner, staging_.group_stride(), chosen);
    BufferLayout layout;
    filter_at_ = layout.take(desc().tensor(kFilter).owned ? 0 : algorithm_->packed_filter_size());
    bias_at_ = layout.take(has_bias() && !desc().tensor(kBias).owned ? bias_size() : 0);
    staged_at_ = layout.take(staging_.size());
    algorithm_at_ = layout.take(algorithm_->scratch_size());
    scratch_size_ = layout.size();
  }

  std::size_t temporary_size() const override { return scratch_size_; }
  std::string describe() const override {
    return staging_.describe() + algorithm_->describe() +
           "\nfilter: " + (desc().tensor(kFilter).owned ? "packed once, " : "packed at each dispatch, ") +
           std::to_string(algorithm_->packed_filter_size()) + " bytes";
  }

 protected:
  std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const override {
    if (tensor != kFilter && tensor != kBias) return std::nullopt;
    AlignedBuffer packed(packed_owned_size(tensor));
    const auto* from = static_cast<const float*>(data);
    auto* to = reinterpret_cast<float*>(packed.data());
    tensor == kFilter ? algorithm_->pack_filter(from, to) : pack_bias(from, to);
    return packed;
  }
  std::size_t packed_owned_size(std::size_t tensor) const override {
    if (tensor == kBias) return bias_size();
    return tensor == kFilter ? algorithm_->packed_filter_size() : CompiledOperator::packed_owned_size(tensor);
  }
  std::vector<std::size_t> packing(std::size_t tensor) const override {
    return tensor == kFilter ? algorithm_->packing() : CompiledOperator::packing(tensor);
  }

  void run(const TensorPointers& tensors) const override { convolve(tensors, {}); }
  void run_with_stages(const TensorPointers& tensors, std::span<const ElementStage> stages) const override {
    convolve(tensors, stages);
  }

 private:
  void convolve(const TensorPointers& tensors, std::span<const ElementStage> stages) const {
    const FloatsEpilogue epilogue(stages, as_size(geometry_.output_channels));
    std::uint8_t* scratch = thread_scratch(scratch_size_);
    FloatConvolutionDispatch dispatch = {
        .input = nullptr,
        .filter = static_cast<const float*>(tensors[kFilter]),
        .bias = static_cast<const float*>(tensors[kBias]),
        .output = nullptr,
        .epilogue = epilogue,
    };
    if (!desc().tensor(kFilter).owned) {
      auto* packed = reinterpret_cast<float*>(scratch + filter_at_);
      algorithm_->pack_filter(dispatch.filter, packed);
      dispatch.filter = packed;
    }
    if (has_bias() && !desc().tensor(kBias).owned) {
      auto* packed = reinterpret_cast<float*>(scratch + bias_at_);
      pack_bias(dispatch.bias, packed);
      dispatch.bias = packed;
    }
    for (std::int64_t image = 0; image < geometry_.batch; image += staging_.images()) {
      const float* input = static_cast<const float*>(tensors[kInput]) + image * geometry_.input.n;
      dispatch.input = staging_.run(input, reinterpret_cast<float*>(scratch + staged_at_));
      dispatch.output = static_cast<float*>(tensors[kOutput]) + image * geometry_.output.n;
      dispatch.epilogue = epilogue.from(as_size(image * geometry_.image_pixels()));
      algorithm_->run(dispatch, scratch + algorithm_at_);
    }
  }

  bool has_bias() const { return desc().optional_tensor(kBias).has_value(); }
  std::size_t bias_size() const { return as_size(geometry_.output_channels) * sizeof(float); }

  void check_bias() const {
    if (desc().tensors.size() != kOutput + 1) throw std::invalid_argument(desc().type + " has four tensors");
    if (!has_bias()) return;
    const TensorLayout& bias = desc().tensor(kBias);
    const bool fits = bias.rank == desc().tensor(kOutput).rank && bias.sizes[1] == geometry_.output_channels &&
                      bias.element_count() == geometry_.output_channels;
    if (!fits) throw std::invalid_argument(desc().type + ": the bias has not an element for each output channel");
  }

  void pack_bias(const float* bias, float* packed) const {
    const std::int64_t stride = desc().tensor(kBias).strides[1];
    for (std::int64_t c = 0; c < geometry_.output_channels; ++c) packed[c] = bias[c * stride];
  }

  ConvolutionGeometry geometry_;
  FloatInputStaging staging_;
  std::unique_ptr<FloatConvolutionAlgorithm> algorithm_;
  std::size_t filter_at_ = 0, bias_at_ = 0, staged_at_ = 0, algorithm_at_ = 0, scratch_size_ = 0;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_float_convolution(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<FloatConvolution>(std::move(desc), target);
}

}  // namespace dmlcpu
