// The normative arithmetic of gemm.h in plain C++. Sums are taken in uint32, which wraps.
#include "kernels/gemm/gemm.h"

namespace dmlcpu {
namespace {

#include "kernels/codes/scalar.inl.h"
#include "kernels/gemm/block_tiles.inl.h"

constexpr std::size_t kMr = 4, kNr = 16, kKr = 4;
static_assert(kMostPanelColumns % kNr == 0);

std::int32_t value_of(std::uint8_t code, bool is_signed) noexcept {
  return is_signed ? static_cast<std::int8_t>(code) : std::int32_t{code};
}

// One piece of k of one row, added to its sums of a whole panel.
void add_segment(const GemmBlock& block, const std::uint8_t* a, const std::uint8_t* b,
                 std::uint32_t (&sums)[kNr]) noexcept {
  const bool a_is_signed = block.a_is_signed || block.is_of_planes, b_is_signed = !block.is_of_planes;
  for (std::size_t i = 0; i < block.k; ++i) {
    const std::int32_t a_value = value_of(a[i], a_is_signed);
    const std::uint8_t* group = b + i / 4 * 4 * kNr + i % 4;
    for (std::size_t column = 0; column < kNr; ++column) {
      sums[column] += static_cast<std::uint32_t>(a_value * value_of(group[column * 4], b_is_signed));
    }
  }
}

void multiply(const GemmBlock& operands) noexcept {
  const GemmBlock block = operands;  // a copy: bytes of output could alias the original
  for_each_tile(block, kMr, kNr, [&](const Tile& tile) noexcept {
    for (std::size_t row = 0; row < tile.rows; ++row) {
      std::uint32_t sums[kNr] = {};
      for (std::size_t segment = 0; segment < block.segments; ++segment) {
        const std::uint8_t* a = tile.a + row * block.a_row_stride + block.a_offsets[segment];
        add_segment(block, a, tile.b + block.b_offsets[segment], sums);
      }
      const std::size_t place = row * block.output_row_stride;
      for (std::size_t column = 0; column < tile.columns; ++column) {
        const std::size_t own = block.is_of_planes ? row : column, other = block.is_of_planes ? column : row;
        std::uint32_t sum = sums[column] + static_cast<std::uint32_t>(tile.offset[own]);
        if (tile.filter_zero_point != nullptr) {
          sum -= static_cast<std::uint32_t>(tile.filter_zero_point[own]) *
                 static_cast<std::uint32_t>(tile.activation_sum[other]);
        }
        if (tile.sums != nullptr) {
          if (block.accumulates) sum += static_cast<std::uint32_t>(tile.sums[place + column]);
          tile.sums[place + column] = static_cast<std::int32_t>(sum);
          continue;
        }
        const float scaled = static_cast<float>(static_cast<std::int32_t>(sum)) * tile.multiplier[own];
        tile.output[place + column] = to_code(scaled, block.output_zero_point, block.flip);
      }
    }
  });
}

}  // namespace

constinit const GemmKernels scalar::gemm = {.mr = kMr,
                                            .nr = kNr,
                                            .kr = kKr,
                                            .products_per_cycle = 1,
                                            .multiplies_signed = true,
                                            .multiplies_planes = true,
                                            .least_columns = kNr,
                                            .multiply = multiply};

}  // namespace dmlcpu
