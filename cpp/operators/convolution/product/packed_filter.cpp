#include "operators/convolution/product/packed_filter.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "operators/sizes.h"
#include "operators/strides/staging.h"

namespace dmlcpu {

PackedFilter packed_filter(const ConvolutionGeometry& geometry, std::size_t nr, const TermOrder& order,
                           std::size_t zeros, bool sums_segments) {
  const std::size_t columns = round_up(as_size(geometry.group_output_channels()), nr);
  const std::size_t groups = as_size(geometry.groups);
  std::size_t operand_size = 0, total = 0;
  if (__builtin_mul_overflow(columns, order.k(), &operand_size) ||
      __builtin_mul_overflow(operand_size, groups, &total) || total > PTRDIFF_MAX / 4) {
    throw std::bad_alloc();
  }
  return {.order = order,
          .nr = nr,
          .zeros = round_up(zeros, 4) * nr,
          .operand_size = operand_size,
          .groups = groups,
          .output_channels = as_size(geometry.output_channels),
          .joined_groups = as_size(geometry.joined_groups),
          .summed_segments = sums_segments ? order.segments : 0,
          .order_steps = nullptr};
}

PackedFilter packed_filter(const ConvolutionGeometry& geometry, const GemmKernels& kernels, const TermOrder& order,
                           std::size_t zeros, bool sums_segments) {
  PackedFilter filter = packed_filter(geometry, kernels.nr, order, zeros, sums_segments);
  const double pixels = as_number(geometry.image_pixels()) * as_number(geometry.batch);
  const bool pays = geometry.has_owned_filter || pixels >= static_cast<double>(kernels.many_rows);
  if (pays && order.k() != 0 && order.k() / 4 <= kMostOrderedSteps) filter.order_steps = kernels.order_steps;
  return filter;
}

namespace {

// The codes of one output channel in the order of k, flipped; what pads the segments is left as it is.
void gather_terms(const ConvolutionGeometry& geometry, const PackKernels& kernels, const TermOrder& order,
                  const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* terms) {
  const std::int64_t columns = geometry.kernel_width, channels = geometry.filter_input_channels();
  // A segment may be one of a row's taps, or one kernel row or some.
  const bool by_tap = order.segments == as_size(geometry.kernel_height * columns);
  const std::size_t k_of_column = by_tap ? order.segment_padded : as_size(geometry.group_input_channels());
  const std::size_t terms_of_row = as_size(columns) * k_of_column;
  const std::size_t rows_of_segment = by_tap ? as_size(geometry.kernel_height) : order.segment_terms / terms_of_row;
  const std::size_t gap = by_tap ? 0 : order.segment_padded - order.segment_terms;
  const auto transpose = [&](std::int64_t taps) {
    kernels.transpose({.input = filter,
                       .input_row_stride = as_size(geometry.filter.c),
                       .rows = as_size(channels),
                       .columns = as_size(taps),
                       .flip = flip,
                       .output = terms,
                       .output_row_stride = k_of_column});
  };
  if (columns > 1 && geometry.filter.w == 1 && geometry.filter.h == columns &&
      rows_of_segment >= as_size(geometry.kernel_height)) {
    transpose(geometry.kernel_height * columns);
    return;
  }
  for (std::int64_t row = 0; row < geometry.kernel_height; ++row, filter += geometry.filter.h, terms += terms_of_row) {
    if (row != 0 && as_size(row) % rows_of_segment == 0) terms += gap;
    if (geometry.filter.w == 1 && columns > 1) {
      transpose(columns);
      continue;
    }
    for (std::int64_t column = 0; column < columns; ++column) {
      copy_codes(kernels, filter + column * geometry.filter.w, geometry.filter.c, channels, flip,
                 terms + as_size(column) * k_of_column);
    }
  }
}

// The same of neighbouring output channels, each k bytes after the one before.
void gather_channels(const ConvolutionGeometry& geometry, const PackKernels& kernels, const TermOrder& order,
                     const std::uint8_t* filter, std::size_t count, std::uint8_t flip, std::uint8_t* terms) {
  if (geometry.kernel_height * geometry.kernel_width == 1 && geometry.filter.n == 1) {  // a matrix, given by columns
    kernels.transpose({.input = filter,
                       .input_row_stride = as_size(geometry.filter.c),
                       .rows = as_size(geometry.filter_input_channels()),
                       .columns = count,
                       .flip = flip,
                       .output = terms,
                       .output_row_stride = order.k()});
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    gather_terms(geometry, kernels, order, filter + static_cast<std::int64_t>(i) * geometry.filter.n, flip,
                 terms + i * order.k());
  }
}

constexpr std::uint8_t kUnsigned = 0x80;  // flips a signed code to an unsigned one, 128 more, and back

// The sums of signed codes in rows that hold them as unsigned ones.
void sum_signed(const PackKernels& kernels, const std::uint8_t* rows, std::size_t row_stride, std::size_t count,
                std::size_t k, std::int32_t* sums) {
  kernels.sum_rows({.a = rows, .a_row_stride = row_stride, .a_offsets = &kOnlySegment, .m = count, .k = k}, sums);
  const std::uint32_t excess = kUnsigned * static_cast<std::uint32_t>(k);
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) - excess);
  }
}

}  // namespace

