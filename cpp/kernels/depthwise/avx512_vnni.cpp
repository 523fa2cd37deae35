// depthwise.h for AVX512-VNNI: one vpdpbusd for four taps of 16 lanes, its activations straight from memory. Blocks of
// 64 lanes, filters in registers where there are up to five groups (a 3x3 or 3x5 filter has 3 or 5), so that a pixel
// costs a load and a product for each group and vector. Bound by loads.
#include <immintrin.h>

#include "kernels/depthwise/depthwise.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

inline __m512i load(const void* bytes) noexcept { return _mm512_loadu_si512(bytes); }

// vectors x 16 lanes of every pixel, with the filters of exactly `groups` groups held in registers.
template <std::size_t groups, std::size_t vectors>
void accumulate_held(const DepthwiseRun& run, std::size_t lane, std::size_t padded_lanes) noexcept {
  __m512i filter_x64[groups][vectors];
  for (std::size_t group = 0; group < groups; ++group) {
    for (std::size_t v = 0; v < vectors; ++v) {
      filter_x64[group][v] = load(run.filter + (group * padded_lanes + lane + v * 16) * 4);
    }
  }
  for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
    const std::uint8_t* activations = run.activations + pixel * run.pixel_step + lane * 4;
    std::int32_t* sums = run.sums + pixel * run.sums_row_stride + lane;
    __m512i acc_i32x16[vectors];
    for (std::size_t v = 0; v < vectors; ++v) acc_i32x16[v] = _mm512_setzero_si512();
    for (std::size_t group = 0; group < groups; ++group) {
      for (std::size_t v = 0; v < vectors; ++v) {
        const __m512i codes_x64 = load(activations + run.offsets[group] + v * 64);
        acc_i32x16[v] = _mm512_dpbusd_epi32(acc_i32x16[v], codes_x64, filter_x64[group][v]);
      }
    }
    for (std::size_t v = 0; v < vectors; ++v) _mm512_storeu_si512(sums + v * 16, acc_i32x16[v]);
  }
}

// 16 lanes of every pixel, four pixels at a time for each load of a filter.
void accumulate_any(const DepthwiseRun& run, std::size_t lane, std::size_t padded_lanes) noexcept {
  constexpr std::size_t kPixels = 4;
  for (std::size_t first = 0; first < run.pixels; first += kPixels) {
    const std::size_t pixels = run.pixels - first < kPixels ? run.pixels - first : kPixels;
    __m512i acc_i32x16[kPixels];
    for (std::size_t p = 0; p < kPixels; ++p) acc_i32x16[p] = _mm512_setzero_si512();
    for (std::size_t group = 0; group < run.groups; ++group) {
      const __m512i filter_x64 = load(run.filter + (group * padded_lanes + lane) * 4);
      const std::uint8_t* activations = run.activations + first * run.pixel_step + run.offsets[group] + lane * 4;
      for (std::size_t p = 0; p < kPixels; ++p) {
        // The last pixels of a row repeat the last one rather than read beyond it.
        const std::size_t pixel = p < pixels ? p : pixels - 1;
        acc_i32x16[p] = _mm512_dpbusd_epi32(acc_i32x16[p], load(activations + pixel * run.pixel_step), filter_x64);
      }
    }
    for (std::size_t p = 0; p < pixels; ++p) {
      _mm512_storeu_si512(run.sums + (first + p) * run.sums_row_stride + lane, acc_i32x16[p]);
    }
  }
}

template <std::size_t groups>
void accumulate_lanes(const DepthwiseRun& run) noexcept {
  const std::size_t lanes = (run.lanes + 15) / 16 * 16;
  std::size_t lane = 0;
  for (; lane + 64 <= lanes; lane += 64) accumulate_held<groups, 4>(run, lane, lanes);
  for (; lane < lanes; lane += 16) accumulate_held<groups, 1>(run, lane, lanes);
}

void accumulate(const DepthwiseRun& run) noexcept {
  switch (run.groups) {
    case 1:
      return accumulate_lanes<1>(run);
    case 2:
      return accumulate_lanes<2>(run);
    case 3:
      return accumulate_lanes<3>(run);
    case 5:
      return accumulate_lanes<5>(run);
    default: {
      const std::size_t lanes = (run.lanes + 15) / 16 * 16;
      for (std::size_t lane = 0; lane < lanes; lane += 16) accumulate_any(run, lane, lanes);
    }
  }
}

}  // namespace

constinit const DepthwiseKernels avx512_vnni::depthwise = {.accumulate = accumulate};

}  // namespace dmlcpu
