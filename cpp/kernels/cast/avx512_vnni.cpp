// cast.h for AVX-512. Bound by memory.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cast/cast.h"

namespace dmlcpu {
namespace {

#include "kernels/cast/elements.inl.h"

constexpr std::size_t kLanes = 16;

inline __mmask16 first_lanes(std::size_t count) noexcept { return static_cast<__mmask16>((1U << count) - 1); }

void float16_to_float32(const void* input, std::size_t count, void* output) noexcept {
  const std::uint16_t* values = static_cast<const std::uint16_t*>(input);
  float* results = static_cast<float*>(output);
  for (std::size_t i = 0; i < count; i += kLanes) {
    const __mmask16 lanes = first_lanes(count - i < kLanes ? count - i : kLanes);
    _mm512_mask_storeu_ps(results + i, lanes, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, values + i)));
  }
}

void float32_to_float16(const void* input, std::size_t count, void* output) noexcept {
  const float* values = static_cast<const float*>(input);
  std::uint16_t* results = static_cast<std::uint16_t*>(output);
  for (std::size_t i = 0; i < count; i += kLanes) {
    const __mmask16 lanes = first_lanes(count - i < kLanes ? count - i : kLanes);
    const __m256i result_f16x16 =
        _mm512_cvtps_ph(_mm512_maskz_loadu_ps(lanes, values + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(results + i, lanes, result_f16x16);
  }
}

}  // namespace

constinit const CastKernels avx512_vnni::cast = {
    .uint8_to_int32 = to_int32_run<std::uint8_t>,
    .int8_to_int32 = to_int32_run<std::int8_t>,
    .float32_to_int32 = to_int32_run<float>,
    .float16_to_float32 = float16_to_float32,
    .float32_to_float16 = float32_to_float16,
};

}  // namespace dmlcpu
