// Sizes and strides of a 2-D convolution, and the arithmetic on them that every algorithm shares.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "operators/index_range.h"
#include "operators/operator.h"
#include "operators/sizes.h"
#include "operators/strides/channel_planes.h"

namespace dmlcpu {

// Padded rows (or columns) from the first that an output reads to the last: of integers, or of numbers (sizes.h).
template <class Number>
constexpr Number window_extent(Number outputs, Number stride, Number kernel, Number dilation) {
  return (outputs - 1) * stride + (kernel - 1) * dilation + 1;
}

// The window of a depthwise convolution of volumes along their depth. Slices of the volumes are the images of the
// tensors, those of one volume together, and the filter has its taps along the depth where others have the input
// channels of a group. Images are volumes of one slice.
struct DepthWindow {
  std::int64_t input = 1, output = 1;  // slices of a volume
  std::int64_t taps = 1, stride = 1, dilation = 1, padding = 0;
};

struct ConvolutionGeometry {
  std::int64_t batch;  // images of the output
  std::int64_t input_channels, input_height, input_width;
  std::int64_t output_channels, output_height, output_width;
  std::int64_t kernel_height, kernel_width;
  std::int64_t stride_height, stride_width;
  std::int64_t dilation_height, dilation_width;
  std::int64_t padding_top, padding_left;
  std::int64_t groups;
  // Groups of the desc that are one here, as product/joined_groups.h has them: an output channel has a filter of the
  // input channels of its own group alone.
  std::int64_t joined_groups = 1;
  std::int64_t output_bytes;           // of an element: 1 for codes, 4 for sums and floats made of them
  PlaneStrides input, output, filter;  // of the filter: n is the output channel, c the input channel of its group
  // Whether a zero point of the filter, as products see it, may be other than 0.
  bool has_filter_zero_points = true;
  std::uint8_t input_flip = 0;  // 0x80 for INT8 input, which becomes unsigned unless an algorithm reads it signed
  DepthWindow depth = {};       // of volumes several taps
  bool has_owned_filter = false;

  std::int64_t group_input_channels() const { return input_channels / groups; }
  std::int64_t group_output_channels() const { return output_channels / groups; }
  // Of the groups of the desc.
  std::int64_t filter_input_channels() const { return group_input_channels() / joined_groups; }
  std::int64_t filter_output_channels() const { return group_output_channels() / joined_groups; }
  bool ends_in_sums() const { return output_bytes == 4; }
  bool of_volumes() const { return depth.taps > 1; }
  std::int64_t image_pixels() const { return output_height * output_width; }
  // Length of the sum behind one output element.
  std::int64_t reduction() const { return depth.taps * group_input_channels() * kernel_height * kernel_width; }
  // Elements of an array of output channels that kernels read, panels of nr channels at a time: to the end of the last
  // panel, and the panels of a group begin at its first channel.
  std::size_t padded_channels(std::size_t nr) const {
    const auto channels = static_cast<std::size_t>(output_channels);
    return groups == 1 ? round_up(channels, nr) : channels + nr;
  }

  // What windows read of an image with its padding, and whether there is none in it.
  std::int64_t read_height() const {
    return window_extent(output_height, stride_height, kernel_height, dilation_height);
  }
  std::int64_t read_width() const { return window_extent(output_width, stride_width, kernel_width, dilation_width); }

  // From the first row of a window to its last, in floating point, as the next.
  double window_rows() const { return window_extent(1.0, 1.0, as_number(kernel_height), as_number(dilation_height)); }
  // Of an image.
  double read_pixels() const {
    return window_extent(as_number(output_height), as_number(stride_height), as_number(kernel_height),
                         as_number(dilation_height)) *
           window_extent(as_number(output_width), as_number(stride_width), as_number(kernel_width),
                         as_number(dilation_width));
  }

  bool windows_inside() const {
    return padding_top == 0 && padding_left == 0 && read_height() <= input_height && read_width() <= input_width;
  }

  // Every output pixel reads exactly the input pixel of its own coordinates.
  bool pointwise() const {
    return kernel_height == 1 && kernel_width == 1 && stride_height == 1 && stride_width == 1 && padding_top == 0 &&
           padding_left == 0 && input_height == output_height && input_width == output_width;
  }
};

// Reads a convolution's desc: {N, C, W} tensors become images of height 1. In graphs it may have a further attribute,
// "depth_window", of DepthWindow's numbers but for the taps. Throws std::invalid_argument where sizes do not fit
// together: the kernels' memory safety rests on these checks alone.
ConvolutionGeometry convolution_geometry(const OperatorDesc& desc, const TensorLayout& input,
                                         const TensorLayout& filter, const TensorLayout& output);

// Output pixels in the order n, height, width. A run of them along one row.
struct PixelRun {
  std::int64_t n, row, column;
  std::int64_t count;
};

// Calls body(offset, run) for the output pixels [first, first + count), cut at the ends of output rows; offset counts
// from first.
template <class Body>
void for_each_pixel_run(const ConvolutionGeometry& geometry, std::int64_t first, std::int64_t count, const Body& body) {
  std::int64_t row = first / geometry.output_width;
  std::int64_t column = first % geometry.output_width;
  for (std::int64_t offset = 0; offset < count; ++row, column = 0) {
    const std::int64_t pixels = std::min(count - offset, geometry.output_width - column);
    body(offset, PixelRun{row / geometry.output_height, row % geometry.output_height, column, pixels});
    offset += pixels;
  }
}

// Whether the windows read most of the input: repeated elements and strides beyond the window make inputs whose copies
// would be larger than all that is computed of them.
bool reads_most(const ConvolutionGeometry& geometry);

// How many images of so many bytes are copied at a time: as many as fit half of the level-2 cache and divide the batch,
// at least one.
std::int64_t images_at_once(std::int64_t batch, std::size_t image_bytes);

// The distance between consecutive pixels of batch images of height x width, if it is the same throughout.
std::optional<std::int64_t> uniform_pixel_stride(const PlaneStrides& strides, std::int64_t batch, std::int64_t height,
                                                 std::int64_t width);

}  // namespace dmlcpu
