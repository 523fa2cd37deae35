// The normative arithmetic of range.h in plain C++: a comparison with NaN is false, which skips it.
#include <cstdint>
#include <cstring>

#include "kernels/range/range.h"

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"

inline float to_float(float value) noexcept { return value; }
inline float to_float(Half value) noexcept { return widen(value); }

template <class Input>
void extend(const void* input, std::size_t count, Range& range) noexcept {
  const Input* values = static_cast<const Input*>(input);
  for (std::size_t i = 0; i < count; ++i) {
    const float value = to_float(values[i]);
    if (value < range.lowest) range.lowest = value;
    if (value > range.highest) range.highest = value;
  }
}

}  // namespace

constinit const RangeKernels scalar::range = {.float32 = extend<float>, .float16 = extend<Half>};

}  // namespace dmlcpu
