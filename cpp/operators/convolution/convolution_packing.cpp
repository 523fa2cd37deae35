#include "operators/convolution/convolution_packing.h"

#include <cstring>
#include <new>
#include <vector>

#include "operators/sizes.h"
#include "operators/staging.h"
#include "runtime/aligned_buffer.h"

namespace dmlcpu {
namespace {

// One kernel row of one output pixel: kernel_width taps of channels codes each.
void pack_kernel_row(const ConvolutionGeometry& geometry, const PackKernels& kernels, const ActivationSource& source,
                     const std::uint8_t* input_row, std::int64_t first_column, std::uint8_t* target) {
  const std::int64_t channels = geometry.group_input_channels();
  const IndexRange taps =
      indices_inside(first_column, geometry.dilation_width, geometry.input_width, geometry.kernel_width);
  std::memset(target, source.zero_point, as_size(taps.begin * channels));
  std::memset(target + taps.end * channels, source.zero_point, as_size((geometry.kernel_width - taps.end) * channels));
  if (taps.begin == taps.end) return;
  const std::uint8_t* tap_source = input_row + (first_column + taps.begin * geometry.dilation_width) * geometry.input.w;
  // A step that is never taken may be beyond 64 bits.
  const std::int64_t tap_step = taps.end - taps.begin == 1 ? 0 : geometry.dilation_width * geometry.input.w;
  const bool dense_channels = geometry.input.c == 1 || channels == 1;
  if (dense_channels && tap_step == channels) {  // all taps are one run of memory
    kernels.copy(tap_source, as_size((taps.end - taps.begin) * channels), source.flip, target + taps.begin * channels);
    return;
  }
  for (std::int64_t tap = taps.begin; tap < taps.end; ++tap) {
    copy_codes(kernels, tap_source + (tap - taps.begin) * tap_step, dense_channels ? 1 : geometry.input.c, channels,
               source.flip, target + tap * channels);
  }
}

}  // namespace

void pack_padded_row(const ConvolutionGeometry& geometry, const PackKernels& kernels, const ActivationSource& source,
                     std::int64_t image, std::int64_t padded_row, std::int64_t first, std::int64_t count,
                     std::uint8_t* target) {
  const std::int64_t channels = geometry.input_channels, row = padded_row - geometry.padding_top;
  const std::int64_t column = first - geometry.padding_left;
  std::int64_t begin = std::clamp<std::int64_t>(-column, 0, count);
  std::int64_t end = std::clamp<std::int64_t>(geometry.input_width - column, begin, count);
  if (row < 0 || row >= geometry.input_height) begin = end = count;
  std::memset(target, source.zero_point, as_size(begin * channels));
  std::memset(target + end * channels, source.zero_point, as_size((count - end) * channels));
  if (begin == end) return;
  const std::uint8_t* codes =
      source.data + image * geometry.input.n + row * geometry.input.h + (column + begin) * geometry.input.w;
  if (geometry.input.c == 1 && geometry.input.w == channels) {
    kernels.copy(codes, as_size((end - begin) * channels), source.flip, target + begin * channels);
    return;
  }
  for (std::int64_t i = begin; i < end; ++i) {
    copy_codes(kernels, codes + (i - begin) * geometry.input.w, geometry.input.c, channels, source.flip,
               target + i * channels);
  }
}

namespace {

// Pixels of one image that pixel_stride bytes follow each other: a copy, or of planes a transposition.
void pack_pixels(const ConvolutionGeometry& geometry, const PackKernels& kernels, std::uint8_t flip,
                 const std::uint8_t* data, std::int64_t pixel_stride, std::int64_t count, std::size_t k_padded,
                 std::uint8_t* rows) {
  const std::int64_t channels = geometry.group_input_channels();
  if (geometry.input.c != 1) {
    kernels.transpose({.input = data,
                       .input_row_stride = as_size(geometry.input.c),
                       .rows = as_size(channels),
                       .columns = as_size(count),
                       .flip = flip,
                       .output = rows,
                       .output_row_stride = k_padded});
  } else if (pixel_stride == channels && as_size(channels) == k_padded) {
    kernels.copy(data, as_size(count * channels), flip, rows);
  } else {
    for (std::int64_t pixel = 0; pixel < count; ++pixel, rows += k_padded) {
      kernels.copy(data + pixel * pixel_stride, as_size(channels), flip, rows);
    }
  }
}

}  // namespace

void pack_activation_rows(const ConvolutionGeometry& geometry, const PackKernels& kernels,
                          const ActivationSource& source, std::int64_t group, std::int64_t first, std::int64_t count,
                          std::size_t k_padded, std::uint8_t* rows) {
  const std::int64_t row_bytes = geometry.kernel_width * geometry.group_input_channels();
  const std::uint8_t* data = source.data + group * geometry.group_input_channels() * geometry.input.c;
  const auto pixel_stride = uniform_pixel_stride(geometry.input, 1, geometry.input_height, geometry.input_width);
  if (geometry.pointwise() && pixel_stride && (geometry.input.c == 1 || pixel_stride == 1)) {
    const std::int64_t pixels = geometry.image_pixels();
    for (const std::int64_t end = first + count; first < end;) {
      const std::int64_t of_image = std::min(end - first, pixels - first % pixels);
      pack_pixels(geometry, kernels, source.flip,
                  data + first / pixels * geometry.input.n + first % pixels * *pixel_stride, *pixel_stride, of_image,
                  k_padded, rows);
      rows += as_size(of_image) * k_padded;
      first += of_image;
    }
    return;
  }
  for_each_pixel_run(geometry, first, count, [&](std::int64_t offset, const PixelRun& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      std::uint8_t* target = rows + as_size(offset + i) * k_padded;
      const std::int64_t column = (run.column + i) * geometry.stride_width - geometry.padding_left;
      for (std::int64_t kernel_row = 0; kernel_row < geometry.kernel_height; ++kernel_row, target += row_bytes) {
        const std::int64_t row =
            run.row * geometry.stride_height - geometry.padding_top + kernel_row * geometry.dilation_height;
        if (row < 0 || row >= geometry.input_height) {
          std::memset(target, source.zero_point, as_size(row_bytes));
        } else {
          pack_kernel_row(geometry, kernels, source, data + run.n * geometry.input.n + row * geometry.input.h, column,
                          target);
        }
      }
    }
  });
}

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
          .summed_segments = sums_segments ? order.segments : 0};
}

