// The normative arithmetic of pack.h in plain C++. Sums are taken in uint32, which wraps.
#include <cstring>

#include "kernels/pack/pack.h"

namespace dmlcpu {
namespace {

void copy(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept {
  for (std::size_t i = 0; i < count; ++i) output[i] = static_cast<std::uint8_t>(input[i] ^ flip);
}

void stream(const std::uint8_t* input, std::size_t count, std::uint8_t* output) noexcept {
  std::memcpy(output, input, count);
}

void spread(const SpreadPieces& pieces) noexcept {
  for (std::size_t r = 0; r < pieces.rows; ++r) {
    std::uint8_t* const output = pieces.output + r * pieces.piece_bytes;
    for (std::size_t i = 0; i < pieces.count; ++i) {
      std::memcpy(output + i * pieces.output_step, pieces.inputs[r] + i * pieces.input_step, pieces.piece_bytes);
    }
  }
}

void interleave(const InterleaveRun& run) noexcept {
  for (std::size_t i = 0; i < run.count; ++i) {
    for (std::size_t r = 0; r < 4; ++r) run.output[i * 4 + r] = run.rows[r][i];
  }
}

void interleave_panels(const PanelRun& operands) noexcept {
  const PanelRun run = operands;  // a copy: bytes of output could alias the original
  for (std::size_t i = 0; i < run.count; ++i) {
    std::uint8_t* output = run.output + i / run.nr * run.panel_stride + i % run.nr * 4;
    for (std::size_t r = 0; r < 4; ++r) output[r] = static_cast<std::uint8_t>(run.rows[r][i] ^ run.flip);
  }
}

// Whole groups, as they are.
void move_groups(const GroupBlock& block) noexcept {
  for (std::size_t column = 0; column < block.count; ++column) {
    const std::uint8_t* codes = block.columns + column * block.column_stride;
    std::uint8_t* group = block.output + column * 4;
    for (std::size_t k = 0; k < block.k; k += 4, group += block.group_stride) std::memcpy(group, codes + k, 4);
  }
}

void gather_groups(const GroupBlock& operands) noexcept {
  const GroupBlock block = operands;  // a copy: bytes of output could alias the original
  if (block.flip == 0 && block.k % 4 == 0) return move_groups(block);
  for (std::size_t column = 0; column < block.count; ++column) {
    const std::uint8_t* codes = block.columns + column * block.column_stride;
    for (std::size_t k = 0; k < (block.k + 3) / 4 * 4; ++k) {
      block.output[k / 4 * block.group_stride + column * 4 + k % 4] =
          k < block.k ? static_cast<std::uint8_t>(codes[k] ^ block.flip) : std::uint8_t{0};
    }
  }
}

void transpose(const TransposeBlock& block) noexcept {
  for (std::size_t row = 0; row < block.rows; ++row) {
    for (std::size_t column = 0; column < block.columns; ++column) {
      block.output[column * block.output_row_stride + row] =
          static_cast<std::uint8_t>(block.input[row * block.input_row_stride + column] ^ block.flip);
    }
  }
}

void sum_rows(const SummedRows& rows, std::int32_t* sums) noexcept {
  for (std::size_t row = 0; row < rows.m; ++row) {
    std::uint32_t sum = 0;
    for (std::size_t segment = 0; segment < rows.segments; ++segment) {
      const std::uint8_t* a = rows.a + row * rows.a_row_stride + rows.a_offsets[segment];
      for (std::size_t i = 0; i < rows.k; ++i) {
        sum += static_cast<std::uint32_t>(rows.a_is_signed ? static_cast<std::int8_t>(a[i]) : std::int32_t{a[i]});
      }
    }
    sums[row] = static_cast<std::int32_t>(sum);
  }
}

}  // namespace

constinit const PackKernels scalar::pack = {.copy = copy,
                                            .stream = stream,
                                            .spread = spread,
                                            .interleave = interleave,
                                            .interleave_panels = interleave_panels,
                                            .gather_groups = gather_groups,
                                            .transpose = transpose,
                                            .sum_rows = sum_rows};

}  // namespace dmlcpu
