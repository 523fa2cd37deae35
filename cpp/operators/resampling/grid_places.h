// Where in an image or a volume the entries of a grid are, for GRID_SAMPLE.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/operator.h"

namespace dmlcpu {

enum class Coordinates : std::uint8_t { of_edges, of_centres, in_pixels };

// What a grid's attributes ask for. Throws std::invalid_argument.
struct GridPlaces {
  explicit GridPlaces(const OperatorDesc& desc);

  // Makes places of entries along an axis of so many pixels: within reach of them, as of zeros beyond them everything
  // is alike; whole ones where the nearest pixel is wanted. What is no number is before the first pixel.
  void find(std::int64_t size, std::size_t count, float* entries) const noexcept;

  bool linear, border;
  Coordinates coordinates;
};

// The largest integer that is not above a place within reach.
inline std::int32_t whole_of(float place) noexcept {
  const auto towards_0 = static_cast<std::int32_t>(place);
  return towards_0 - static_cast<std::int32_t>(static_cast<float>(towards_0) > place);
}

// How far a place is beyond it. Adding 0 makes +0 of the -0 that a place may be.
inline float beyond(float place, std::int32_t whole) noexcept { return place - static_cast<float>(whole) + 0.0F; }

}  // namespace dmlcpu
