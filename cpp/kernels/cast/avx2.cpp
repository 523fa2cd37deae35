// cast.h for AVX2. Bound by memory.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cast/cast.h"

namespace dmlcpu {
namespace {

#include "kernels/cast/elements.inl.h"
#include "kernels/half.inl.h"

constexpr std::size_t kLanes = 8;

void float16_to_float32(const void* input, std::size_t count, void* output) noexcept {
  const Half* values = static_cast<const Half*>(input);
  float* results = static_cast<float*>(output);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i value_f16x8 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + i));
    _mm256_storeu_ps(results + i, _mm256_cvtph_ps(value_f16x8));
  }
  for (; i < count; ++i) results[i] = widen(values[i]);
}

void float32_to_float16(const void* input, std::size_t count, void* output) noexcept {
  const float* values = static_cast<const float*>(input);
  Half* results = static_cast<Half*>(output);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i result_f16x8 =
        _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(results + i), result_f16x8);
  }
  for (; i < count; ++i) results[i] = narrow(values[i]);
}

}  // namespace

constinit const CastKernels avx2::cast = {
    .uint8_to_int32 = to_int32_run<std::uint8_t>,
    .int8_to_int32 = to_int32_run<std::int8_t>,
    .float32_to_int32 = to_int32_run<float>,
    .float16_to_float32 = float16_to_float32,
    .float32_to_float16 = float32_to_float16,
};

}  // namespace dmlcpu
