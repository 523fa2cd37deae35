// The normative arithmetic of cast.h in plain C++.
#include <cstdint>
#include <cstring>

#include "kernels/cast/cast.h"

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"
#include "kernels/lanes/scalar.inl.h"

inline Floats load(const Half* values) noexcept { return widen(*values); }
inline void store(Half* values, Floats lanes) noexcept { *values = narrow(lanes); }
inline Floats load_first(const Half*, std::size_t, float fill) noexcept { return fill; }
inline void store_first(Half*, std::size_t, Floats) noexcept {}

// after the lanes
#include "kernels/cast/runs.inl.h"

}  // namespace

constinit const CastKernels scalar::cast = kRuns;

}  // namespace dmlcpu
