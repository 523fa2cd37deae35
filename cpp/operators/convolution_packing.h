// Implicit im2col: the operands of gemm/gemm.h, packed for one tile of output pixels at a time, and the filter, packed
// once.
//
// The order of k is free as long as both operands share it. With pixels as rows it is (kernel row, kernel column,
// channel), so that the channels of one tap are one copy from {N, H, W, C} memory; with pixels as columns it is
// (channel, kernel row, kernel column), so that one k of neighbouring pixels is one copy from {N, C, H, W} memory.
//
// Activations leave as unsigned codes, filters as signed ones; see gemm.h for the flip. Taps in the padding read the
// input's zero point, whose difference from itself is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"
#include "operators/convolution_algorithm.h"

namespace dmlcpu {

// What a product's rows are.
enum class Arrangement : std::uint8_t {
  pixel_rows,    // rows of a are pixels, columns of b output channels: suits {N, H, W, C} output memory
  channel_rows,  // rows of a are output channels, columns of b pixels: suits {N, C, H, W} output memory
};

// Codes step bytes apart, flipped; the kernel's contiguous copy where they are neighbours.
void copy_codes(const PackKernels& kernels, const std::uint8_t* source, std::int64_t step, std::int64_t count,
                std::uint8_t flip, std::uint8_t* target);

// count pixels from first on (in the order n, height, width) as rows of k_padded bytes; bytes from k on are 0.
void pack_activation_rows(const ConvolutionGeometry& geometry, const PackKernels& kernels,
                          const ActivationSource& source, std::int64_t group, std::int64_t first, std::int64_t count,
                          std::size_t k_padded, std::uint8_t* rows);

// The same for count neighbouring positions whose codes stand in memory as they are, from data on: k is (channel, tap),
// a tap's codes tap_offsets[tap] bytes away. staging holds count bytes. Columns from count on are undefined.
void interleave_columns(const PackKernels& kernels, const std::uint8_t* data, std::size_t channels,
                        std::size_t channel_bytes, const std::vector<std::size_t>& tap_offsets, std::uint8_t flip,
                        std::size_t count, std::size_t nr, std::size_t k_padded, std::uint8_t* staging,
                        std::uint8_t* panels);

// count pixels from first on, all of one image, as panels of nr columns. staging holds 4 * count bytes. Columns from
// count on are undefined.
void pack_activation_columns(const ConvolutionGeometry& geometry, const PackKernels& kernels,
                             const ActivationSource& source, std::int64_t group, std::int64_t first, std::int64_t count,
                             std::size_t nr, std::size_t k_padded, std::uint8_t* staging, std::uint8_t* panels);

// How the terms of a sum follow each other in k: segments that are each padded to whole steps of the kernel.
struct TermOrder {
  std::size_t segments;        // kernel rows, or 1
  std::size_t segment_terms;   // codes of a segment
  std::size_t segment_padded;  // the same, padded
  std::size_t k() const { return segments * segment_padded; }
};

// The filter's place in memory once packed: per group an operand of operand_size bytes, then a sum of codes for each
// output channel.
struct PackedFilter {
  Arrangement arrangement;
  TermOrder order;
  std::size_t nr;
  std::size_t operand_size;  // bytes a group
  std::size_t groups, output_channels;

  std::size_t sums_offset() const { return operand_size * groups; }
  std::size_t size() const { return sums_offset() + output_channels * sizeof(std::int32_t); }
};

// The layout of a filter packed for these kernels. Throws std::bad_alloc if its size is beyond the address space.
PackedFilter packed_filter(const ConvolutionGeometry& geometry, const GemmKernels& kernels, Arrangement arrangement,
                           const TermOrder& order);

// flip is 0x80 for UINT8 filters, which become signed.
void pack_filter(const ConvolutionGeometry& geometry, const PackedFilter& layout, const std::uint8_t* filter,
                 std::uint8_t flip, std::uint8_t* packed);

}  // namespace dmlcpu
