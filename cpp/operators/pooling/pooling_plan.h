// How the work of a pooling is cut: strips of channels, tasks of output rows, bands of rows that are staged together.
#pragma once

#include <cstdint>
#include <string>

#include "operators/operator.h"
#include "operators/pooling/pooling_geometry.h"

namespace dmlcpu {

struct PoolingPlan {
  // Input rows pass through memory where channels are neighbours, results leave through such memory.
  bool stages_input, stages_output;
  // What is staged are values, made once of codes that several windows read.
  bool stages_values;
  // A row is one run of lanes: windows of neighbouring outputs are one pixel apart, and so are their results. The
  // parameters repeat for each pixel.
  bool flat;

  std::int64_t strip_channels, strips;
  std::int64_t band_rows;  // output rows
  std::int64_t task_rows, tasks_of_slice;
  std::int64_t pixel_step;   // elements between staged pixels
  std::int64_t staged_rows;  // of the input, of one slice of depth
  std::int64_t staged_slices;
  std::int64_t lanes;  // that parameters are needed for

  PoolingPlan(const PoolingGeometry& geometry, int num_threads);

  std::int64_t task_count(const PoolingGeometry& geometry) const {
    return geometry.batch * geometry.axes[0].output * strips * tasks_of_slice;
  }
  std::string describe() const;
};

}  // namespace dmlcpu
