// Any function of one 8-bit code, as a table of its 256 values.
//
//   output[i] = table[input[i]]
//
// Bytes are bytes: whoever fills the table knows which types go in and come out.
//
// Contract: 256 bytes of the table and count elements are read, count elements written, nothing else; output may be
// exactly input and overlaps neither operand otherwise; no alignment is assumed.
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

using TableFunction = void (*)(const TableRun& run) noexcept;

struct TableKernels {
  TableFunction look_up;
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
