// depthwise.h for AVX2, exact: codes are widened to 16 bits and multiplied by vpmaddwd, even and odd bytes apart, as in
// gemm/avx2.cpp. Filters are widened once for a block of 8 lanes and, up to three groups, stay in registers.
#include <immintrin.h>

#include "kernels/depthwise/depthwise.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

struct Widened {
  __m256i even_i16x16, odd_i16x16;
};

inline __m256i load(const void* bytes) noexcept { return _mm256_loadu_si256(static_cast<const __m256i*>(bytes)); }

inline void store(std::int32_t* sums, __m256i acc_i32x8) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), acc_i32x8);
}

inline Widened widen_signed(__m256i codes_x32) noexcept {
  return {_mm256_srai_epi16(_mm256_slli_epi16(codes_x32, 8), 8), _mm256_srai_epi16(codes_x32, 8)};
}

inline __m256i multiply_add(__m256i acc_i32x8, __m256i codes_x32, const Widened& filter) noexcept {
  const __m256i even_i16x16 = _mm256_and_si256(codes_x32, _mm256_set1_epi16(0xff));
  const __m256i odd_i16x16 = _mm256_srli_epi16(codes_x32, 8);
  const __m256i even = _mm256_madd_epi16(even_i16x16, filter.even_i16x16);
  const __m256i odd = _mm256_madd_epi16(odd_i16x16, filter.odd_i16x16);
  return _mm256_add_epi32(acc_i32x8, _mm256_add_epi32(even, odd));
}

// 8 lanes of every pixel, with the filters of exactly `groups` groups held in registers.
template <std::size_t groups>
void accumulate_held(const DepthwiseRun& run, std::size_t lane, std::size_t padded_lanes) noexcept {
  Widened filter[groups];
  for (std::size_t group = 0; group < groups; ++group) {
    filter[group] = widen_signed(load(run.filter + (group * padded_lanes + lane) * 4));
  }
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    const std::uint8_t* activations = run.activations + pixel * run.pixel_step + lane * 4;
    __m256i acc_i32x8 = _mm256_setzero_si256();
    for (std::size_t group = 0; group < groups; ++group) {
      acc_i32x8 = multiply_add(acc_i32x8, load(activations + run.offsets[group]), filter[group]);
    }
    store(run.sums + pixel * run.sums_row_stride + lane, acc_i32x8);
  }
}

// The same with any number of groups: the sums pass through memory once for each.
void accumulate_any(const DepthwiseRun& run, std::size_t lane, std::size_t padded_lanes) noexcept {
  for (std::size_t group = 0; group < run.groups; ++group) {
    const Widened filter = widen_signed(load(run.filter + (group * padded_lanes + lane) * 4));
    for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
      std::int32_t* sums = run.sums + pixel * run.sums_row_stride + lane;
      const std::uint8_t* activations = run.activations + pixel * run.pixel_step + run.offsets[group] + lane * 4;
      const __m256i before_i32x8 = group == 0 ? _mm256_setzero_si256() : load(sums);
      store(sums, multiply_add(before_i32x8, load(activations), filter));
    }
  }
}

void accumulate(const DepthwiseRun& run) noexcept {
  const std::size_t lanes = (run.lanes + kDepthwiseLanes - 1) / kDepthwiseLanes * kDepthwiseLanes;
  for (std::size_t lane = 0; lane < lanes; lane += 8) {
    switch (run.groups) {
      case 1:
        accumulate_held<1>(run, lane, lanes);
        break;
      case 2:
        accumulate_held<2>(run, lane, lanes);
        break;
      case 3:
        accumulate_held<3>(run, lane, lanes);
        break;
      default:
        accumulate_any(run, lane, lanes);
    }
  }
}

}  // namespace

constinit const DepthwiseKernels avx2::depthwise = {.accumulate = accumulate};

}  // namespace dmlcpu
