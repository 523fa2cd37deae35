// The maximum of floats that are neighbours, in loops that the compiler makes vectors of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace dmlcpu {

// The larger as the kernels of float_pool have it.
inline float larger(float a, float b) noexcept { return a > b || a != a ? a : b; }

inline constexpr std::size_t kFoldedLanes = 32;  // so many that the compiler makes vectors of them

// The same of a run of so many and more, from -infinity on: the first NaN, or of the largest elements the last, as
// zeros that differ in sign are equal. Those two are looked for where there are any; elements that change meanwhile are
// any.
inline float largest_of(const float* values, std::size_t count) noexcept {
  float best[kFoldedLanes];
  std::uint32_t is_nan[kFoldedLanes] = {};
  std::fill_n(best, kFoldedLanes, -std::numeric_limits<float>::infinity());
  const auto take = [&](const float* taken) {
    for (std::size_t lane = 0; lane < kFoldedLanes; ++lane) {
      const float value = taken[lane], other = best[lane];
      best[lane] = value > other ? value : other;
      is_nan[lane] |= static_cast<std::uint32_t>(value != value);
    }
  };
  for (std::size_t i = 0; i + kFoldedLanes <= count; i += kFoldedLanes) take(values + i);
  take(values + (count - kFoldedLanes));  // some of them twice
  for (std::size_t half = kFoldedLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) {
      best[lane] = best[lane + half] > best[lane] ? best[lane + half] : best[lane];
      is_nan[lane] |= is_nan[lane + half];
    }
  }
  for (std::size_t i = 0; is_nan[0] != 0 && i < count; ++i) {
    if (values[i] != values[i]) return values[i];
  }
  for (std::size_t end = count; best[0] == 0.0F && end > 0; --end) {
    if (values[end - 1] == 0.0F) return values[end - 1];
  }
  return best[0];
}

}  // namespace dmlcpu
