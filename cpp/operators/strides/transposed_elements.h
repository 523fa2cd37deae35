// Rows of elements that are neighbours become columns of elements that are neighbours, by the kernels of packing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/pack/pack.h"

namespace dmlcpu {

// target[column * target_stride + row] = source[row * source_stride + column] of elements of 1, 2, 4 or 8 bytes;
// strides in elements.
void transpose_elements(const PackKernels& kernels, std::size_t element_bytes, const void* source,
                        std::int64_t source_stride, std::int64_t rows, std::int64_t columns, void* target,
                        std::int64_t target_stride) noexcept;

}  // namespace dmlcpu
