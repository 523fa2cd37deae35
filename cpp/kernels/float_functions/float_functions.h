// Element-wise functions of runs of float32 (ELEMENT_WISE_BINARY, ELEMENT_WISE_UNARY, ROTARY_EMBEDDING).
//
//   binary   add, subtract, multiply, divide
//            maximum       a where a > b or a is NaN, else b
//            minimum       a where a < b or a is NaN, else b
//   unary    relu          0 where x < 0, else x
//            leaky_relu    x * alpha where x < 0, else x
//            clip          alpha where x < alpha, else beta where x > beta, else x; beta where beta < alpha
//            hard_sigmoid  x * alpha + beta, clipped to 0 and 1
//            reciprocal    1 / x
//            square_root, negate, identity
//            floor, ceil, round    to integers: downwards, upwards, to the nearest (half to even)
//            gelu          x * 0.5 * (error_function(x / alpha) + 1), from left to right
//            gated         x * logistic(x * alpha)
//            tanh_gelu     x * logistic(x * (x * beta * x + alpha)), the products from left to right
//            quantized_to_16_bits
//                          x / alpha between beta and beta + 65535, rounded half to even, * alpha: what QuantizeLinear
//                          and DequantizeLinear make of x by codes of 16 bits and the scale alpha; beta is the least
//                          code less the zero point
//            quantized_to_float8_e4m3, quantized_to_float8_e5m2
//                          x / alpha rounded to FLOAT8E4M3FN or FLOAT8E5M2, half to even, of what is beyond its range
//                          to the largest finite value, * alpha: what the two nodes make of x by such codes and the
//                          scale alpha
//            absolute      x without its sign
//            softsign      x / (|x| + 1)
//            softplus      maximum of x and 0, + logarithm(exponential(-|x|) + 1)
//            mish          x * (n / (n + 2)), n = e * (e + 2), e = exponential(minimum of x and 20)
//            elu           maximum of x and 0, + (exponential(minimum of x and 0 / beta) - 1) * alpha
//            hard_swish    x * hard_sigmoid
//            sign          1 where x > 0, -1 where x < 0, else x
//            cube          x * x * x
//            reciprocal_square_root    1 / square_root
//            sigmoid, tanh, exponential, error_function, logarithm
//                          logistic, hyperbolic_tangent, exponential, error_function, logarithm of
//                          lanes/functions.inl.h, where their errors stand
//            hyperbolic_sine, hyperbolic_cosine    of the same file
//            sine, cosine, arcsine, arccosine, arctangent    of lanes/trigonometry.inl.h
//   rotate   of pairs of elements: first * first_cosine - second * first_sine
//                                  second * second_cosine + first * second_sine
//
// float32, each operation rounded once, none fused but within those from sigmoid on.
// NaN gives NaN everywhere but in quantized_to_16_bits, where a quotient that is none has the least code. Zeros are
// equal: of a +0 and a -0, maximum and minimum take b.
//
// A binary run has rows, as far apart as their strides say: a channel's number beside its pixels is an input that
// repeats within a row, a bias one whose rows lie 0 apart. So has a rotation, whose outputs overlap nothing.
//
// Contract: count elements of output are written, count of each input are read, or one where it repeats, of each row,
// nothing else; output may be exactly an input that does not repeat, of rows as far apart and not 0, and overlaps none
// otherwise; no alignment beyond the element's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

// The places of the functions in FloatFunctionKernels; Python names them in onnx/rules/native_functions.py.
enum class FloatBinary : std::uint8_t { add, subtract, multiply, divide, maximum, minimum };
enum class FloatUnary : std::uint8_t {
  relu,
  sigmoid,
  tanh,
  exponential,
  square_root,
  reciprocal,
  error_function,
  hard_sigmoid,
  clip,
  leaky_relu,
  identity,
  negate,
  gelu,
  logarithm,
  gated,
  tanh_gelu,
  floor,
  ceil,
  round,
  sine,
  cosine,
  quantized_to_16_bits,
  quantized_to_float8_e4m3,
  quantized_to_float8_e5m2,
  absolute,
  softsign,
  softplus,
  mish,
  elu,
  hard_swish,
  arctangent,
  arcsine,
  arccosine,
  hyperbolic_sine,
  hyperbolic_cosine,
  sign,
  cube,
  reciprocal_square_root
};
inline constexpr std::size_t kFloatBinaryCount = 6, kFloatUnaryCount = 38;

struct FloatBinaryRun {
  const float* a;
  const float* b;
  bool a_repeats;
  bool b_repeats;
  float* output;
  std::size_t count;  // of a row
  std::size_t rows = 1;
  std::ptrdiff_t a_row_stride = 0, b_row_stride = 0, output_row_stride = 0;  // elements
};

struct FloatUnaryRun {
  const float* input;
  float* output;
  std::size_t count;
  float alpha;
  float beta;
};

// A half is what all pairs have in one place: of the input, the output, or the angles' cosines or sines.
struct RotationHalf {
  const float* input;
  const float* cosines;
  const float* sines;
  float* output;
};

struct RotationRun {
  RotationHalf first, second;
  std::size_t count;  // of a row
  std::size_t rows;
  std::ptrdiff_t input_row_stride, cosines_row_stride, sines_row_stride, output_row_stride;  // elements, of both halves
};

using FloatBinaryFunction = void (*)(const FloatBinaryRun& run) noexcept;
using FloatUnaryFunction = void (*)(const FloatUnaryRun& run) noexcept;

struct FloatFunctionKernels {
  FloatBinaryFunction binary[kFloatBinaryCount];
  FloatUnaryFunction unary[kFloatUnaryCount];
  void (*rotate)(const RotationRun& run) noexcept;
};

namespace scalar {
extern const FloatFunctionKernels float_functions;
}
namespace avx2 {
extern const FloatFunctionKernels float_functions;
}
namespace avx512_vnni {
extern const FloatFunctionKernels float_functions;
}

}  // namespace dmlcpu
