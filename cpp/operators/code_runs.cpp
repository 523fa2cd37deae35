#include "operators/code_runs.h"

#include <cstring>

namespace dmlcpu {

// Every run is contiguous as it is, so that its length has no bound.
bool CodeRuns::whole_runs() const {
  bool whole = true;
  for (std::size_t operand = 0; operand <= input_count_; ++operand) whole &= runs_.stride(operand) == 1;
  return whole;
}

// How many runs, from one of the piece on, are one run of the output and fit a buffer; at least 1.
std::size_t CodeRuns::rows_at(const StridedRuns::Piece& piece, std::size_t run) const {
  if (runs_.rank() < 2 || runs_.stride(0) != 1 || runs_.stride(0, 1) != runs_.size(0)) return 1;
  const auto second = static_cast<std::size_t>(runs_.size(1));
  const std::size_t to_its_end = second - (piece.first_run + run) % second;
  return std::clamp<std::size_t>(kBufferSize / piece.size, 1, std::min(piece.run_count - run, to_its_end));
}

const std::uint8_t* CodeRuns::contiguous(const Block& block, std::size_t input, const std::uint8_t* data,
                                         Copy& copy) const {
  const std::size_t operand = 1 + input;
  const std::int64_t stride = runs_.stride(operand), row_stride = block.rows > 1 ? runs_.stride(operand, 1) : 0;
  const std::uint8_t* source = data + offset(block, operand);
  const bool one_run = block.rows == 1 || row_stride == static_cast<std::int64_t>(block.columns);
  if ((stride == 1 || block.columns == 1) && one_run) return source;
  if (copy.source == source && copy.rows >= block.rows && copy.columns == block.columns) return copy.codes;

  for (std::size_t row = 0; row < block.rows; ++row) {
    const std::uint8_t* from = source + static_cast<std::int64_t>(row) * row_stride;
    std::uint8_t* to = copy.codes + row * block.columns;
    if (stride == 1) {
      std::memcpy(to, from, block.columns);
    } else if (stride == 0) {
      std::memset(to, *from, block.columns);
    } else {
      for (std::size_t i = 0; i < block.columns; ++i) to[i] = from[static_cast<std::int64_t>(i) * stride];
    }
  }
  copy.source = source;
  copy.rows = block.rows;
  copy.columns = block.columns;
  return copy.codes;
}

void CodeRuns::scatter(const std::uint8_t* codes, std::size_t count, std::uint8_t* target) const {
  const std::int64_t stride = runs_.stride(0);
  for (std::size_t i = 0; i < count; ++i) target[static_cast<std::int64_t>(i) * stride] = codes[i];
}

}  // namespace dmlcpu
