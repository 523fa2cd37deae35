#include "operators/detection/region_taps.h"

#include <algorithm>

namespace dmlcpu {

namespace {

// Up to a pixel outside a sample takes the pixel at the edge.
RegionSample sample_at(const RegionExtent& extent, std::size_t cell, std::size_t number, std::size_t length) {
  const float begin = extent.start + static_cast<float>(cell) * extent.cell;
  const float step = (static_cast<float>(number) + 0.5F) * extent.cell / static_cast<float>(extent.samples);
  const float position = begin + step;
  if (!(position >= -1 && position <= static_cast<float>(length)))
    return {.low = 0, .high = 0, .low_weight = 0, .high_weight = 0, .is_outside = true};
  const float inside = std::max(position, 0.0F);
  const auto low = static_cast<std::size_t>(inside);
  if (low + 1 >= length)
    return {.low = length - 1, .high = length - 1, .low_weight = 1, .high_weight = 0, .is_outside = false};
  const float above = inside - static_cast<float>(low);
  return {.low = low, .high = low + 1, .low_weight = 1.0F - above, .high_weight = above, .is_outside = false};
}

}  // namespace

void find_samples(const RegionExtent& extent, std::size_t cells, std::size_t length,
                  std::vector<RegionSample>& samples) {
  samples.clear();
  for (std::size_t cell = 0; cell < cells; ++cell) {
    for (std::size_t i = 0; i < extent.samples; ++i) samples.push_back(sample_at(extent, cell, i, length));
  }
}

void CellTaps::find(const RegionExtent& extent, std::size_t cells, std::size_t length) {
  pixels_.clear();
  taps_.clear();
  ends_.clear();
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const std::size_t first = taps_.size();
    for (std::size_t i = 0; i < extent.samples; ++i) add_sample(sample_at(extent, cell, i, length), first);
    std::sort(taps_.begin() + static_cast<std::ptrdiff_t>(first), taps_.end(),
              [](const Tap& a, const Tap& b) { return a.pixel < b.pixel; });
    ends_.push_back(taps_.size());
  }
  for (const Tap& tap : taps_) pixels_.push_back(tap.pixel);
  std::sort(pixels_.begin(), pixels_.end());
  pixels_.erase(std::unique(pixels_.begin(), pixels_.end()), pixels_.end());
  place_cells(static_cast<float>(extent.samples));
}

void CellTaps::add_sample(const RegionSample& sample, std::size_t first) {
  if (sample.is_outside) return;
  add_tap(sample.low, sample.low_weight, first);
  if (sample.high_weight > 0) add_tap(sample.high, sample.high_weight, first);
}

void CellTaps::add_tap(std::size_t pixel, float weight, std::size_t first) {
  for (std::size_t i = taps_.size(); i-- > first;) {
    if (taps_[i].pixel == pixel) {
      taps_[i].weight += weight;
      return;
    }
  }
  taps_.push_back({pixel, weight});
}

// Positions of samples ascend or descend from cell to cell, so no other cell reads a pixel between two of one cell.
void CellTaps::place_cells(float samples) {
  weights_.assign(taps_.size() + 1, 0);
  for (std::size_t i = 0; i < taps_.size(); ++i) weights_[i] = taps_[i].weight / samples;
  places_.clear();
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    if (begin == end) {
      places_.push_back({.first = 0, .count = 1, .weights = weights_.data() + taps_.size()});
    } else {
      const auto found = std::lower_bound(pixels_.begin(), pixels_.end(), taps_[begin].pixel);
      places_.push_back({.first = static_cast<std::size_t>(found - pixels_.begin()),
                         .count = end - begin,
                         .weights = weights_.data() + begin});
    }
    begin = end;
  }
}

}  // namespace dmlcpu
