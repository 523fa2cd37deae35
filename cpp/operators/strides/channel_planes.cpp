#include "operators/strides/channel_planes.h"

#include <algorithm>

#include "operators/sizes.h"
#include "operators/strides/element_rows.h"
#include "operators/strides/element_width.h"
#include "operators/strides/staging.h"
#include "operators/strides/transposed_elements.h"
#include "runtime/cache_line.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Pixels that follow each other one element apart: of a whole plane, or of a row; single ones if neither.
std::int64_t run_length(const ChannelPlanes& tensor) {
  if (tensor.strides.w != 1 && tensor.width > 1) return 1;
  return tensor.height == 1 || tensor.strides.h == tensor.width ? tensor.pixels() : tensor.width;
}

// Calls body(image, pixel, count) for stretches of runs, in parallel.
template <class Body>
void for_each_stretch(const ChannelPlanes& tensor, std::int64_t images, int num_threads, const Body& body) {
  constexpr std::int64_t kStretchBytes = 1 << 15;
  const std::int64_t run = run_length(tensor), runs = tensor.pixels() / run;
  // Whole multiples of a cache line of pixels, or several runs where these are short.
  constexpr auto kLine = static_cast<std::int64_t>(kCacheLine);
  const std::int64_t pixels = std::max(kStretchBytes / tensor.channels / kLine * kLine, kLine);
  const std::int64_t stretch = std::min(run, pixels), stretches_of_run = divide_up(run, stretch);
  const std::int64_t runs_of_task = std::clamp<std::int64_t>(pixels / run, 1, runs);
  const std::int64_t tasks_of_image = divide_up(runs, runs_of_task) * stretches_of_run;
  parallel_for(as_size(images * tasks_of_image), num_threads, [&](std::size_t task, int) noexcept {
    const auto index = static_cast<std::int64_t>(task);
    const std::int64_t image = index / tasks_of_image, part = index % tasks_of_image;
    const std::int64_t first_run = part / stretches_of_run * runs_of_task, begin = part % stretches_of_run * stretch;
    for (std::int64_t r = first_run; r < std::min(first_run + runs_of_task, runs); ++r) {
      body(image, r * run + begin, std::min(stretch, run - begin));
    }
  });
}

std::int64_t offset_of(const ChannelPlanes& tensor, std::int64_t image, std::int64_t pixel) {
  return image * tensor.strides.n + pixel / tensor.width * tensor.strides.h + pixel % tensor.width * tensor.strides.w;
}

}  // namespace

void scatter_pixels(const PackKernels& kernels, const void* values, std::int64_t pixels, std::int64_t channels,
                    std::size_t element_bytes, void* output, std::int64_t pixel_stride,
                    std::int64_t channel_stride) noexcept {
  if (pixel_stride == 1) {
    transpose_elements(kernels, element_bytes, values, channels, pixels, channels, output, channel_stride);
    return;
  }
  with_element_of(element_bytes, [&]<class Element>(Element) {
    copy_rows(static_cast<const Element*>(values), {channels, 1}, static_cast<Element*>(output),
              {pixel_stride, channel_stride}, pixels, channels);
  });
}

void gather_channels_last(const ChannelPlanes& tensor, const PackKernels& kernels, std::int64_t count,
                          const std::uint8_t* planes, std::uint8_t flip, int num_threads, std::uint8_t* packed) {
  for_each_stretch(tensor, count, num_threads, [&](std::int64_t image, std::int64_t pixel, std::int64_t pixels) {
    const std::uint8_t* source = planes + offset_of(tensor, image, pixel);
    std::uint8_t* target = packed + (image * tensor.pixels() + pixel) * tensor.channels;
    if (pixels == 1) {
      copy_codes(kernels, source, tensor.strides.c, tensor.channels, flip, target);
      return;
    }
    kernels.transpose({.input = source,
                       .input_row_stride = as_size(tensor.strides.c),
                       .rows = as_size(tensor.channels),
                       .columns = as_size(pixels),
                       .flip = flip,
                       .output = target,
                       .output_row_stride = as_size(tensor.channels)});
  });
}

void scatter_channels_last(const ChannelPlanes& tensor, const PackKernels& kernels, std::int64_t count,
                           const std::uint8_t* packed, std::int64_t element_bytes, int num_threads,
                           std::uint8_t* planes) {
  for_each_stretch(tensor, count, num_threads, [&](std::int64_t image, std::int64_t pixel, std::int64_t pixels) {
    scatter_pixels(kernels, packed + (image * tensor.pixels() + pixel) * tensor.channels * element_bytes, pixels,
                   tensor.channels, as_size(element_bytes), planes + offset_of(tensor, image, pixel) * element_bytes, 1,
                   tensor.strides.c);
  });
}

}  // namespace dmlcpu
