#include "operators/convolution/floats/float_windows.h"

#include <algorithm>
#include <cstring>

namespace dmlcpu {
namespace {

// A joined run is no longer than this, so that positions in units of elements are below 2^60.
constexpr std::int64_t kMostJoinedTerms = 1 << 20;

// In pieces of sizes that the compiler knows: most runs are too short for a call.
inline void copy_floats(const float* from, std::int64_t count, float* to) noexcept {
  constexpr std::int64_t kLarge = 16, kSmall = 4;
  for (; count >= kLarge; count -= kLarge, from += kLarge, to += kLarge) std::memcpy(to, from, kLarge * sizeof(float));
  for (; count >= kSmall; count -= kSmall, from += kSmall, to += kSmall) std::memcpy(to, from, kSmall * sizeof(float));
  for (; count > 0; --count) *to++ = *from++;
}

}  // namespace

bool windows_are_runs(const ConvolutionGeometry& geometry) {
  // Windows of groups take longer to gather, for fewer outputs.
  constexpr std::int64_t kLeastWidth = 12, kLeastWidthOfGroups = 6;
  return geometry.dilation_width == 1 &&
         geometry.output_width >= (geometry.groups > 1 ? kLeastWidthOfGroups : kLeastWidth) &&
         geometry.kernel_width <= kMostJoinedTerms / geometry.group_input_channels();
}

bool windows_lie_in(const ConvolutionGeometry& geometry) {
  return windows_are_runs(geometry) && geometry.windows_inside() && geometry.input.c == 1 &&
         geometry.input.w == geometry.group_input_channels();
}

FloatWindows::FloatWindows(const ConvolutionGeometry& geometry)
    : geometry_(geometry),
      channels_(geometry.group_input_channels()),
      joined_(geometry.groups == 1 && geometry.kernel_width > 1 && geometry.dilation_width == 1 &&
              geometry.input.c == 1 && geometry.input.w == geometry.input_channels &&
              geometry.kernel_width <= kMostJoinedTerms / geometry.input_channels) {}

void FloatWindows::gather(const float* input, std::int64_t first, std::int64_t count, std::int64_t k,
                          std::int64_t terms, float* rows) const noexcept {
  const std::int64_t run_terms = joined_ ? channels_ * geometry_.kernel_width : channels_;
  for (std::int64_t done = 0, taken = 0; done < terms; done += taken) {
    const std::int64_t index = (k + done) / run_terms, skipped = (k + done) % run_terms;
    taken = std::min(terms - done, run_terms - skipped);
    const Run run = {.kernel_row = joined_ ? index : index / geometry_.kernel_width,
                     .kernel_column = joined_ ? 0 : index % geometry_.kernel_width,
                     .skipped = skipped,
                     .count = taken};
    for_each_pixel_run(geometry_, first, count, [&](std::int64_t offset, const PixelRun& pixels) {
      float* to = rows + offset * terms + done;
      const std::int64_t y =
          pixels.row * geometry_.stride_height - geometry_.padding_top + run.kernel_row * geometry_.dilation_height;
      if (y < 0 || y >= geometry_.input_height) {
        for (std::int64_t x = 0; x < pixels.count; ++x) std::fill_n(to + x * terms, run.count, 0.0F);
        return;
      }
      const float* line = input + pixels.n * geometry_.input.n + y * geometry_.input.h;
      joined_ ? gather_joined(line, pixels, run, terms, to) : gather_line(line, pixels, run, terms, to);
    });
  }
}

// Of one tap.
void FloatWindows::gather_line(const float* line, const PixelRun& pixels, const Run& run, std::int64_t stride,
                               float* rows) const noexcept {
  const std::int64_t column =
      pixels.column * geometry_.stride_width - geometry_.padding_left + run.kernel_column * geometry_.dilation_width;
  const IndexRange inside = indices_inside(column, geometry_.stride_width, geometry_.input_width, pixels.count);
  const std::int64_t channel = geometry_.input.c;
  line += run.skipped * channel;
  const auto fill = [&](std::int64_t begin, std::int64_t end) noexcept {
    for (std::int64_t x = begin; x < end; ++x) std::fill_n(rows + x * stride, run.count, 0.0F);
  };
  fill(0, inside.begin);
  fill(inside.end, pixels.count);
  if (inside.count() == 0) return;
  const std::int64_t step = geometry_.stride_width * geometry_.input.w;
  const float* from = line + (column + inside.begin * geometry_.stride_width) * geometry_.input.w;
  float* to = rows + inside.begin * stride;
  const auto copy = [&](auto copy_pixel) noexcept {
    for (std::int64_t x = inside.begin; x < inside.end; ++x, from += step, to += stride) copy_pixel();
  };
  if (channel != 1) {
    return copy([&] {
      for (std::int64_t c = 0; c < run.count; ++c) to[c] = from[c * channel];
    });
  }
  switch (run.count) {  // the channels of most groups that are gathered
    case 8:
      return copy([&] { std::memcpy(to, from, 8 * sizeof(float)); });
    case 16:
      return copy([&] { std::memcpy(to, from, 16 * sizeof(float)); });
    case 24:
      return copy([&] { std::memcpy(to, from, 24 * sizeof(float)); });
    case 32:
      return copy([&] { std::memcpy(to, from, 32 * sizeof(float)); });
    default:
      return copy([&] { copy_floats(from, run.count, to); });
  }
}

// Of a row of the window, which is one run of a row of the image; what lies in the padding are whole pixels.
void FloatWindows::gather_joined(const float* line, const PixelRun& pixels, const Run& run, std::int64_t stride,
                                 float* rows) const noexcept {
  const std::int64_t step = geometry_.stride_width * channels_, limit = geometry_.input_width * channels_;
  std::int64_t from = (pixels.column * geometry_.stride_width - geometry_.padding_left) * channels_ + run.skipped;
  for (std::int64_t x = 0; x < pixels.count; ++x, rows += stride, from += step) {
    if (from >= 0 && from + run.count <= limit) {
      copy_floats(line + from, run.count, rows);
      continue;
    }
    const std::int64_t begin = std::clamp<std::int64_t>(-from, 0, run.count);
    const std::int64_t end = std::clamp<std::int64_t>(limit - from, begin, run.count);
    std::fill_n(rows, begin, 0.0F);
    if (begin < end) copy_floats(line + from + begin, end - begin, rows + begin);
    std::fill_n(rows + end, run.count - end, 0.0F);
  }
}

}  // namespace dmlcpu
