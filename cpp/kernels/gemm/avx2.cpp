// The product of gemm.h for AVX2, exact: codes are widened to 16 bits and multiplied by vpmaddwd, whose pair sums
// (at most 2 * 255 * 128 in magnitude) fit 32 bits. vpmaddubsw would saturate.
//
// A group of four k is widened as its even bytes (k0, k2) and its odd bytes (k1, k3), which shifts do without a
// shuffle:
//
//   even = (group << 8) >> 8 per 16-bit lane, odd = group >> 8      arithmetic shifts for signed, logical for unsigned
//   acc += madd(a_even, b_even) + madd(a_odd, b_odd)                k0*k0 + k2*k2,  k1*k1 + k3*k3
//
// Tile 4 x 16: 8 accumulators, 4 widened b, 2 widened a. Bound by the multiply ports (vpmaddwd).
#include <immintrin.h>

#include <cstring>

#include "kernels/gemm/gemm.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/gemm/block_tiles.inl.h"
#include "kernels/gemm/requantize_avx2.inl.h"

constexpr std::size_t kMr = 4, kNr = 16, kKr = 4;

struct Widened {
  __m256i even_i16x16, odd_i16x16;
};

inline Widened widen_signed(__m256i group_x32) {
  return {_mm256_srai_epi16(_mm256_slli_epi16(group_x32, 8), 8), _mm256_srai_epi16(group_x32, 8)};
}
inline Widened widen_unsigned(__m256i group_x32) {
  return {_mm256_and_si256(group_x32, _mm256_set1_epi16(0xff)), _mm256_srli_epi16(group_x32, 8)};
}

inline __m256i multiply_add(__m256i acc_i32x8, const Widened& a, const Widened& b) {
  const __m256i even = _mm256_madd_epi16(a.even_i16x16, b.even_i16x16);
  const __m256i odd = _mm256_madd_epi16(a.odd_i16x16, b.odd_i16x16);
  return _mm256_add_epi32(acc_i32x8, _mm256_add_epi32(even, odd));
}

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
      const Widened b0 = widen_signed(_mm256_load_si256(reinterpret_cast<const __m256i*>(b)));
      const Widened b1 = widen_signed(_mm256_load_si256(reinterpret_cast<const __m256i*>(b + 32)));
      for (std::size_t row = 0; row < rows; ++row) {
        int group;
        __builtin_memcpy(&group, a + row * block.a_row_stride, sizeof(group));
        const Widened a_row = widen_unsigned(_mm256_set1_epi32(group));
        acc_i32x8[row][0] = multiply_add(acc_i32x8[row][0], a_row, b0);
        acc_i32x8[row][1] = multiply_add(acc_i32x8[row][1], a_row, b1);
      }
    }
  }
  store_rows(block, tile, acc_i32x8);
}

using TileFunction = void (*)(const GemmBlock& block, const Tile& tile) noexcept;
constexpr TileFunction kTileFunctions[kMr] = {multiply_tile<1>, multiply_tile<2>, multiply_tile<3>, multiply_tile<4>};

void multiply(const GemmBlock& block) noexcept {
  for_each_tile(block, kMr, kNr, [&](const Tile& tile) noexcept { kTileFunctions[tile.rows - 1](block, tile); });
}

}  // namespace

constinit const GemmKernels avx2::gemm = {
    .mr = kMr, .nr = kNr, .kr = kKr, .products_per_cycle = 32, .multiply = multiply};

}  // namespace dmlcpu