namespace {

// The codes of one output channel in the order of k, flipped; what pads the segments is left as it is.
void gather_terms(const ConvolutionGeometry& geometry, const PackKernels& kernels, const TermOrder& order,
                  const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* terms) {
  const std::int64_t columns = geometry.kernel_width, channels = geometry.group_input_channels();
  // A segment may be one of a row's taps, or one kernel row or some.
  const bool by_tap = order.segment_terms == as_size(channels);
  const std::size_t k_of_column = by_tap ? order.segment_padded : as_size(channels);
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
                       .rows = as_size(geometry.group_input_channels()),
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
  auto* sums = reinterpret_cast<std::int32_t*>(packed + layout.sums_offset());
  auto* segment_sums = reinterpret_cast<std::int32_t*>(packed + layout.segment_sums_offset());
  // Of the channels of one panel, as unsigned codes, which kernels sum; what pads the segments is 0 as a signed one.
  std::vector<std::uint8_t> terms(nr * k, kUnsigned);
  std::memset(packed, 0, layout.zeros);
  packed += layout.zeros;
  for (std::size_t first = 0; first < layout.output_channels; first += channels) {
    for (std::size_t panel = 0; panel < channels; panel += nr, packed += nr * k) {
      const std::size_t count = std::min(nr, channels - panel), channel = first + panel;
      gather_channels(geometry, kernels, order, filter + static_cast<std::int64_t>(channel) * geometry.filter.n, count,
                      flip ^ kUnsigned, terms.data());
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
    }
  }
}

}  // namespace dmlcpu
