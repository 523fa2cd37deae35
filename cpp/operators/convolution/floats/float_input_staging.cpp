#include "operators/convolution/floats/float_input_staging.h"

#include <algorithm>
#include <new>

#include "operators/convolution/floats/float_windows.h"
#include "operators/convolution/padded/padded_planes.h"
#include "operators/float_tiles.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Of groups and their channels.
struct ChannelStrides {
  std::int64_t group, channel;
};

// Of images whose channels are neighbours, in memory without gaps, or as they lie.
TensorLayout image_layout(const ConvolutionGeometry& geometry, std::int64_t images, std::int64_t height,
                          std::int64_t width, const PlaneStrides& strides, const ChannelStrides& channels) {
  TensorLayout layout;
  layout.type = DataType::float32;
  layout.rank = 5;
  layout.sizes = {images, geometry.groups, geometry.group_input_channels(), height, width};
  layout.strides = {strides.n, channels.group, channels.channel, strides.h, strides.w};
  return layout;
}

std::size_t image_size(const ConvolutionGeometry& geometry) {
  std::size_t size = sizeof(float);
  for (const std::int64_t length : {geometry.input_channels, geometry.input_width, geometry.input_height}) {
    if (__builtin_mul_overflow(size, as_size(length), &size)) throw std::bad_alloc();
  }
  return size;
}

// Whether a copy with its padding lets windows be read as they lie, and takes no more than gathering them.
bool padding_pays(const ConvolutionGeometry& geometry) {
  return windows_are_runs(geometry) && PaddedPlanes::applies(geometry) &&
         geometry.read_height() > geometry.padding_top && geometry.read_width() > geometry.padding_left;
}

// Whether an input whose channels are neighbours is copied to be padded: if windows overlap, which take more to gather
// than the image to copy. Panels of few columns meet six pixels at once, of which a row leaves some over, and gathered
// windows do not: that costs more than gathering where these serve several panels, unless they are short runs, of few
// channels or of groups.
bool is_worth_padding(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  constexpr std::int64_t kFewChannels = 8, kFewOutputs = 32;
  const bool is_narrow = target.kernels().float_product->panel_columns < as_size(kFloatPanelColumns);
  const bool gathers_well = is_narrow && geometry.groups == 1 && geometry.input_channels > kFewChannels &&
                            geometry.output_channels > kFewOutputs;
  return !gathers_well && !windows_lie_in(geometry) &&
         geometry.read_height() * geometry.read_width() <
             geometry.image_pixels() * geometry.kernel_height * geometry.kernel_width;
}

// Whether so many images have tiles for as many threads as all of the batch have.
bool keep_busy(const ConvolutionGeometry& geometry, std::int64_t images, int num_threads) {
  return num_threads == 1 ||
         images * geometry.image_pixels() >= kFloatTileRows * kTasksPerThread * static_cast<std::int64_t>(num_threads);
}

}  // namespace

FloatInputStaging::FloatInputStaging(const ConvolutionGeometry& geometry, Channels wanted,
                                     const ExecutionTarget& target)
    : geometry_(geometry),
      inner_(geometry),
      reorders_(wanted == Channels::by_place_in_group && geometry.group_input_channels() > 1 && reads_most(geometry)),
      group_stride_(geometry.group_input_channels() * geometry.input.c) {
  const bool padded = wanted == Channels::of_group_together && padding_pays(geometry),
             are_neighbours = geometry.input.c == 1 && !reorders_;
  if (are_neighbours ? !padded || !is_worth_padding(geometry, target) : !reads_most(geometry)) return;
  copied_height_ = geometry.input_height;
  copied_width_ = geometry.input_width;
  if (padded) add_padding();
  const std::int64_t images = images_at_once(geometry.batch, image_size(inner_));
  const std::int64_t of_group = geometry.group_input_channels(), together = padded ? of_group : geometry.input_channels;
  const std::int64_t row = inner_.input_width * together;
  if (are_neighbours && images < geometry.batch && !keep_busy(geometry, images, target.num_threads)) {
    inner_ = geometry;
    return;
  }
  inner_.batch = images;
  group_stride_ = padded ? inner_.input_height * row : of_group;
  inner_.input = {inner_.input_height * row * (inner_.input_channels / together), 1, row, together};
  const ChannelStrides copied = reorders_ ? ChannelStrides{1, geometry.groups} : ChannelStrides{group_stride_, 1};
  const ChannelStrides given = {of_group * geometry.input.c, geometry.input.c};
  copy_.emplace(image_layout(inner_, images, copied_height_, copied_width_, inner_.input, copied),
                image_layout(inner_, images, copied_height_, copied_width_, geometry.input, given), target);
}

// To the last row and column that a window reads.
void FloatInputStaging::add_padding() {
  top_ = geometry_.padding_top;
  left_ = geometry_.padding_left;
  inner_.padding_top = inner_.padding_left = 0;
  inner_.input_height = geometry_.read_height();
  inner_.input_width = geometry_.read_width();
  copied_height_ = std::min(copied_height_, inner_.input_height - top_);
  copied_width_ = std::min(copied_width_, inner_.input_width - left_);
}

std::size_t FloatInputStaging::size() const { return copy_ ? as_size(images()) * image_size(inner_) : 0; }

const float* FloatInputStaging::run(const float* input, float* copies) const {
  if (!copy_) return input;
  clear_padding(copies);
  copy_->run(input, copies + top_ * inner_.input.h + left_ * inner_.input.w);
  return copies;
}

void FloatInputStaging::clear_padding(float* copies) const {
  const std::int64_t row = inner_.input.h, begin = left_ * inner_.input.w;
  const std::int64_t end = begin + copied_width_ * inner_.input.w, below = top_ + copied_height_;
  if (copied_height_ == inner_.input_height && end - begin == row) return;
  const std::int64_t plane = inner_.input_height * row, planes = images() * (inner_.input.n / plane);
  for (std::int64_t i = 0; i < planes; ++i, copies += plane) {
    std::fill_n(copies, top_ * row, 0.0F);
    for (std::int64_t y = top_; y < below; ++y) {
      std::fill_n(copies + y * row, begin, 0.0F);
      std::fill_n(copies + y * row + end, row - end, 0.0F);
    }
    std::fill_n(copies + below * row, (inner_.input_height - below) * row, 0.0F);
  }
}

std::string FloatInputStaging::describe() const {
  if (!copy_) return "";
  const bool padded = copied_height_ != inner_.input_height || copied_width_ != inner_.input_width;
  return std::string("staging: input through ") + (padded ? "padded " : "") +
         (reorders_                                                        ? "{N, H, W, channel of the group, group}"
          : geometry_.groups > 1 && inner_.input.w < inner_.input_channels ? "{N, group, H, W, channel of the group}"
                                                                           : "{N, H, W, C}") +
         " copies of " + std::to_string(images()) + " of " + counted(geometry_.batch, "image") + ", because " +
         (reorders_                ? "channels lie by their place in a group then\n"
          : geometry_.input.c != 1 ? "its channels are not neighbours\n"
                                   : "windows are read as they lie then\n");
}

}  // namespace dmlcpu
