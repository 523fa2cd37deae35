#include "operators/pooling/pooling_plan.h"

#include <algorithm>

#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Channels of a strip: what a kernel takes at a time, or fewer so that rows stay in a level-1 cache.
constexpr std::int64_t kMostStripChannels = 64, kLeastStripChannels = 16;
// Bytes of staged rows that do.
constexpr double kStagedBytes = 32768.0;
// Beyond, rows are read in place, whatever their strides.
constexpr double kMostStagedBytes = 1 << 24;
// Windows that read a code from which on values are made of codes once.
constexpr double kLeastReuse = 1.8;
// Input elements for each tap beyond which most would be staged in vain.
constexpr double kLeastShareRead = 1.0 / 16.0;
// Lanes of a flat row beyond which its parameters would crowd out its values.
constexpr std::int64_t kMostFlatLanes = 8192;

double number(std::int64_t value) { return static_cast<double>(value); }

// Input rows or slices inside of the image that count neighbouring windows read at most.
std::int64_t positions_read(const PoolingAxis& axis, std::int64_t count) {
  return std::min((count - 1) * axis.stride + (axis.window - 1) * axis.dilation + 1, axis.input);
}

bool has_whole_planes(const PoolingGeometry& geometry, std::int64_t least_plane) {
  constexpr std::int64_t kMostTaps = 1 << 16;  // of the kernel
  std::int64_t taps = 1;
  for (std::size_t i = 3; i-- > 0;) {
    const PoolingAxis& axis = geometry.axes[i];
    const IndexRange inside = axis.taps(0);
    if (axis.output != 1 || inside.end - inside.begin != axis.input) return false;
    if (axis.input != 1 && axis.input_step != taps) return false;
    taps *= axis.input;
  }
  return taps >= least_plane && taps <= kMostTaps && geometry.output_channel_step == 1 &&
         (geometry.input_channel_step != 1 || geometry.channels == 1);
}

}  // namespace

PoolingPlan::PoolingPlan(const PoolingGeometry& geometry, std::size_t least_plane, int num_threads) {
  const PoolingAxis &depth = geometry.axes[0], &height = geometry.axes[1], &width = geometry.axes[2];
  const std::int64_t channels = geometry.channels;
  whole_planes = has_whole_planes(geometry, static_cast<std::int64_t>(least_plane));
  stages_values = !whole_planes && geometry.reuse() >= kLeastReuse;
  stages_input = stages_values || (!whole_planes && geometry.input_channel_step != 1);
  stages_output = geometry.output_channel_step != 1;
  flat = width.stride == 1 && channels < kMostStripChannels && stages_values &&
         std::max(width.input, width.output) <= kMostFlatLanes / channels &&
         (stages_output || width.output_step == channels);
  const double element_bytes = stages_values ? sizeof(float) : 1.0;
  const auto bytes_of_rows = [&](std::int64_t output_rows, std::int64_t pixel) {
    return number(positions_read(depth, 1)) * number(positions_read(height, output_rows)) * number(width.input) *
           number(pixel) * element_bytes;
  };
  strip_channels = flat ? channels : std::min(channels, kMostStripChannels);
  while (!flat && stages_input && strip_channels > kLeastStripChannels &&
         bytes_of_rows(1, strip_channels) > kStagedBytes) {
    strip_channels = std::max(strip_channels / 2, kLeastStripChannels);
  }
  if (stages_input && (bytes_of_rows(1, strip_channels) > kMostStagedBytes || geometry.reuse() < kLeastShareRead)) {
    stages_input = stages_values = flat = false;
    if (geometry.input_channel_step != 1) strip_channels = 1;
  }
  if (whole_planes || (!stages_input && geometry.input_channel_step == 1)) {
    // Nothing to keep in cache but what one pixel reads: strips only share work.
    const std::int64_t rows = geometry.batch * depth.output * height.output;
    const std::int64_t wanted = num_threads == 1 ? 1 : divide_up(num_threads * kTasksPerThread, rows);
    strip_channels =
        std::min(divide_up(divide_up(channels, wanted), kMostStripChannels) * kMostStripChannels, channels);
  }
  strips = divide_up(channels, strip_channels);
  pixel_step = strip_channels;
  lanes = flat ? std::max(width.input, width.output) * channels : channels;

  const std::int64_t slices = geometry.batch * depth.output * strips;
  const std::int64_t wanted = num_threads == 1 ? 1 : divide_up(num_threads * kTasksPerThread, slices);
  task_rows = divide_up(height.output, wanted);
  tasks_of_slice = divide_up(height.output, task_rows);
  band_rows = 1;
  const auto band_bytes = [&](std::int64_t rows) {
    return (stages_input ? bytes_of_rows(rows, pixel_step) : 0.0) +
           (stages_output ? number(rows) * number(width.output) * number(pixel_step) : 0.0);
  };
  while (band_rows < task_rows && band_bytes(2 * band_rows) <= kStagedBytes) {
    band_rows = std::min(2 * band_rows, task_rows);
  }
  staged_rows = stages_input ? positions_read(height, band_rows) : 0;
  staged_slices = stages_input ? positions_read(depth, 1) : 0;
}

std::string PoolingPlan::describe() const {
  const char* input = whole_planes    ? "in place, planes by themselves"
                      : stages_values ? "as values, made once of codes that several windows read"
                      : stages_input  ? "as codes, with channels as neighbours"
                                      : "in place";
  return std::string("input: ") + input + "\noutput: " + (stages_output ? "transposed" : "in place") +
         "\ntile: " + (flat ? "rows of all pixels and channels" : counted(strip_channels, "channel")) + ", bands of " +
         counted(band_rows, "row") + ", " + counted(task_rows, "row") + " a task";
}

}  // namespace dmlcpu
