// Scale and zero point of codes that hold a range of floats, as DYNAMIC_QUANTIZE_LINEAR and QUANTIZE_BY_RANGE compute
// them.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/range/range.h"

namespace dmlcpu {

struct DynamicCodes {
  float scale;
  float operand;     // of the kernel that makes the codes: the reciprocal, to multiply by, or the scale, to divide by
  float zero_point;  // in the offset domain (kernels/quantize/quantize.h), an integer of 0..255
};

// DirectML's, of UINT8 or INT8: nothing is divided but 1. The range includes 0; lowest_code is the type's lowest: 0 or
// -128. The rounding happens before the clamp, and the lowest value of the type is inside the fused sum, so the zero
// point is computed in the type's own domain and moved to the offset domain after that. NaN (0 * inf, of a range
// without extent or whose lowest is infinite) fails every comparison and becomes the lowest code.
inline DynamicCodes dynamic_codes(const Range& range, float lowest_code) {
  DynamicCodes codes{};
  codes.scale = (range.highest - range.lowest) * (1.0F / 255.0F);
  codes.operand = 1.0F / codes.scale;
  const float zero_point = std::nearbyint(std::fma(-range.lowest, codes.operand, lowest_code)) - lowest_code;
  codes.zero_point = zero_point > 0.0F ? std::min(zero_point, 255.0F) : 0.0F;
  return codes;
}

// ONNX's, of UINT8: all quotients are divisions. The scale of a range without extent is 1, as onnxruntime has it.
inline DynamicCodes divided_codes(const Range& range) {
  DynamicCodes codes{};
  const float extent = range.highest - range.lowest;
  codes.scale = codes.operand = extent == 0.0F ? 1.0F : extent / 255.0F;
  const float zero_point = std::nearbyint(-range.lowest / codes.scale);
  codes.zero_point = zero_point > 0.0F ? std::min(zero_point, 255.0F) : 0.0F;  // NaN becomes 0, as above
  return codes;
}

}  // namespace dmlcpu
