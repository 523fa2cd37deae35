// The filter of a float convolution as a product reads it: in panels of output channels of a group, as many as the
// kernel wants, the terms of a panel one after the other, each with the panel's channels: those of the last one, filled
// up with zeros to whole vectors, if there are more than one has.
//
//   group 0: panel | panel | ... | last panel,  group 1: ...,  and of several taps whether all elements are finite
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.h"
#include "operators/convolution/convolution_geometry.h"

namespace dmlcpu {

// Elements of a row of a panel of so many channels.
std::int64_t float_panel_row(std::int64_t columns);

class FloatFilterPanels {
 public:
  FloatFilterPanels(const ConvolutionGeometry& geometry, const KernelTable& kernels);

  // Channels of a panel.
  std::int64_t columns() const { return columns_; }
  // Elements of a group's panels, and of all that is packed.
  std::int64_t group_floats() const;
  std::int64_t floats() const;
  // From a filter of the geometry's strides.
  void pack(const float* filter, float* packed) const;

  // Whether all elements are, of a packed filter of several taps.
  bool are_finite(const float* packed) const { return packed[geometry_.groups * group_floats()] != 0.0F; }

 private:
  std::int64_t taps() const { return geometry_.kernel_height * geometry_.kernel_width; }
  void pack_panel(const float* filter, std::int64_t count, float* packed) const;

  ConvolutionGeometry geometry_;
  const PackKernels* pack_;
  std::int64_t columns_;
};

}  // namespace dmlcpu
