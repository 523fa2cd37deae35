// The filter of a product, packed once as gemm/gemm.h's b, with its sums. Columns are output channels; codes leave as
// signed ones (see gemm.h for the flip).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"
#include "operators/convolution/convolution_geometry.h"
#include "operators/sizes.h"

namespace dmlcpu {

// How the terms of a sum follow each other in k: segments that are each padded to whole steps of the kernel.
struct TermOrder {
  std::size_t segments;        // kernel rows, or some each, taps, or 1; the last may have fewer rows than the others
  std::size_t segment_terms;   // codes of a segment
  std::size_t segment_padded;  // the same, padded
  std::size_t k() const { return segments * segment_padded; }
};

// Segments of so many terms each, for a kernel of steps of kr.
inline TermOrder term_order(std::int64_t segments, std::int64_t terms, std::size_t kr) {
  return {
      .segments = as_size(segments), .segment_terms = as_size(terms), .segment_padded = round_up(as_size(terms), kr)};
}

// The filter's place in memory once packed: zeros, per group an operand of operand_size bytes, then a sum of codes for
// each output channel, then the same of each segment where these are kept, and the order of each panel's steps.
struct PackedFilter {
  TermOrder order;
  std::size_t nr;
  std::size_t zeros;         // bytes
  std::size_t operand_size;  // bytes a group
  std::size_t groups, output_channels;
  std::size_t joined_groups;    // of each group, one after the other in a segment: the terms of others are 0
  std::size_t summed_segments;  // all, or none
  OrderFunction order_steps;    // null where no order is kept

  std::size_t sums_offset() const { return zeros + operand_size * groups; }
  std::size_t segment_sums_offset() const { return sums_offset() + output_channels * sizeof(std::int32_t); }
  // What the packed bytes follow from, for CompiledOperator::packing.
  std::vector<std::size_t> numbers() const {
    return {order.segments,
            order.segment_terms,
            order.segment_padded,
            nr,
            zeros,
            operand_size,
            groups,
            output_channels,
            joined_groups,
            summed_segments,
            order_steps != nullptr ? 1U : 0U};
  }
  std::size_t order_offset() const {
    return segment_sums_offset() + summed_segments * output_channels * sizeof(std::int32_t);
  }
  std::size_t order_stride() const { return kOrderCounts + order.k() / 4; }  // elements of a panel
  std::size_t panels_of_group() const { return operand_size / (order.k() * nr); }
  std::size_t size() const {
    const std::size_t panels = order_steps == nullptr ? 0 : panels_of_group() * groups;
    return order_offset() + panels * order_stride() * sizeof(std::uint16_t);
  }
};

// The layout of a filter packed in panels of nr output channels, behind zeros for so many codes of each. Throws
// std::bad_alloc if its size is beyond the address space.
PackedFilter packed_filter(const ConvolutionGeometry& geometry, std::size_t nr, const TermOrder& order,
                           std::size_t zeros, bool sums_segments);
// The same for a product, with the order of its steps where that pays.
PackedFilter packed_filter(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const TermOrder& order,
                           std::size_t zeros, bool sums_segments);

// flip is 0x80 for UINT8 filters, which become signed.
void pack_filter(const ConvolutionGeometry& geometry, const PackKernels& kernels, const PackedFilter& layout,
                 const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed);

}  // namespace dmlcpu
