// Any function of one 8-bit code, as a table of its 256 values, bytes or floats.
//
//   output[i] = table[input[i]]
//
// Bytes are bytes: whoever fills the table knows which types go in and come out. Floats are copied bit by bit.
//
// Contract: 256 elements of the table and count elements are read, count elements written, nothing else; an output of
// bytes may be exactly input, and overlaps neither operand otherwise, one of floats overlaps nothing; no alignment is
// assumed beyond the element's own.
//
// avx512_vbmi is no instruction set of its own, but a cell in the rows of others: see kernels/dispatch.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct TableRun {
  const std::uint8_t* table;
  const std::uint8_t* input;
  std::size_t count;
  std::uint8_t* output;
};

struct FloatTableRun {
  const float* table;
  const std::uint8_t* input;
  std::size_t count;
  float* output;
};

using TableFunction = void (*)(const TableRun& run) noexcept;

struct TableKernels {
  TableFunction look_up;
  void (*look_up_floats)(const FloatTableRun& run) noexcept;
};

namespace scalar {
extern const TableKernels table;
}
namespace avx2 {
extern const TableKernels table;
}
namespace avx512_vnni {
extern const TableKernels table;
}
namespace avx512_vbmi {
extern const TableKernels table;
}

}  // namespace dmlcpu
