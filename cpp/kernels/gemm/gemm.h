// The 8-bit matrix product of convolutions and matrix operators, with its results requantized while they are at hand:
//
//   sum[row][column]    = sum over k of a[row][k] * b[k][column] + offset[column]
//                         - filter_zero_point[column] * activation_sum[row]                        modulo 2^32
//   output[row][column] = sat(rne(f32(sum) * multiplier[column]) + output_zero_point)
//
// or, for products whose results are 32-bit integers or take another way from there, the sums themselves.
//
// a is unsigned and b is signed. Codes of the other signedness are moved over by flipping their top bit while they are
// packed, and their zero point with them: (x ^ 0x80) - (z ^ 0x80) is x - z read in the other type, so differences, and
// with them every result, are unchanged. Where the instruction set has a product of two signed codes, a may be signed
// instead, for rows that are read where they stand; what is made of its codes, zero points and sums, is signed then.
//
// The sum's conversion to float32 rounds to even above 2^24. rne rounds half to even; sat clamps to the output type and
// sends NaN (0 * infinity) to its lowest value. Output codes are produced in the offset domain 0..255 (code minus the
// type's lowest value) and leave through one exclusive or: flip is 0x00 for UINT8 and 0x80 for INT8; output_zero_point
// is an integer of 0..255 in that domain, held as a float. Clamping before rounding gives the same code as after it
// (see quantize/quantize.h). offset carries the bias, the input zero point's share (-input_zero_point * sum of the
// column's filter) and the product of both zero points. filter_zero_point may be null: then the filter's zero points
// are all 0 and activation_sum is not read.
//
// Rows come in runs, as the pixels of an image come in rows, and the sum runs over segments of k, one after the other,
// so that a convolution can read the taps of its windows where they stand. Operands, in units of the struct below (k is
// padded to a multiple of kr with zeros in b, so the value of a's padding does not matter; it only has to be readable):
//
//   a: runs of m rows, a_run_stride and a_row_stride bytes apart; a row is `segments` pieces of k bytes at the given
//      offsets from its beginning
//
//        run 0, row 0   at offset 0: k0 k1 k2 k3 ...    at offset 1: k0 k1 k2 k3 ...
//               row 1   ...
//        run 1, row 0   ...
//
//   b: ceil(n / nr) panels of nr columns; in a panel four consecutive k of one column are one 32-bit group
//
//        panel 0, k 0-3:   [c0: k0 k1 k2 k3] [c1: k0 k1 k2 k3] ... [c(nr-1): k0 k1 k2 k3]
//                 k 4-7:   [c0: k4 k5 k6 k7] ...
//        panel 1 begins b_panel_stride bytes after panel 0; a segment is k * nr bytes at its offset from the beginning
//        of a panel, so that a product may leave out segments of a filter: even all of them, for sums of 0
//
//      Where `padding` is not 0, segments end with so many codes that are no terms. Then b has zeros for these, and as
//      many stand before each segment: a kernel may begin to read a segment of a so many bytes before it, and reads no
//      cache line that has none of its terms
//
//   b_order: null, or what the kernel's order_steps made of each panel of b, b_order_stride elements apart. A step is
//      four k of all columns of a panel, numbered through its segments, which follow each other without gaps. A block
//      has the segments that order_steps was told, or leaves some out: then it is multiplied as if this were null.
//      Where the counts are all 0 steps stay as they are; one single step alone stands for all, in their order:
//
//        panel 0:   [pairs of steps, single steps, steps apart: how many; 1: of codes up to 127]
//                   [first step of each pair ...] [single steps ...] [steps apart ...]
//
//   offset, multiplier, filter_zero_point: an element a column, readable up to the end of the last panel; zero points
//      are signed codes, -128..127
//   activation_sum: an element a row, those of a run after those of the one before
//   output: runs of m rows of n codes, output_run_stride and output_row_stride bytes apart
//   sums: null, or where runs of m rows of n sums go in place of codes, as many elements apart; output, multiplier,
//      output_zero_point and flip are not read then. Where accumulates is set they are added to what is there
//
// Products of planes. Of {N, C, H, W} memory the output is rows of channels by columns of pixels: a is the filter and b
// are the activations then, a signed, whatever a_is_signed says, and b unsigned. What is an element a column above is
// an element a row, of m; what is an element a row is an element a column, readable up to the end of the last panel. k
// is padded with zeros in a, so that the value of b's padding does not matter. There is one run, and no `padding`.
//
// No intermediate saturates (255 * 127 * 2 does not fit 16 bits: vpmaddubsw alone is out for most filters). A product
// is within +-255 * 128, so a sum is exact up to 65793 terms; beyond that it wraps as int32 arithmetic does.
//
// Contract: reads the operands, of a perhaps also what lies between its runs, and writes the n codes or sums of each
// row, nothing else; output overlaps no operand; panels of b and the offsets of segments in them are 64-byte aligned
// (nr * kr is a multiple of 64 for every kernel).
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

