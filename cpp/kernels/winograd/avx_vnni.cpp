// Winograd's convolution of winograd.h for AVX-VNNI: vpdpwssd adds products of two pairs of 16 bits to a 32-bit lane
// without saturation.
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "kernels/winograd/winograd.h"

#ifndef __AVXVNNI__
#error "compile with AVX-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/winograd/transforms.inl.h"
#include "kernels/winograd/vectors_avx2.inl.h"

inline __m256i accumulate(__m256i sum_i32x8, __m256i a_i16x16, __m256i b_i16x16) noexcept {
  return _mm256_dpwssd_avx_epi32(sum_i32x8, a_i16x16, b_i16x16);
}

#include "kernels/winograd/vectors.inl.h"

}  // namespace

constinit const WinogradKernels avx_vnni::winograd = {.nr = kNr,
                                                      .mr = kMr,
                                                      .channels_of_step = 16,
                                                      .products_per_cycle = 32,
                                                      .cycles_of_input = 8,
                                                      .cycles_of_output = 16,
                                                      .cycles_of_window = 4,
                                                      .transform_input = transform_input,
                                                      .transform_filter = transform_filter,
                                                      .multiply = multiply,
                                                      .transform_output = transform_output};

}  // namespace dmlcpu
