// depthwise_planes.h with AVX512_VBMI: vpermb brings 16 lanes their taps, vpdpbusd multiplies and adds them. Four
// channels are convolved at a time, so that their codes fill a vector.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/depthwise_planes/depthwise_planes.h"

#ifndef __AVX512VBMI__
#error "compile with AVX512_VBMI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/depthwise_planes/vbmi_channels.inl.h"
#include "kernels/depthwise_planes/vbmi_descent.inl.h"
#include "kernels/depthwise_planes/vbmi_windows.inl.h"

void convolve(const DepthwisePlanesRun& run) noexcept {
  const bool is_3x3 = run.rows == 3 && run.columns == 3, is_5x5 = run.rows == 5 && run.columns == 5;
  if (is_3x3 && run.row_stride == 1) return descend<Window{3, 1}>(run);
  if (is_3x3 && run.row_stride == 2) return descend<Window{3, 2}>(run);
  if (is_5x5 && run.row_stride == 1) return descend<Window{5, 1}>(run);
  if (is_5x5 && run.row_stride == 2) return descend<Window{5, 2}>(run);
  if (is_3x3) return convolve_windows<3>(run);
  if (is_5x5) return convolve_windows<5>(run);
  convolve_windows<0>(run);
}

}  // namespace

constinit const DepthwisePlanesKernels avx512_vbmi::depthwise_planes = {.convolve = convolve};

}  // namespace dmlcpu
