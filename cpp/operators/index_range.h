// Which positions along an axis stay within its bounds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dmlcpu {

// The indices i of [0, count) with 0 <= start + i * step < limit; an empty range is begin == end.
struct IndexRange {
  std::int64_t begin, end;

  std::int64_t count() const { return end - begin; }
};

inline IndexRange indices_inside(std::int64_t start, std::int64_t step, std::int64_t limit, std::int64_t count) {
  const std::int64_t below = start >= 0 ? 0 : (-start + step - 1) / step;              // indices before the range
  const std::int64_t not_above = start >= limit ? 0 : (limit - 1 - start) / step + 1;  // indices up to its end
  const std::int64_t begin = std::min(below, count);
  return {begin, std::max(begin, std::min(not_above, count))};
}

}  // namespace dmlcpu
