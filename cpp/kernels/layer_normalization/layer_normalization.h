// Layer normalization of one row: of floats (LAYER_NORMALIZATION), or of 8-bit codes (QUANTIZED_LAYER_NORMALIZATION);
// of a group of channels, one behind the other (GROUP_NORMALIZATION); and of groups of channels of pixels, whose codes
// are neighbours (QUANTIZED_GROUP_NORMALIZATION).
//
//   floats   a = t(x[i]) * (1 / n);  d[i] = x[i] - a;  e = s(d[i]) / n;  v = s(d[i] * d[i]) / n + epsilon
//            w = max(fma(-e, e, v), epsilon), NaN if that is;  r = 1 / sqrt(w)
//            y[i] = fma((d[i] - e) * r, weight[i], bias[i]);  without a mean a and e are 0
//   group    of all elements of the channels a, d, e and r;  y[c][i] = (d[c][i] - e) * r * weight[c] + bias[c]
//   s        terms added to partial sum i % 16 in ascending order of i, from 0, squares by fma; the 16 partial sums
//            folded in halves: p[j] + p[j + 8] for j < 8, of these p[j] + p[j + 4] for j < 4, and so on
//   t        as s, but while 32 terms are left they go to partial sum i % 32; then p[j] + p[j + 16] for j < 16 are the
//            partial sums of the rest
//   sum      s(x[i])
//   columns  s(x[i][c]) / divisor of every column c, for all i
//   codes    y[i] = sat(rne(fma(fma(code[i], factor, offset), weight[i], bias[i])) + output_zero_point)
//   channels y[p][c] = sat(rne(fma(code[p][c], factor[c], offset[c])) + output_zero_point)
//
// float32, each operation rounded once, n rounded to float32. By rounding a is some units in the last place off the
// mean, which e mends. Of up to 22000 equal elements y is exactly the bias: a differs from x by less than
// (n / 32 + 10) * 2^-24 * x, so that d is k units in the last place of x or a with k * n < 2^24, its sums are exact,
// and e is d. (Unless the sum of x overflows or epsilon is 0, which may make NaN.)
//
// Factor and offset of a row of codes follow from its moments, which are exact integers:
// operators/normalization/quantized_layer_normalization.cpp and
// quantized_group_normalization.cpp say how. Codes and zero points are in the offset domain of add/add.h; rne rounds
// half to even, sat clamps to the output type and sends NaN to its lowest value.
//
// Contract: count >= 1 elements are read and written, of a group those of each channel, as many of weight and bias are
// read, of a group one for each channel, nothing else; output may be exactly input, and overlaps nothing otherwise; no
// alignment beyond the element's own. Moments: count <= 2^23. Of pixels, pixel_step codes apart, the channels are read
// and written and nothing between them. Moments of channels are added to what is there, of at most 2^16 pixels each
// time, so that from 0 on they stay below 2^32. Of columns, rows are step floats apart, and what is between them is not
// read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct FloatNormalization {
  const float* input;
  float* output;
  std::size_t count;
  const float* weight;
  const float* bias;
  float epsilon;
  bool uses_mean;  // else a and e are 0
};

struct FloatGroup {
  const float* input;
  float* output;
  std::size_t channels;  // at least one
  std::size_t count;     // of a channel's elements
  const float* weight;
  const float* bias;
  float epsilon;
};

struct FloatColumns {
  const float* input;
  std::size_t step;   // from row to row
  std::size_t count;  // of a column's floats
  std::size_t columns;
  float divisor;
  float* quotients;
};

struct CodeNormalization {
  const std::uint8_t* input;
  std::uint8_t* output;
  std::size_t count;
  const float* weight;
  const float* bias;
  float factor;
  float offset;
  std::uint8_t input_flip;
  float output_zero_point;
  std::uint8_t output_flip;
};

struct CodeMoments {
  std::uint64_t sum;
  std::uint64_t sum_of_squares;
};

struct ChannelCodes {
  const std::uint8_t* codes;
  std::size_t pixel_step;
  std::size_t pixels;
  std::size_t channels;
  std::uint8_t flip;
};

struct ChannelNormalization {
  ChannelCodes input;
  std::uint8_t* output;
  std::size_t output_pixel_step;
  const float* factor;
  const float* offset;
  float output_zero_point;
  std::uint8_t output_flip;
};

struct LayerNormalizationKernels {
  void (*floats)(const FloatNormalization& row) noexcept;
  void (*float_group)(const FloatGroup& group) noexcept;
  float (*sum)(const float* row, std::size_t count) noexcept;
  void (*column_quotients)(const FloatColumns& run) noexcept;
  CodeMoments (*moments)(const std::uint8_t* codes, std::size_t count, std::uint8_t flip) noexcept;
  void (*codes)(const CodeNormalization& row) noexcept;
  void (*channel_moments)(const ChannelCodes& run, std::uint32_t* sums, std::uint32_t* sums_of_squares) noexcept;
  void (*channels)(const ChannelNormalization& run) noexcept;
};

namespace scalar {
extern const LayerNormalizationKernels layer_normalization;
}
namespace avx2 {
extern const LayerNormalizationKernels layer_normalization;
}
namespace avx512_vnni {
extern const LayerNormalizationKernels layer_normalization;
}

}  // namespace dmlcpu