// Every nr divides it.
inline constexpr std::size_t kMostPanelColumns = 64;

// Offset of the only segment.
inline constexpr std::size_t kOnlySegment = 0;

struct GemmBlock {
  const std::uint8_t* a;
  std::size_t a_row_stride;
  std::size_t a_run_stride = 0;
  const std::size_t* a_offsets = &kOnlySegment;  // bytes, one for each segment
  std::size_t segments = 1;
  const std::uint8_t* b;
  const std::size_t* b_offsets = &kOnlySegment;  // bytes, one for each segment
  std::size_t b_panel_stride;                    // bytes
  const std::uint16_t* b_order = nullptr;        // of the first panel
  std::size_t b_order_stride = 0;                // elements
  std::size_t runs = 1;
  std::size_t m;  // rows of one run
  std::size_t n;
  std::size_t k;  // of one segment
  const std::int32_t* offset;
  const float* multiplier = nullptr;
  const std::int32_t* filter_zero_point = nullptr;
  const std::int32_t* activation_sum = nullptr;
  float output_zero_point = 0.0F;
  std::uint8_t flip = 0;
  std::uint8_t* output = nullptr;
  std::size_t output_row_stride = 0;
  std::size_t output_run_stride = 0;
  std::int32_t* sums = nullptr;
  bool accumulates = false;
  bool a_is_signed = false;   // only where the kernel multiplies signed codes
  std::size_t padding = 0;    // not 0 only for up to most_exact_terms in all, or for whole steps with a further one
  std::size_t next_rows = 0;  // rows of a behind these that the next block has: a kernel may fetch them meanwhile
  bool is_of_planes = false;  // only where the kernel multiplies planes
};

using GemmFunction = void (*)(const GemmBlock& block) noexcept;

// Counts at the beginning of a panel's order, and steps behind them at most.
inline constexpr std::size_t kOrderCounts = 4, kMostOrderedSteps = UINT16_MAX;

// Of segments of k, in a panel that has no others; at most kMostOrderedSteps. Writes kOrderCounts elements and one for
// each step, zeros behind those that it needs: equal panels have equal bytes.
using OrderFunction = void (*)(const std::uint8_t* panel, std::size_t segments, std::size_t k,
                               std::uint16_t* order) noexcept;

struct GemmKernels {
  // Rows of a tile of nr columns at most; the kernel splits a run into equal parts, or joins short ones.
  std::size_t mr;
  std::size_t nr;               // columns of a panel
  std::size_t least_tile = 16;  // columns that those of the last panel are rounded up to
  std::size_t kr;               // k is a multiple of it
  double products_per_cycle;    // each with its addition, at best; for choices of algorithms
  // Beside products, of 32 rows and of these by 16 columns, for choices of kernels.
  double cycles_of_rows = 0.0;
  double cycles_of_area = 0.0;
  bool multiplies_signed = false;  // a may be signed as well
  bool multiplies_planes = false;  // a may be a filter and b activations
  // A step of k is whole cache lines of tiles of a: rows that begin amid lines are slow, or copied, and each part of a
  // block that several threads divide loads the rows anew.
  bool loads_rows_as_tiles = false;
  std::size_t most_exact_terms = 0;  // of rows that are read no further than to the end of their last cache line; or 0
  std::size_t least_columns;         // of such a part
  int tasks_of_thread = 4;           // that work is cut into for each of several threads, where it can be
  OrderFunction order_steps = nullptr;  // null where the order of steps does not matter
  std::size_t many_rows = 0;            // that looking for an order at each dispatch is worth
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
