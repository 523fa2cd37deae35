// The 8-bit matrix product with a 32-bit result under every convolution and matrix product:
//
//   c[row][column] = sum over k of a[row][k] * b[k][column]        modulo 2^32
//
// a is unsigned and b is signed. Codes of the other signedness are moved over by flipping their top bit while they are
// packed, and their zero point with them: (x ^ 0x80) - (z ^ 0x80) is x - z read in the other type, so differences, and
// with them every result, are unchanged.
//
// The sum runs over segments of k, one after the other, so that a convolution can read the taps of its window where
// they stand. Operands, in units of the struct below (k is padded to a multiple of kr with zeros in b, so the value of
// a's padding does not matter; it only has to be readable):
//
//   a: m rows, a_row_stride bytes apart; a row is `segments` pieces of k bytes at the given offsets from its beginning
//
//        row 0   at offset 0: k0 k1 k2 k3 ...    at offset 1: k0 k1 k2 k3 ...
//        row 1   ...
//
//   b: ceil(n / nr) panels of nr columns; in a panel four consecutive k of one column are one 32-bit group
//
//        panel 0, k 0-3:   [c0: k0 k1 k2 k3] [c1: k0 k1 k2 k3] ... [c(nr-1): k0 k1 k2 k3]
//                 k 4-7:   [c0: k4 k5 k6 k7] ...           (segments follow each other)
//        panel 1 begins after segments * k * nr bytes
//
//   c: m rows of round_up(n, nr) accumulators, c_row_stride elements apart; overwritten, not added to
//
// No intermediate saturates (vpmaddubsw is out: 255 * 127 * 2 does not fit 16 bits). A product is within
// +-255 * 128, so a sum is exact up to 65793 terms; beyond that it wraps as int32 arithmetic does.
//
// Contract: reads a, b and writes c as described, nothing else; operands do not overlap; c and each panel of b are
// 64-byte aligned (panels are: nr * kr is a multiple of 64 for every kernel); a needs no alignment.
//
// To add an instruction set: <isa>.cpp beside this file defines dmlcpu::<isa>::gemm, a declaration goes to the end of
// this file, one cell to kernels/dispatch.cpp and one word to cpp/CMakeLists.txt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

struct GemmBlock {
  const std::uint8_t* a;
  std::size_t a_row_stride;
  const std::size_t* a_offsets;  // bytes, one for each segment
  std::size_t segments;
  const std::uint8_t* b;
  std::int32_t* c;
  std::size_t c_row_stride;
  std::size_t m;
  std::size_t n;
  std::size_t k;  // of one segment
};

using GemmFunction = void (*)(const GemmBlock& block) noexcept;

struct GemmKernels {
  std::size_t mr;             // rows that the kernel keeps in registers: m is best a multiple of it
  std::size_t nr;             // columns of a panel
  std::size_t kr;             // k is a multiple of it
  double products_per_cycle;  // multiplications and additions at best, for choices of algorithms
  GemmFunction multiply;
};

namespace scalar {
extern const GemmKernels gemm;
}
namespace avx2 {
extern const GemmKernels gemm;
}
namespace avx_vnni {
extern const GemmKernels gemm;
}
namespace avx512_vnni {
extern const GemmKernels gemm;
}
namespace amx_int8 {
extern const GemmKernels gemm;
}

}  // namespace dmlcpu
