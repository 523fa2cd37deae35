// Moves elements of matrices between rows of neighbours and any strides, which are in elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "operators/sizes.h"

namespace dmlcpu {

// Rows of neighbours, to elements of any strides.
template <class Element>
void scatter_elements(const std::uint8_t* from, std::int64_t rows, std::int64_t columns, std::uint8_t* to,
                      std::int64_t row_stride, std::int64_t column_stride) noexcept {
  constexpr std::int64_t kRows = 16;  // a cache line or less of each output column where rows are neighbours
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t end = std::min(first + kRows, rows);
    for (std::int64_t column = 0; column < columns; ++column) {
      for (std::int64_t row = first; row < end; ++row) {
        std::memcpy(to + (row * row_stride + column * column_stride) * static_cast<std::int64_t>(sizeof(Element)),
                    from + as_size(row * columns + column) * sizeof(Element), sizeof(Element));
      }
    }
  }
}

// Elements of any strides, as rows of neighbours.
template <class Element>
void gather_elements(const std::uint8_t* from, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                     std::int64_t column_stride, std::uint8_t* to) noexcept {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::memcpy(to + as_size(row * columns + column) * sizeof(Element),
                  from + (row * row_stride + column * column_stride) * static_cast<std::int64_t>(sizeof(Element)),
                  sizeof(Element));
    }
  }
}

}  // namespace dmlcpu
