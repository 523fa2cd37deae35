#include "operators/strides/transposed_elements.h"

#include "operators/sizes.h"
#include "operators/strides/element_rows.h"
#include "operators/strides/element_width.h"

namespace dmlcpu {

void transpose_elements(const PackKernels& kernels, std::size_t element_bytes, const void* source,
                        std::int64_t source_stride, std::int64_t rows, std::int64_t columns, void* target,
                        std::int64_t target_stride) noexcept {
  constexpr std::int64_t kFewest = 8;  // the kernels take so many and more of four bytes at a time
  if (element_bytes == 4 && rows >= kFewest && columns >= kFewest) {  // groups of four bytes that change places
    kernels.gather_groups({.columns = static_cast<const std::uint8_t*>(source),
                           .column_stride = as_size(source_stride) * element_bytes,
                           .count = as_size(rows),
                           .k = as_size(columns) * element_bytes,
                           .flip = 0,
                           .output = static_cast<std::uint8_t*>(target),
                           .group_stride = as_size(target_stride) * element_bytes});
    return;
  }
  if (element_bytes == 1 && rows > 1 && columns > 1) {
    kernels.transpose({.input = static_cast<const std::uint8_t*>(source),
                       .input_row_stride = as_size(source_stride),
                       .rows = as_size(rows),
                       .columns = as_size(columns),
                       .flip = 0,
                       .output = static_cast<std::uint8_t*>(target),
                       .output_row_stride = as_size(target_stride)});
    return;
  }
  with_element_of(element_bytes, [&]<class Element>(Element) {
    copy_rows(static_cast<const Element*>(source), {source_stride, 1}, static_cast<Element*>(target),
              {1, target_stride}, rows, columns);
  });
}

}  // namespace dmlcpu
