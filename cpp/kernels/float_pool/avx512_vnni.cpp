// float_pool.h for AVX-512: four vectors of 16 lanes at a time.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/float_pool/float_pool.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/lanes/avx512_vnni.inl.h"

inline Floats load_between(const float* values, std::ptrdiff_t begin, std::ptrdiff_t end, float fill) noexcept {
  const auto before = first_lanes(static_cast<std::size_t>(begin));
  const auto mask = static_cast<__mmask16>(first_lanes(static_cast<std::size_t>(end)) & ~before);
  return _mm512_mask_loadu_ps(spread(fill), mask, values);
}

inline Floats even_lanes(Floats first, Floats second) noexcept {
  const __m512i even_i32x16 = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(first, even_i32x16, second);
}

using Lanes = __mmask16;
inline Lanes lanes_of(unsigned bits) noexcept { return static_cast<Lanes>(bits); }
inline Lanes common(Lanes a, Lanes b) noexcept { return static_cast<Lanes>(a & b); }
inline Floats load_of(const float* values, Lanes lanes) noexcept { return _mm512_maskz_loadu_ps(lanes, values); }

using Found = Mask;
inline Found noted(Found found, Mask mask) noexcept { return either(found, mask); }

// after the lanes
#include "kernels/float_pool/planes.inl.h"
// after the planes
#include "kernels/float_pool/windows.inl.h"
// after the windows
#include "kernels/float_pool/pixels.inl.h"

}  // namespace

constinit const FloatPoolKernels avx512_vnni::float_pool = kKernels;

}  // namespace dmlcpu