void pack_filter(const ConvolutionGeometry& geometry, const PackKernels& kernels, const PackedFilter& layout,
                 const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) {
  const TermOrder& order = layout.order;
  const std::size_t k = order.k(), nr = layout.nr, channels = as_size(geometry.group_output_channels());
  const std::size_t of_joined = as_size(geometry.filter_output_channels());
  const bool has_joined_groups = layout.joined_groups > 1;
  auto* sums = reinterpret_cast<std::int32_t*>(packed + layout.sums_offset());
  auto* segment_sums = reinterpret_cast<std::int32_t*>(packed + layout.segment_sums_offset());
  auto* steps = reinterpret_cast<std::uint16_t*>(packed + layout.order_offset());
  // Of the channels of one panel, as unsigned codes, which kernels sum; what pads the segments is 0 as a signed one.
  std::vector<std::uint8_t> terms(nr * k, kUnsigned);
  std::memset(packed, 0, layout.zeros);
  packed += layout.zeros;
  for (std::size_t first = 0; first < layout.output_channels; first += channels) {
    for (std::size_t panel = 0; panel < channels; panel += nr, packed += nr * k) {
      const std::size_t count = std::min(nr, channels - panel), channel = first + panel;
      if (has_joined_groups) std::ranges::fill(terms, kUnsigned);
      for (std::size_t done = 0, next = 0; done < count; done = next) {  // the channels of one group after the other
        const std::size_t joined_before = (panel + done) / of_joined;
        next = std::min((joined_before + 1) * of_joined - panel, count);
        gather_channels(geometry, kernels, order,
                        filter + static_cast<std::int64_t>(channel + done) * geometry.filter.n, next - done,
                        flip ^ kUnsigned,
                        terms.data() + done * k + joined_before * as_size(geometry.filter_input_channels()));
      }
      sum_signed(kernels, terms.data(), k, count, k, sums + channel);
      for (std::size_t segment = 0; segment < layout.summed_segments; ++segment) {
        sum_signed(kernels, terms.data() + segment * order.segment_padded, k, count, order.segment_padded,
                   segment_sums + segment * layout.output_channels + channel);
      }
      if (count < nr) std::memset(packed, 0, nr * k);
      kernels.gather_groups({.columns = terms.data(),
                             .column_stride = k,
                             .count = count,
                             .k = k,
                             .flip = kUnsigned,
                             .output = packed,
                             .group_stride = nr * 4});
      if (layout.order_steps == nullptr) continue;
      layout.order_steps(packed, order.segments, order.segment_padded, steps);
      steps += layout.order_stride();
    }
  }
}

}  // namespace dmlcpu
