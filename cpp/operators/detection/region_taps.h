// Where the cells of a region read an image, along one axis: the pixels with their weights in a mean, and the samples.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/interpolate/interpolate.h"

namespace dmlcpu {

// A region along one axis, in pixels.
struct RegionExtent {
  float start, cell;
  std::size_t samples;  // of a cell
};

// A sample along one axis: between two pixels, which are one at the end; outside the image it counts as 0.
struct RegionSample {
  std::size_t low, high;
  float low_weight, high_weight;
  bool is_outside;
};

// The samples of all cells along an axis of at least one pixel.
void find_samples(const RegionExtent& extent, std::size_t cells, std::size_t length,
                  std::vector<RegionSample>& samples);

// The pixels along an axis that some cell reads, ascending, and for each cell which of these, with which weights.
class CellTaps {
 public:
  void find(const RegionExtent& extent, std::size_t cells, std::size_t length);

  const std::vector<std::size_t>& pixels() const { return pixels_; }
  bool has_gaps() const { return !pixels_.empty() && pixels_.back() - pixels_.front() + 1 != pixels_.size(); }
  // Of the pixels that are read; one with weight 0 where a cell reads none.
  const InterpolatedPlace& place(std::size_t cell) const { return places_[cell]; }
  const InterpolatedPlace* places() const { return places_.data(); }
  bool is_empty(std::size_t cell) const { return ends_[cell] == (cell == 0 ? 0 : ends_[cell - 1]); }

 private:
  struct Tap {
    std::size_t pixel;
    float weight;
  };

  void add_sample(const RegionSample& sample, std::size_t first);
  void add_tap(std::size_t pixel, float weight, std::size_t first);
  void place_cells(float samples);

  std::vector<std::size_t> pixels_, ends_;
  std::vector<Tap> taps_;
  std::vector<float> weights_;
  std::vector<InterpolatedPlace> places_;
};

}  // namespace dmlcpu
