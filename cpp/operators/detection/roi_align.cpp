#include "operators/detection/roi_align.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "operators/detection/region_taps.h"
#include "runtime/scratch.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr float kMostSamples = 65535;

RegionExtent extent_of(float from, float to, std::size_t cells, const RegionCells& options) {
  const float offset = options.half_pixel ? 0.5F : 0.0F;
  const float start = from * options.scale - offset;
  float length = to * options.scale - offset - start;
  if (!options.half_pixel) length = std::max(length, 1.0F);
  const float cell = length / static_cast<float>(cells);
  if (options.samples > 0) return {start, cell, options.samples};
  const float samples = std::ceil(cell);
  if (samples > kMostSamples)
    throw std::invalid_argument("a region is too large: " + std::to_string(length) + " pixels");
  return {start, cell, samples > 0 ? static_cast<std::size_t>(samples) : 0};
}

// A region of an image that there is.
struct Region {
  std::size_t image;
  RegionExtent rows, columns;
};

// What the arrays say is read once: they may change under the hands of a run. Throws std::invalid_argument.
std::vector<Region> checked_regions(const Regions& regions, const RegionCells& cells, std::size_t images) {
  std::vector<Region> checked;
  checked.reserve(regions.count);
  for (std::size_t i = 0; i < regions.count; ++i) {
    const std::int64_t image = regions.images[i];
    if (image < 0 || static_cast<std::uint64_t>(image) >= images) {
      throw std::invalid_argument("region " + std::to_string(i) + " is of image " + std::to_string(image) + ", of " +
                                  std::to_string(images));
    }
    const float* const corners = regions.corners + 4 * i;
    checked.push_back({.image = static_cast<std::size_t>(image),
                       .rows = extent_of(corners[1], corners[3], cells.rows, cells),
                       .columns = extent_of(corners[0], corners[2], cells.columns, cells)});
  }
  return checked;
}

// Keeps the larger of what there is and a multiple of pixels; begins with the multiple.
void keep_largest(const float* pixels, float weight, std::size_t channels, bool begins, float* largest) noexcept {
  if (begins) {
    for (std::size_t c = 0; c < channels; ++c) largest[c] = weight * pixels[c];
    return;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const float product = weight * pixels[c];
    largest[c] = largest[c] < product ? product : largest[c];
  }
}

// What one thread works in.
struct Workspace {
  CellTaps rows, columns;
  std::vector<RegionSample> row_samples, column_samples;
  std::vector<float> gathered, row, cells;
};

class Alignment {
 public:
  Alignment(const RegionImages& images, const std::vector<Region>& regions, const RegionCells& cells, float* output,
            const ExecutionTarget& target)
      : images_(images),
        regions_(regions),
        cells_(cells),
        output_(output),
        kernels_(target.kernels()),
        num_threads_(target.num_threads),
        channels_last_(
            reinterpret_cast<float*>(thread_scratch(images.images * pixels() * images.channels * sizeof(float)))) {}

  void run() {
    transpose_images();
    std::vector<Workspace> workspaces(static_cast<std::size_t>(num_threads_));
    std::atomic<bool> has_failed = false;
    parallel_for(regions_.size(), num_threads_, [&](std::size_t region, int slot) noexcept {
      try {
        Workspace& workspace = workspaces[static_cast<std::size_t>(slot)];
        cells_.largest ? take_largest(region, workspace) : take_means(region, workspace);
      } catch (const std::bad_alloc&) {
        has_failed = true;
      }
    });
    if (has_failed) throw std::bad_alloc();
  }

 private:
  std::size_t pixels() const { return images_.height * images_.width; }

  // {N, C, H, W} to {N, H, W, C}.
  void transpose_images() {
    constexpr std::size_t kPixelsOfTask = 256;
    const std::size_t tasks = (pixels() + kPixelsOfTask - 1) / kPixelsOfTask;
    parallel_for(images_.images * tasks, num_threads_, [&](std::size_t task, int) noexcept {
      const std::size_t image = task / tasks, first = task % tasks * kPixelsOfTask;
      const std::size_t count = std::min(kPixelsOfTask, pixels() - first);
      transpose(images_.values + image * pixels() * images_.channels + first, pixels(), images_.channels, count,
                channels_last_ + (image * pixels() + first) * images_.channels);
    });
  }

  // Rows of count elements each to count rows.
  void transpose(const float* input, std::size_t row_step, std::size_t rows, std::size_t count,
                 float* output) const noexcept {
    kernels_.pack->gather_groups({.columns = reinterpret_cast<const std::uint8_t*>(input),
                                  .column_stride = row_step * sizeof(float),
                                  .count = rows,
                                  .k = count * sizeof(float),
                                  .flip = 0,
                                  .output = reinterpret_cast<std::uint8_t*>(output),
                                  .group_stride = rows * sizeof(float)});
  }

