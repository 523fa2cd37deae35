// The normative arithmetic of cast.h in plain C++.
#include <cstdint>
#include <cstring>

#include "kernels/cast/cast.h"

namespace dmlcpu {
namespace {

#include "kernels/cast/elements.inl.h"
#include "kernels/half.inl.h"

void float16_to_float32(const void* input, std::size_t count, void* output) noexcept {
  const Half* values = static_cast<const Half*>(input);
  float* results = static_cast<float*>(output);
  for (std::size_t i = 0; i < count; ++i) results[i] = widen(values[i]);
}

void float32_to_float16(const void* input, std::size_t count, void* output) noexcept {
  const float* values = static_cast<const float*>(input);
  Half* results = static_cast<Half*>(output);
  for (std::size_t i = 0; i < count; ++i) results[i] = narrow(values[i]);
}

}  // namespace

constinit const CastKernels scalar::cast = {
    .uint8_to_int32 = to_int32_run<std::uint8_t>,
    .int8_to_int32 = to_int32_run<std::int8_t>,
    .float32_to_int32 = to_int32_run<float>,
    .float16_to_float32 = float16_to_float32,
    .float32_to_float16 = float32_to_float16,
};

}  // namespace dmlcpu
