// The normative arithmetic of float_pool.h in plain C++.
#include <cstdint>
#include <cstring>

#include "kernels/float_pool/float_pool.h"

namespace dmlcpu {
namespace {

#include "kernels/lanes/scalar.inl.h"

// Called for lanes that exist alone.
inline Floats load_between(const float* values, std::ptrdiff_t, std::ptrdiff_t, float) noexcept { return *values; }

inline Floats even_lanes(Floats first, Floats) noexcept { return first; }

using Lanes = unsigned;
inline Lanes lanes_of(unsigned bits) noexcept { return bits; }
inline Lanes common(Lanes a, Lanes b) noexcept { return a & b; }
inline Floats load_of(const float* values, Lanes lanes) noexcept { return lanes != 0 ? *values : 0.0f; }

// As wide as a float, so that compilers make vectors of both.
using Found = std::uint32_t;
inline Found noted(Found found, Found mask) noexcept { return found | mask; }

// after the lanes
#include "kernels/float_pool/planes.inl.h"
// after the planes
#include "kernels/float_pool/windows.inl.h"
// after the windows
#include "kernels/float_pool/pixels.inl.h"

}  // namespace

constinit const FloatPoolKernels scalar::float_pool = kKernels;

}  // namespace dmlcpu
