// The product of gemm.h for AVX-VNNI: vpdpbusd multiplies four unsigned by four signed bytes and adds them to a 32-bit
// lane without saturation.
//
// Tile 6 x 16: 12 accumulators, 2 vectors of b, 1 broadcast of a. Bound by vpdpbusd.
#include <immintrin.h>

#include <cstring>

#include "kernels/gemm/gemm.h"

#ifndef __AVXVNNI__
#error "compile with AVX-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/gemm/block_tiles.inl.h"
#include "kernels/gemm/requantize_avx2.inl.h"

constexpr std::size_t kMr = 6, kNr = 16, kKr = 4;
static_assert(kMostPanelColumns % kNr == 0);

template <std::size_t rows>
void multiply_tile(const GemmBlock& block, const Tile& tile) noexcept {
  __m256i acc_i32x8[rows][2];
  for (std::size_t row = 0; row < rows; ++row) {
    acc_i32x8[row][0] = load(tile.offset);
    acc_i32x8[row][1] = load(tile.offset + 8);
  }
  for (std::size_t segment = 0; segment < block.segments; ++segment) {
    const std::uint8_t* a = tile.a + block.a_offsets[segment];
    const std::uint8_t* b = tile.b + block.b_offsets[segment];
    for (const std::uint8_t* end = b + block.k * kNr; b != end; b += 4 * kNr, a += 4) {
      const __m256i b0_x32 = _mm256_load_si256(reinterpret_cast<const __m256i*>(b));
      const __m256i b1_x32 = _mm256_load_si256(reinterpret_cast<const __m256i*>(b + 32));
      for (std::size_t row = 0; row < rows; ++row) {
        int group;
        __builtin_memcpy(&group, a + row * block.a_row_stride, sizeof(group));
        const __m256i a_x32 = _mm256_set1_epi32(group);
        acc_i32x8[row][0] = _mm256_dpbusd_avx_epi32(acc_i32x8[row][0], a_x32, b0_x32);
        acc_i32x8[row][1] = _mm256_dpbusd_avx_epi32(acc_i32x8[row][1], a_x32, b1_x32);
      }
    }
  }
  RowStorage(block, tile).store(acc_i32x8);
}

using TileFunction = void (*)(const GemmBlock& block, const Tile& tile) noexcept;
constexpr TileFunction kTileFunctions[kMr] = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>,
                                              multiply_tile<4>, multiply_tile<5>, multiply_tile<6>};

void multiply(const GemmBlock& block) noexcept {
  for_each_tile(block, kMr, kNr, [&](const Tile& tile) noexcept { kTileFunctions[tile.rows - 1](block, tile); });
}

}  // namespace

constinit const GemmKernels avx_vnni::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 64, .least_columns = kNr, .multiply = multiply};

}  // namespace dmlcpu
