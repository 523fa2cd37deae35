// The product of gemm.h for AVX512-VNNI: vpdpbusd multiplies four unsigned by four signed bytes and adds them to a
// 32-bit lane without saturation.
//
// Tile 12 x 32: 24 accumulators, 2 vectors of b, 1 broadcast of a: 27 of 32 registers, and 14 loads for 24 products, so
// bound by vpdpbusd and not by loads. The last rows use tiles of 4 and 1.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

constexpr std::size_t kMr = 12, kNr = 32, kKr = 4;

template <std::size_t rows>
void multiply_tile(const GemmBlock& block, const std::uint8_t* a, const std::uint8_t* b, std::int32_t* c) {
  __m512i acc_i32x16[rows][2];
#pragma GCC unroll 12
  for (std::size_t row = 0; row < rows; ++row) acc_i32x16[row][0] = acc_i32x16[row][1] = _mm512_setzero_si512();
  for (std::size_t segment = 0; segment < block.segments; ++segment, b += block.k * kNr) {
    const std::uint8_t* a_segment = a + block.a_offsets[segment];
    for (std::size_t k = 0; k < block.k; k += 4) {
      const __m512i b0_x64 = _mm512_load_si512(b + k * kNr);
      const __m512i b1_x64 = _mm512_load_si512(b + k * kNr + 64);
#pragma GCC unroll 12
      for (std::size_t row = 0; row < rows; ++row) {
        int group;
        __builtin_memcpy(&group, a_segment + row * block.a_row_stride + k, sizeof(group));
        const __m512i a_x64 = _mm512_set1_epi32(group);
        acc_i32x16[row][0] = _mm512_dpbusd_epi32(acc_i32x16[row][0], a_x64, b0_x64);
        acc_i32x16[row][1] = _mm512_dpbusd_epi32(acc_i32x16[row][1], a_x64, b1_x64);
      }
    }
  }
#pragma GCC unroll 12
  for (std::size_t row = 0; row < rows; ++row) {
    _mm512_store_si512(c + row * block.c_row_stride, acc_i32x16[row][0]);
    _mm512_store_si512(c + row * block.c_row_stride + 16, acc_i32x16[row][1]);
  }
}

template <std::size_t rows>
std::size_t multiply_rows(const GemmBlock& block, const std::uint8_t* b, std::size_t panel, std::size_t row) {
  for (; row + rows <= block.m; row += rows) {
    multiply_tile<rows>(block, block.a + row * block.a_row_stride, b, block.c + row * block.c_row_stride + panel);
  }
  return row;
}

void multiply(const GemmBlock& block) noexcept {
  for (std::size_t panel = 0; panel < block.n; panel += kNr) {
    const std::uint8_t* b = block.b + block.segments * block.k * panel;
    std::size_t row = multiply_rows<kMr>(block, b, panel, 0);
    row = multiply_rows<4>(block, b, panel, row);
    multiply_rows<1>(block, b, panel, row);
  }
}

}  // namespace

constinit const GemmKernels avx512_vnni::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 128, .multiply = multiply};

}  // namespace dmlcpu
