#include "operators/resampling/grid_places.h"

#include "operators/attributes.h"

namespace dmlcpu {
namespace {

// As nearbyint(), which is a call for each element: to an even number where two are as near.
float nearest(float place) noexcept {
  const std::int32_t below = whole_of(place);
  const float distance = place - static_cast<float>(below);
  const std::int32_t is_above = static_cast<std::int32_t>(distance > 0.5F);
  const std::int32_t is_tied = static_cast<std::int32_t>(distance == 0.5F);
  return static_cast<float>(below + (is_above | (is_tied & below & 1)));
}

}  // namespace

GridPlaces::GridPlaces(const OperatorDesc& desc)
    : linear(index_attribute(desc, "interpolation", 2) == 1),
      border(index_attribute(desc, "padding", 2) == 1),
      coordinates(static_cast<Coordinates>(index_attribute(desc, "coordinates", 3))) {}

void GridPlaces::find(std::int64_t size, std::size_t count, float* entries) const noexcept {
  const auto length = static_cast<float>(size);
  const float lowest = border ? 0.0F : -2.0F, highest = border ? length - 1.0F : length + 1.0F;
  if (coordinates == Coordinates::of_centres) {
    for (std::size_t i = 0; i < count; ++i) entries[i] = (entries[i] + 1.0F) / 2.0F * (length - 1.0F);
  } else if (coordinates == Coordinates::of_edges) {
    for (std::size_t i = 0; i < count; ++i) entries[i] = ((entries[i] + 1.0F) * length - 1.0F) / 2.0F;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const float place = entries[i] > lowest ? entries[i] : lowest;  // which what is no number is not
    entries[i] = place < highest ? place : highest;
  }
  if (linear) return;
  for (std::size_t i = 0; i < count; ++i) entries[i] = nearest(entries[i]);
}

}  // namespace dmlcpu