  void take_means(std::size_t number, Workspace& workspace) const {
    const Region& region = regions_[number];
    const std::size_t channels = images_.channels, count = cells_.rows * cells_.columns;
    auto& [rows, columns, row_samples, column_samples, gathered, row, cells] = workspace;
    rows.find(region.rows, cells_.rows, images_.height);
    columns.find(region.columns, cells_.columns, images_.width);
    cells.assign(count * channels, 0);
    if (!rows.pixels().empty() && !columns.pixels().empty()) {
      const std::size_t lanes = columns.pixels().size() * channels;
      row.resize(lanes);
      const float* source = channels_last_ + region.image * pixels() * channels;
      std::size_t step = images_.width * channels;
      if (rows.has_gaps() || columns.has_gaps()) {
        gather(source, rows, columns, gathered);
        source = gathered.data();
        step = lanes;
      } else {
        source += rows.pixels().front() * step + columns.pixels().front() * channels;
      }
      for (std::size_t y = 0; y < cells_.rows; ++y) {
        if (rows.is_empty(y)) continue;
        kernels_.interpolate->interpolate({.input = source,
                                           .input_step = step,
                                           .places = &rows.place(y),
                                           .outputs = 1,
                                           .lanes = lanes,
                                           .output = row.data(),
                                           .output_step = lanes});
        float* const cells_of_row = cells.data() + y * cells_.columns * channels;
        kernels_.interpolate->interpolate({.input = row.data(),
                                           .input_step = channels,
                                           .places = columns.places(),
                                           .outputs = cells_.columns,
                                           .lanes = channels,
                                           .output = cells_of_row,
                                           .output_step = channels});
        for (std::size_t x = 0; x < cells_.columns; ++x) {
          if (columns.is_empty(x)) std::fill_n(cells_of_row + x * channels, channels, 0.0F);
        }
      }
    }
    transpose(cells.data(), channels, count, channels, output_ + number * count * channels);
  }

  void take_largest(std::size_t number, Workspace& workspace) const {
    const Region& region = regions_[number];
    const std::size_t channels = images_.channels, count = cells_.rows * cells_.columns;
    find_samples(region.rows, cells_.rows, images_.height, workspace.row_samples);
    find_samples(region.columns, cells_.columns, images_.width, workspace.column_samples);
    workspace.cells.assign(count * channels, 0);
    const float* const image = channels_last_ + region.image * pixels() * channels;
    for (std::size_t cell = 0; cell < count; ++cell) {
      const RegionSample* const rows = workspace.row_samples.data() + cell / cells_.columns * region.rows.samples;
      const RegionSample* const columns =
          workspace.column_samples.data() + cell % cells_.columns * region.columns.samples;
      float* const largest = workspace.cells.data() + cell * channels;
      for (std::size_t i = 0; i < region.rows.samples * region.columns.samples; ++i) {
        keep_largest_of(image, rows[i / region.columns.samples], columns[i % region.columns.samples], i == 0, largest);
      }
    }
    transpose(workspace.cells.data(), channels, count, channels, output_ + number * count * channels);
  }

  // Of the pixels that one sample is between.
  void keep_largest_of(const float* image, const RegionSample& row, const RegionSample& column, bool begins,
                       float* largest) const noexcept {
    const std::size_t channels = images_.channels;
    if (row.is_outside || column.is_outside) {
      for (std::size_t c = 0; c < channels; ++c) largest[c] = begins || largest[c] < 0 ? 0 : largest[c];
      return;
    }
    const float* const low = image + row.low * images_.width * channels;
    const float* const high = image + row.high * images_.width * channels;
    keep_largest(low + column.low * channels, row.low_weight * column.low_weight, channels, begins, largest);
    keep_largest(low + column.high * channels, row.low_weight * column.high_weight, channels, false, largest);
    keep_largest(high + column.low * channels, row.high_weight * column.low_weight, channels, false, largest);
    keep_largest(high + column.high * channels, row.high_weight * column.high_weight, channels, false, largest);
  }

  void gather(const float* source, const CellTaps& rows, const CellTaps& columns, std::vector<float>& gathered) const {
    const std::size_t channels = images_.channels;
    gathered.resize(rows.pixels().size() * columns.pixels().size() * channels);
    float* next = gathered.data();
    for (const std::size_t y : rows.pixels()) {
      for (const std::size_t x : columns.pixels()) {
        std::memcpy(next, source + (y * images_.width + x) * channels, channels * sizeof(float));
        next += channels;
      }
    }
  }

  RegionImages images_;
  const std::vector<Region>& regions_;
  RegionCells cells_;
  float* output_;
  const KernelTable& kernels_;
  int num_threads_;
  float* channels_last_;  // {N, H, W, C}
};

}  // namespace

void roi_align(const RegionImages& images, const Regions& regions, const RegionCells& cells, float* output,
               const ExecutionTarget& target) {
  const std::size_t elements = regions.count * images.channels * cells.rows * cells.columns;
  if (elements == 0) return;
  const std::vector<Region> checked = checked_regions(regions, cells, images.images);
  if (images.height * images.width == 0) {
    std::fill_n(output, elements, 0.0F);
    return;
  }
  Alignment(images, checked, cells, output, target).run();
}

}  // namespace dmlcpu
