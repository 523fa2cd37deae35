// Copies elements between memories of any strides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "operators/sizes.h"

namespace dmlcpu {

// From one row to the next, and from one column to the next, in elements.
struct ElementStrides {
  std::int64_t row, column;
};

// Writes the columns in front of a target behind themselves until it has count elements: more and more of them
// together, as long as what is read and what is written stay in a level-1 cache.
template <class Element>
void repeat_front(Element* target, std::size_t columns, std::size_t count) noexcept {
  constexpr std::size_t kNear = 8192 / sizeof(Element);
  const std::size_t most = count <= kNear ? count : std::max(kNear / columns, std::size_t{1}) * columns;
  for (std::size_t done = columns, together; done < count; done += together) {
    together = std::min({done, most, count - done});
    std::memcpy(target + done, target, together * sizeof(Element));
  }
}

// Writes a row several times, one after the other.
template <class Element>
void repeat_row(const Element* source, std::int64_t source_column, Element* target, std::size_t rows,
                std::size_t columns) noexcept {
  for (std::size_t j = 0; j < columns; ++j) target[j] = source[static_cast<std::int64_t>(j) * source_column];
  repeat_front(target, columns, rows * columns);
}

// Writes each of count neighbours twice, in a loop that compilers make vectors of.
template <class Element>
inline void double_elements(const Element* __restrict source, Element* __restrict target, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) target[2 * i] = target[2 * i + 1] = source[i];
}

// The same of rows, each of which becomes two that follow each other.
template <class Element>
void double_rows(const Element* source, std::int64_t source_row, Element* target, std::int64_t target_row,
                 std::size_t rows, std::size_t columns) noexcept {
  for (; rows > 0; --rows, source += source_row, target += target_row) {
    double_elements(source, target, columns);
    double_elements(source, target + 2 * columns, columns);
  }
}

// kCount elements that are steps apart, in a loop that compilers unroll.
template <std::int64_t kCount, class Element>
inline void copy_steps(const Element* source, std::int64_t source_step, Element* target,
                       std::int64_t target_step) noexcept {
  for (std::int64_t i = 0; i < kCount; ++i, source += source_step, target += target_step) *target = *source;
}

// The same of any number. A loop of single elements is so short that its speed hangs on where its code lies.
template <class Element>
inline void copy_steps(const Element* source, std::int64_t source_step, Element* target, std::int64_t target_step,
                       std::int64_t count) noexcept {
  constexpr std::int64_t kTogether = 8;
  for (; count >= kTogether; count -= kTogether, source += kTogether * source_step, target += kTogether * target_step) {
    copy_steps<kTogether>(source, source_step, target, target_step);
  }
  for (; count > 0; --count, source += source_step, target += target_step) *target = *source;
}

// Where elements are nearer across rows than within them on one side, loops go down the columns: of a few rows, so that
// few lines of the other side are in use until they are used up. Strides are passed by value, as stores of bytes might
// change what is referred to.
template <class Element>
void copy_rows(const Element* source, ElementStrides from, Element* target, ElementStrides to, std::int64_t rows,
               std::int64_t columns) noexcept {
  if (rows > 1 && ((from.row != 0 && from.row < from.column) || to.row < to.column)) {
    constexpr std::int64_t kRows = 16;
    for (; rows >= kRows; rows -= kRows, source += kRows * from.row, target += kRows * to.row) {
      for (std::int64_t j = 0; j < columns; ++j) {
        copy_steps<kRows>(source + j * from.column, from.row, target + j * to.column, to.row);
      }
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      copy_steps(source + j * from.column, from.row, target + j * to.column, to.row, rows);
    }
    return;
  }
  if (from.row == 0 && to.row == columns && to.column == 1 && rows > 1) {
    repeat_row(source, from.column, target, as_size(rows), as_size(columns));
    return;
  }
  constexpr std::int64_t kCopied = 16;  // elements from which on a call that copies them is as quick as a loop
  if (from.column == 1 && to.column == 1 && columns >= kCopied) {
    for (std::int64_t i = 0; i < rows; ++i) {
      std::memcpy(target + i * to.row, source + i * from.row, as_size(columns) * sizeof(Element));
    }
    return;
  }
  for (std::int64_t i = 0; i < rows; ++i, source += from.row, target += to.row) {
    if (from.column == 0 && to.column == 1) {
      std::fill_n(target, columns, *source);
    } else if (from.column == 1) {
      copy_steps(source, 1, target, to.column, columns);
    } else {
      copy_steps(source, from.column, target, to.column, columns);
    }
  }
}

}  // namespace dmlcpu
