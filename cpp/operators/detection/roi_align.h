// The mean of samples in the cells of regions of images (ONNX's RoiAlign, DirectML's DML_ROI_ALIGN_OPERATOR_DESC with
// the average), or the largest. A function of arrays as non_max_suppression.h: how many regions there are only a run
// tells.
//
// A region is cut into cells, a cell has a grid of samples, and a sample is interpolated between four pixels. Weights
// of pixels are products of those along y and x, so the samples of a cell are one weighted sum over rows of pixels,
// then one over columns, with all channels in the lanes of vectors (kernels/interpolate/interpolate.h).
//
// The largest is that of the products of pixels and weights, four for each sample, as ONNX's operator has it, and not
// of their sums; a sample outside is 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/operator.h"

namespace dmlcpu {

struct RegionImages {
  const float* values;  // {images, channels, height, width}
  std::size_t images, channels, height, width;
};

struct Regions {
  const float* corners;        // {count, 4}: x, y, x, y
  const std::int64_t* images;  // {count}
  std::size_t count;
};

struct RegionCells {
  std::size_t rows, columns;  // of a region, in cells
  std::size_t samples;        // of a cell, along each axis; 0 for as many as it has pixels
  float scale;                // pixels of the image to a unit of the corners
  bool half_pixel;  // whether pixels are centred half a unit from their corners; else a region has a pixel at least
  bool largest;     // in place of the mean
};

// output: {count, channels, rows, columns}. Throws std::invalid_argument, before any is written, where a region is of
// no image, or so large that a cell would have more than 65535 samples along an axis.
void roi_align(const RegionImages& images, const Regions& regions, const RegionCells& cells, float* output,
               const ExecutionTarget& target);

}  // namespace dmlcpu
