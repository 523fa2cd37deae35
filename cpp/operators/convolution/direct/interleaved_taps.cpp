#include "operators/convolution/direct/interleaved_taps.h"

#include <algorithm>
#include <numeric>

#include "kernels/depthwise/depthwise.h"
#include "operators/buffer_layout.h"
#include "operators/sizes.h"

namespace dmlcpu {
namespace {

// Interleaved codes of a strip should stay in a level-1 cache.
constexpr std::int64_t kInterleavedBytes = 16384;
// Output columns that a strip has at least, where there are as many, and where neighbours interleave many columns that
// both read; then the codes of all buffers should stay in a level-2 cache.
constexpr std::int64_t kLeastStripColumns = 8, kEnoughStripColumns = 64;
constexpr double kInterleavedBytesOfAll = 1 << 20;

double buffers_of(const ConvolutionGeometry& geometry) { return as_number(divide_up(geometry.kernel_height, 4)); }

// Twice as many outputs as strips have columns in common.
std::int64_t least_strip_columns(const ConvolutionGeometry& geometry) {
  const double least = as_number(kLeastStripColumns), enough = as_number(kEnoughStripColumns);
  const double shared = as_number(geometry.kernel_width - 1) * as_number(geometry.dilation_width);
  const double bytes_of_output =
      as_number(geometry.stride_width) * as_number(geometry.output_channels) * 4.0 * buffers_of(geometry);
  const double most = std::clamp(kInterleavedBytesOfAll / bytes_of_output, least, enough);
  return static_cast<std::int64_t>(std::clamp(2.0 * shared / as_number(geometry.stride_width), least, most));
}

std::int64_t columns_of_strip(const ConvolutionGeometry& geometry, const TapGroups& taps) {
  const std::int64_t bytes_of_output = geometry.stride_width * geometry.output_channels * 4;
  const std::int64_t columns = std::max(kInterleavedBytes / bytes_of_output, least_strip_columns(geometry));
  // Kernels take four pixels at a time where a window has more groups than they hold filters of.
  const std::int64_t multiple = taps.groups.size() > 3 ? 4 : 1;
  return std::min(divide_up(columns, multiple) * multiple, geometry.output_width);
}

std::int64_t output_rows_of_buffer(const ConvolutionGeometry& geometry) {
  const bool shared = geometry.stride_height == 1 && geometry.dilation_height == 1 && geometry.kernel_height > 1;
  return shared ? std::clamp<std::int64_t>(5 - geometry.kernel_height, 1, geometry.output_height) : 1;
}

std::int64_t rows_of_ring(const ConvolutionGeometry& geometry, const TapGroups& taps) {
  if (taps.pairs) return 2;
  return window_extent<std::int64_t>(output_rows_of_buffer(geometry), 1, geometry.kernel_height,
                                     geometry.dilation_height);
}

// From the codes of a pixel to those of the next one. Kernels read one line of each pixel of a window at a time, and
// most of them again for the next outputs: of a long row of taps more than stay in a level-1 cache, where the lines are
// a large power of two apart and meet in a few of its sets. Of pixels of few lines a further one is too much.
std::size_t bytes_of_pixel(const ConvolutionGeometry& geometry) {
  constexpr std::size_t kCacheBytes = 32 << 10, kBytesOfWay = 4096, kLeastBytes = 512;
  const std::size_t bytes = as_size(geometry.output_channels) * 4;
  const bool is_long =
      bytes >= kLeastBytes && as_size(geometry.kernel_width) * std::gcd(bytes, kBytesOfWay) > kCacheBytes;
  return geometry.kernel_height == 1 && is_long ? bytes + kAlignment : bytes;
}

// The geometry of what is read: of pairs, whole ones.
ConvolutionGeometry geometry_read(const ConvolutionGeometry& geometry, const TapGroups& taps) {
  ConvolutionGeometry read = geometry;
  if (taps.pairs) read.kernel_width += read.kernel_width % 2;
  return read;
}

}  // namespace

bool InterleavedTaps::applies(const ConvolutionGeometry& geometry) {
  const double bytes_of_output = as_number(geometry.stride_width) * as_number(geometry.output_channels) * 4.0;
  // Rounded up to a multiple of four.
  const double columns = std::max(as_number(kInterleavedBytes) / bytes_of_output, as_number(kLeastStripColumns)) + 3.0;
  const double strip = std::min(columns, as_number(geometry.output_width));
  return PaddedStrips::applies(geometry, strip, geometry.window_rows() + 3.0 + 4.0 * buffers_of(geometry));
}

InterleavedTaps::InterleavedTaps(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
    : taps_(group_taps(geometry)),
      channels_(as_size(geometry.output_channels)),
      pixel_bytes_(bytes_of_pixel(geometry)),
      stride_height_(geometry.stride_height),
      stride_width_(geometry.stride_width),
      dilation_height_(geometry.dilation_height),
      dilation_width_(geometry.dilation_width),
      rows_of_buffer_(output_rows_of_buffer(geometry)),
      strips_(geometry_read(geometry, taps_), target.num_threads, columns_of_strip(geometry, taps_), rows_of_buffer_,
              rows_of_ring(geometry, taps_)),
      pack_(*target.kernels().pack),
      buffer_bytes_(
          round_up(strips_.ring().row_bytes() / channels_ * pixel_bytes_ / (taps_.pairs ? 2 : 1) + kDepthwiseLanes * 4,
                   kAlignment)) {
  BufferLayout memory;
  ring_at_ = memory.take(strips_.ring().bytes());
  buffers_ = memory.take(taps_.buffers.size(), buffer_bytes_);
  memory_bytes_ = memory.size();
  const std::size_t buffers = taps_.buffers.size();
  for (std::size_t first = 0; first < (taps_.pairs ? buffers : 1); ++first) {
    for (const TapGroups::Group& group : taps_.groups) {
      const std::int64_t columns = group.taps[0].column - taps_.buffers[group.buffer].taps[0].column;
      const std::int64_t pixels = taps_.pairs ? columns / 2 : columns * dilation_width_;
      offsets_.push_back((group.buffer + first) % buffers * buffer_bytes_ + as_size(pixels) * pixel_bytes_);
    }
  }
}

std::size_t InterleavedTaps::pixel_step() const { return as_size(taps_.pairs ? 1 : stride_width_) * pixel_bytes_; }

const std::size_t* InterleavedTaps::group_offsets(std::int64_t row) const {
  const std::size_t first_buffer = taps_.pairs ? as_size(row) % taps_.buffers.size() : 0;
  return offsets_.data() + first_buffer * taps_.groups.size();
}

std::int64_t InterleavedTaps::load(const ActivationSource& source, const PaddedStrips::Task& task, std::int64_t row,
                                   std::int64_t loaded, std::uint8_t* memory) const noexcept {
  if (taps_.pairs) return load_pairs(source, task, row, loaded, memory);
  const std::int64_t top = row * stride_height_;
  loaded = strips_.load(source, pack_, task, top, loaded, memory + ring_at_);
  interleave_rows(top, task.columns, memory);
  return loaded;
}

// The rows of the ring, of which `top` is the first one that the window touches.
void InterleavedTaps::interleave_rows(std::int64_t top, std::int64_t outputs, std::uint8_t* memory) const noexcept {
  const std::int64_t columns = strips_.columns_read(outputs);
  for (std::size_t buffer = 0; buffer < taps_.buffers.size(); ++buffer) {
    InterleaveRun run = {.rows = {}, .count = 0, .output = memory + buffers_ + buffer * buffer_bytes_};
    std::int64_t furthest = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const Tap& tap = taps_.buffers[buffer].taps[i];
      // A row that is no tap of the first output row may be one of the next: rows follow each other there.
      const std::int64_t next =
          rows_of_buffer_ > 1 ? std::min(static_cast<std::int64_t>(i), strips_.ring().rows() - 1) : 0;
      const std::int64_t row = top + (tap.row >= 0 ? tap.row * dilation_height_ : next);
      const std::int64_t column = tap.row < 0 ? 0 : tap.column * dilation_width_;
      run.rows[i] = memory + ring_at_ + strips_.ring().offset(row) + as_size(column) * channels_;
      furthest = std::max(furthest, column);
    }
    interleave_pixels(run, as_size(columns - furthest));
  }
}

// Of so many pixels, of which `run` tells the first.
void InterleavedTaps::interleave_pixels(InterleaveRun run, std::size_t pixels) const noexcept {
  if (pixel_bytes_ == channels_ * 4) {
    run.count = pixels * channels_;
    pack_.interleave(run);
    return;
  }
  run.count = channels_;
  for (; pixels > 0; --pixels) {
    pack_.interleave(run);
    for (const std::uint8_t*& row : run.rows) row += channels_;
    run.output += pixel_bytes_;
  }
}

// Output row r reads pairs r, r + 1, ...: those of padded rows from `loaded` on are loaded and interleaved.
std::int64_t InterleavedTaps::load_pairs(const ActivationSource& source, const PaddedStrips::Task& task,
                                         std::int64_t row, std::int64_t loaded, std::uint8_t* memory) const noexcept {
  const std::int64_t end = 2 * (row + static_cast<std::int64_t>(taps_.buffers.size()));
  loaded = std::max(loaded, 2 * row);
  while (loaded < end) {
    const std::int64_t pair = loaded / 2;
    loaded = strips_.load(source, pack_, task, loaded, loaded, memory + ring_at_);
    interleave_pair(pair, task.columns, memory);
  }
  return loaded;
}

// Rows 2 * pair and the next one of the padded input, which stand in the ring.
void InterleavedTaps::interleave_pair(std::int64_t pair, std::int64_t outputs, std::uint8_t* memory) const noexcept {
  const std::uint8_t *upper = memory + ring_at_, *lower = upper + strips_.ring().row_bytes();
  std::uint8_t* output = memory + buffers_ + as_size(pair) % taps_.buffers.size() * buffer_bytes_;
  for (std::int64_t column = 0; column < strips_.columns_read(outputs); column += 2) {
    pack_.interleave(
        {.rows = {upper, upper + channels_, lower, lower + channels_}, .count = channels_, .output = output});
    upper += 2 * channels_;
    lower += 2 * channels_;
    output += pixel_bytes_;
  }
}

}  // namespace dmlcpu
