// Averages of windows of 8-bit codes (QUANTIZED_LINEAR_AVERAGE_POOLING), channels as lanes.
//
//   value(x, c)    = (x - input_zero_point[c]) * input_scale[c]
//   sum[p][c]      = ((0 + value(tap 0)) + value(tap 1)) + ...
//   output[p][c]   = sat(rne((sum / count) / output_scale[c]) + output_zero_point[c])
//
// float32: every difference, product, sum and quotient is rounded by itself (the difference is exact), so sums are
// taken in the order of the taps and quotients are the correctly rounded ones. rne rounds half to even; sat clamps to
// the output type and sends NaN to its lowest value.
//
// Codes go through one exclusive or into the offset domain 0..255 (code minus the type's lowest value): flip is 0x00
// for UINT8 and 0x80 for INT8, zero points are given in that domain, as integers of 0..255 held as floats.
//
// The taps of pixel p are a grid of taps[0] x taps[1] x taps[2], the last index running fastest: tap (i, j, k) of
// channel c stands at input[p * pixel_step + i * tap_steps[0] + j * tap_steps[1] + k * tap_steps[2] + c]. They are
// codes, or values that dequantize has made of codes where windows overlap and each code is read by several. There may
// be none; the sum is 0 then.
//
// Of planes each channel has one window, whose taps follow one another: tap i of channel c stands at
// input[c * channel_step + i]. They are from 32 to 2^16; fewer than least_plane are sooner averaged with channels as
// neighbours, even if they have to be made that first.
//
// Contract: reads and writes what the formulas name, nothing else; output overlaps no operand; no alignment beyond the
// element's own is assumed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

// One value for each channel.
struct PoolParameters {
  const float* input_zero_point;
  const float* input_scale;
  const float* output_scale;
  const float* output_zero_point;
};

// values[p * value_pixel_step + c] = value(codes[p * pixel_step + c], c)
struct PoolValues {
  const std::uint8_t* codes;
  std::size_t pixel_step;
  std::size_t pixels;
  std::size_t channels;
  PoolParameters parameters;
  std::uint8_t flip;
  float* values;
  std::size_t value_pixel_step;
};

template <class Element>
struct PoolRun {
  const Element* input;
  std::size_t taps[3];
  std::size_t tap_steps[3];
  float count;  // of elements that a sum is divided by
  std::size_t pixels;
  std::size_t pixel_step;
  std::size_t channels;
  PoolParameters parameters;
  std::uint8_t flip;
  std::uint8_t* output;
  std::size_t output_pixel_step;
};

struct PoolPlanes {
  const std::uint8_t* input;
  std::size_t channel_step;
  std::size_t taps;
  float count;
  std::size_t channels;
  PoolParameters parameters;
  std::uint8_t flip;
  std::uint8_t* output;  // channels follow one another
};

struct PoolKernels {
  void (*dequantize)(const PoolValues& run) noexcept;
  void (*average_codes)(const PoolRun<std::uint8_t>& run) noexcept;
  void (*average_values)(const PoolRun<float>& run) noexcept;
  void (*average_planes)(const PoolPlanes& run) noexcept;
  std::size_t least_plane;
};

namespace scalar {
extern const PoolKernels pool;
}
namespace avx2 {
extern const PoolKernels pool;
}
namespace avx512_vnni {
extern const PoolKernels pool;
}

}  // namespace dmlcpu
