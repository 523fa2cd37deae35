// How the work of a pooling is cut: strips of channels, tasks of output rows, bands of rows that are staged together.
#pragma once

#include <cstddef>
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
  // Each channel has one window, all of its plane, whose codes follow one another, as the results do.
  bool whole_planes;

  std::int64_t strip_channels, strips;
  std::int64_t band_rows;  // output rows
  std::int64_t task_rows, tasks_of_slice;
  std::int64_t pixel_step;   // elements between staged pixels
  std::int64_t staged_rows;  // of the input, of one slice of depth
  std::int64_t staged_slices;
  std::int64_t lanes;  // that parameters are needed for

  // Planes of at least so many codes are averaged as they lie.
  PoolingPlan(const PoolingGeometry& geometry, std::size_t least_plane, int num_threads);

  std::int64_t task_count(const PoolingGeometry& geometry) const {
    return geometry.batch * geometry.axes[0].output * strips * tasks_of_slice;
  }
  std::string describe() const;
};

}  // namespace dmlcpu
