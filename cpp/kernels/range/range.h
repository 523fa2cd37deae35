// The range of one run of floating elements, for DYNAMIC_QUANTIZE_LINEAR and QUANTIZE_BY_RANGE.
//
//   lowest = min(lowest, every input[i]);  highest = max(highest, every input[i]);  NaN is skipped
//
// FLOAT16 is widened first. The two results are read and extended, so that runs chain; a caller starts them at 0. Which
// zero (+0 or -0) a result of 0 is, is not defined: no later arithmetic depends on it.
//
// Contract: count elements are read, nothing else; no alignment beyond the element's own.
#pragma once

#include <cstddef>

namespace dmlcpu {

struct Range {
  float lowest;
  float highest;
};

using RangeFunction = void (*)(const void* input, std::size_t count, Range& range) noexcept;

struct RangeKernels {
  RangeFunction float32;
  RangeFunction float16;
};

namespace scalar {
extern const RangeKernels range;
}
namespace avx2 {
extern const RangeKernels range;
}
namespace avx512_vnni {
extern const RangeKernels range;
}

}  // namespace dmlcpu
