#include "reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dmlcpu::test {

std::uint8_t reference_code(float scaled, float zero_point, std::uint8_t flip) {
  float code = 0.0f;
  if (!std::isnan(scaled)) code = std::clamp(std::nearbyint(scaled) + zero_point, 0.0f, 255.0f);
  return static_cast<std::uint8_t>(static_cast<int>(code) ^ flip);
}

float reference_widen(std::uint16_t half) {
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  const int exponent = (half >> 10) & 31, mantissa = half & 1023;
  if (exponent == 31 && mantissa != 0) {
    const std::uint32_t bits = (half & 0x8000U) << 16 | 0x7fc00000U | (half & 1023U) << 13;
    float nan;
    std::memcpy(&nan, &bits, sizeof(nan));
    return nan;
  }
  if (exponent == 31) return sign * HUGE_VALF;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
}

std::uint16_t reference_narrow(float value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return static_cast<std::uint16_t>(sign | 0x7e00 | static_cast<int>((bits >> 13) & 1023));
  }
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0.0) return static_cast<std::uint16_t>(sign);
  if (magnitude >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00);
  // Units of the last place: 2^-24 up to the first normal number, then relative to the exponent.
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + units));
}

std::int32_t reference_wrap(std::int64_t value) { return static_cast<std::int32_t>(static_cast<std::uint64_t>(value)); }

float reference_folded(float (&lanes)[16]) {
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

float reference_exponential(float x) {
  constexpr float kRoundToInteger = 12582912.0f;
  const float coefficients[] = {
      0x1.6a3fb6p-10f, 0x1.1239ep-7f, 0x1.5558bep-5f, 0x1.555492p-3f, 0x1.fffffcp-2f, 1.0f, 1.0f};
  if (std::isnan(x)) return x;
  const float bounded = std::clamp(x, -104.0f, 89.0f);
  const float n = std::fma(bounded, 0x1.715476p+0f, kRoundToInteger) - kRoundToInteger;
  const float r = std::fma(n, -0x1.7f7d1cp-20f, std::fma(n, -0x1.62e4p-1f, bounded));
  float result = 0.0f;
  for (const float coefficient : coefficients) result = std::fma(result, r, coefficient);
  return std::ldexp(result, static_cast<int>(n));
}

}  // namespace dmlcpu::test
