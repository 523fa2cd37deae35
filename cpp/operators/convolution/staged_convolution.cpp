#include "operators/convolution/staged_convolution.h"

#include <sstream>

#include "operators/buffer_layout.h"
#include "operators/convolution/inner_convolution.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/channel_planes.h"

namespace dmlcpu {
namespace {

class StagedConvolution final : public InnerConvolution {
 public:
  StagedConvolution(const ConvolutionGeometry& geometry, Staging staging, const ExecutionTarget& target,
                    MakeAlgorithm* make_algorithm)
      : geometry_(geometry),
        target_(target),
        input_{geometry.input_channels, geometry.input_height, geometry.input_width, geometry.input},
        output_{geometry.output_channels, geometry.output_height, geometry.output_width, geometry.output},
        staging_(staging) {
    const DepthWindow& depth = geometry.depth;
    const std::size_t input_bytes = as_size(depth.input) * staged_bytes(staging_.input, input_, 1);
    const std::size_t output_bytes =
        as_size(depth.output) * staged_bytes(staging_.output, output_, geometry.output_bytes);
    images_ = images_at_once(geometry.batch / depth.output, input_bytes + output_bytes);
    ConvolutionGeometry inner = geometry;
    inner.batch = images_ * depth.output;
    if (staging_.input) {
      inner.input = input_.channels_last();
      inner.input_flip = 0;
    }
    if (staging_.output) inner.output = output_.channels_last();
    algorithm_ = make_algorithm(inner, target);

    BufferLayout layout;
    staged_input_ = layout.take(as_size(images_), input_bytes);
    staged_output_ = layout.take(as_size(images_), output_bytes);
    algorithm_scratch_ = layout.take(algorithm_->scratch_size());
    scratch_size_ = layout.size();
  }

  std::size_t scratch_size() const override { return scratch_size_; }

  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override {
    const PackKernels& pack = *target_.kernels().pack;
    const DepthWindow& depth = geometry_.depth;
    for (std::int64_t image = 0; image < geometry_.batch / depth.output; image += images_) {
      ConvolutionDispatch part = dispatch;
      part.source.data += image * depth.input * geometry_.input.n;
      part.output += image * depth.output * geometry_.output.n * geometry_.output_bytes;
      if (staging_.input) {
        gather_channels_last(input_, pack, images_ * depth.input, part.source.data, dispatch.source.flip,
                             target_.num_threads, scratch + staged_input_);
        part.source = {scratch + staged_input_, 0, dispatch.source.zero_point};
      }
      std::uint8_t* output = part.output;
      if (staging_.output) part.output = scratch + staged_output_;
      algorithm_->run(part, scratch + algorithm_scratch_);
      if (staging_.output) {
        scatter_channels_last(output_, pack, images_ * depth.output, scratch + staged_output_, geometry_.output_bytes,
                              target_.num_threads, output);
      }
    }
  }

  std::string describe() const override {
    std::ostringstream text;
    text << "staging: " << (staging_.input ? "input" : "") << (staging_.input && staging_.output ? " and " : "")
         << (staging_.output ? "output" : "") << " through {N, H, W, C} copies of " << images_ << " of "
         << counted(geometry_.batch / geometry_.depth.output, geometry_.of_volumes() ? "volume" : "image")
         << ", because the channels of the " << (staging_.input && staging_.output ? "tensors" : "tensor")
         << " are not neighbours\n"
         << algorithm_->describe();
    return text.str();
  }

 private:
  static std::size_t staged_bytes(bool staged, const ChannelPlanes& tensor, std::int64_t element_bytes) {
    return staged ? as_size(tensor.pixels()) * as_size(tensor.channels) * as_size(element_bytes) : 0;
  }

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  ChannelPlanes input_, output_;
  Staging staging_;
  std::int64_t images_ = 1;  // or volumes, that are copied at a time
  std::size_t staged_input_, staged_output_, algorithm_scratch_, scratch_size_;
};

}  // namespace

std::unique_ptr<ConvolutionAlgorithm> make_staged_convolution(const ConvolutionGeometry& geometry, Staging staging,
                                                              const ExecutionTarget& target,
                                                              MakeAlgorithm* make_algorithm) {
  staging.input &= geometry.input.c != 1;
  staging.output &= geometry.output.c != 1;
  if (!staging.input && !staging.output) return make_algorithm(geometry, target);
  return std::make_unique<StagedConvolution>(geometry, staging, target, make_algorithm);
}

}  // namespace dmlcpu
