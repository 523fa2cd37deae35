// The product of gemm.h for AVX-VNNI: vpdpbusd multiplies four unsigned by four signed bytes and adds them to a 32-bit
// lane without saturation.
//
// Tile 6 x 16: 12 accumulators, 2 vectors of b, 1 broadcast of a. Bound by vpdpbusd.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"

#ifndef __AVXVNNI__
#error "compile with AVX-VNNI"
#endif

namespace dmlcpu {
namespace {

constexpr std::size_t kMr = 6, kNr = 16, kKr = 4;

template <std::size_t rows>
void multiply_tile(const GemmBlock& block, const std::uint8_t* a, const std::uint8_t* b, std::int32_t* c) {
  __m256i acc_i32x8[rows][2];
  for (std::size_t row = 0; row < rows; ++row) acc_i32x8[row][0] = acc_i32x8[row][1] = _mm256_setzero_si256();
  for (std::size_t segment = 0; segment < block.segments; ++segment, b += block.k * kNr) {
    const std::uint8_t* a_segment = a + block.a_offsets[segment];
    for (std::size_t k = 0; k < block.k; k += 4) {
      const __m256i b0_x32 = _mm256_load_si256(reinterpret_cast<const __m256i*>(b + k * kNr));
      const __m256i b1_x32 = _mm256_load_si256(reinterpret_cast<const __m256i*>(b + k * kNr + 32));
      for (std::size_t row = 0; row < rows; ++row) {
        int group;
        __builtin_memcpy(&group, a_segment + row * block.a_row_stride + k, sizeof(group));
        const __m256i a_x32 = _mm256_set1_epi32(group);
        acc_i32x8[row][0] = _mm256_dpbusd_avx_epi32(acc_i32x8[row][0], a_x32, b0_x32);
        acc_i32x8[row][1] = _mm256_dpbusd_avx_epi32(acc_i32x8[row][1], a_x32, b1_x32);
      }
    }
  }
  for (std::size_t row = 0; row < rows; ++row) {
    std::int32_t* target = c + row * block.c_row_stride;
    _mm256_store_si256(reinterpret_cast<__m256i*>(target), acc_i32x8[row][0]);
    _mm256_store_si256(reinterpret_cast<__m256i*>(target + 8), acc_i32x8[row][1]);
  }
}

void multiply(const GemmBlock& block) noexcept {
  for (std::size_t panel = 0; panel < block.n; panel += kNr) {
    const std::uint8_t* b = block.b + block.segments * block.k * panel;
    std::size_t row = 0;
    for (; row + kMr <= block.m; row += kMr) {
      multiply_tile<kMr>(block, block.a + row * block.a_row_stride, b, block.c + row * block.c_row_stride + panel);
    }
    for (; row + 2 <= block.m; row += 2) {
      multiply_tile<2>(block, block.a + row * block.a_row_stride, b, block.c + row * block.c_row_stride + panel);
    }
    if (row < block.m) {
      multiply_tile<1>(block, block.a + row * block.a_row_stride, b, block.c + row * block.c_row_stride + panel);
    }
  }
}

}  // namespace

constinit const GemmKernels avx_vnni::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 64, .multiply = multiply};

}  // namespace dmlcpu
