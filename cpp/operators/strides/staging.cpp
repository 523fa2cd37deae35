#include "operators/strides/staging.h"

#include <algorithm>

#include "operators/element_types.h"
#include "operators/sizes.h"
#include "operators/strides/element_rows.h"
#include "operators/strides/element_width.h"
#include "operators/strides/transposed_elements.h"

namespace dmlcpu {
namespace {

#include "kernels/half.inl.h"

ElementStrides strides_of(const Rows& rows) { return {rows.row_stride, rows.column_stride}; }
ElementStrides packed_strides(const Rows& rows) { return {static_cast<std::int64_t>(rows.columns), 1}; }

// From how many rows and columns on elements are transposed within registers; fewer rows where they become a whole
// stretch, as those of an image's colours do.
constexpr std::size_t kTransposed = 4;

bool transposes(const Rows& rows) {
  const bool whole = rows.column_stride == static_cast<std::int64_t>(rows.rows);
  return rows.row_stride == 1 && rows.column_stride > 1 && (rows.rows >= kTransposed || whole) &&
         rows.columns >= kTransposed;
}

template <class Element>
void convert_elements(const void* first, std::int64_t stride, std::size_t count, float* values) {
  const Element* source = static_cast<const Element*>(first);
  if (stride == 0) {
    std::fill_n(values, count, static_cast<float>(*source));
  } else if (stride == 1) {
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(source[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(source[static_cast<std::int64_t>(i) * stride]);
    }
  }
}

}  // namespace

const void* gather(const void* first, DataType type, const Rows& rows, const PackKernels& kernels,
                   ChunkBuffer& buffer) {
  if (rows.contiguous()) return first;
  const std::size_t bytes = element_size(type);
  if (transposes(rows)) {
    const auto columns = static_cast<std::int64_t>(rows.columns);
    transpose_elements(kernels, bytes, first, rows.column_stride, columns, static_cast<std::int64_t>(rows.rows),
                       buffer.bytes, columns);
  } else {
    with_element_of(bytes, [&]<class Element>(Element) {
      copy_rows(static_cast<const Element*>(first), strides_of(rows), reinterpret_cast<Element*>(buffer.bytes),
                packed_strides(rows), static_cast<std::int64_t>(rows.rows), static_cast<std::int64_t>(rows.columns));
    });
  }
  return buffer.bytes;
}

void scatter(const ChunkBuffer& buffer, DataType type, void* first, const Rows& rows, const PackKernels& kernels) {
  const std::size_t bytes = element_size(type);
  if (transposes(rows)) {
    const auto columns = static_cast<std::int64_t>(rows.columns);
    transpose_elements(kernels, bytes, buffer.bytes, columns, static_cast<std::int64_t>(rows.rows), columns, first,
                       rows.column_stride);
  } else {
    with_element_of(bytes, [&]<class Element>(Element) {
      copy_rows(reinterpret_cast<const Element*>(buffer.bytes), packed_strides(rows), static_cast<Element*>(first),
                strides_of(rows), static_cast<std::int64_t>(rows.rows), static_cast<std::int64_t>(rows.columns));
    });
  }
}

void copy_codes(const PackKernels& kernels, const std::uint8_t* source, std::int64_t step, std::int64_t count,
                std::uint8_t flip, std::uint8_t* target) {
  if (step == 1) {
    kernels.copy(source, as_size(count), flip, target);
    return;
  }
  if (step == 2) {  // a stride of 2, in a loop that the compiler vectorises
    for (std::int64_t i = 0; i < count; ++i) target[i] = static_cast<std::uint8_t>(source[i * 2] ^ flip);
    return;
  }
  // Several together: a loop of single ones is so short that its speed hangs on where its code lies.
  constexpr std::int64_t kTogether = 8;
  for (; count >= kTogether; count -= kTogether, source += kTogether * step, target += kTogether) {
    for (std::int64_t i = 0; i < kTogether; ++i) target[i] = static_cast<std::uint8_t>(source[i * step] ^ flip);
  }
  for (std::int64_t i = 0; i < count; ++i) target[i] = static_cast<std::uint8_t>(source[i * step] ^ flip);
}

void gather_as_float(const void* first, DataType type, std::int64_t stride, std::size_t count, float* values) {
  if (type == DataType::float16) {
    const auto* source = static_cast<const std::uint16_t*>(first);
    for (std::size_t i = 0; i < count; ++i) values[i] = widen({source[static_cast<std::int64_t>(i) * stride]});
    return;
  }
  with_element_of_type<float, std::uint32_t, std::uint16_t, std::uint8_t, std::int32_t, std::int16_t, std::int8_t,
                       std::int64_t>(
      type, [&]<class Element>(Element) { convert_elements<Element>(first, stride, count, values); });
}

float value_as_float(const void* data, DataType type, float otherwise) {
  if (data == nullptr) return otherwise;
  float value = 0.0F;
  gather_as_float(data, type, 0, 1, &value);
  return value;
}

}  // namespace dmlcpu
