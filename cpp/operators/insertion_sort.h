// A stable sort of a few elements.
#pragma once

#include <algorithm>

namespace dmlcpu {

// For the axes of a tensor: takes no memory, which std::stable_sort does (by std::get_temporary_buffer, deprecated).
template <class Iterator, class Less>
void insertion_sort(Iterator first, Iterator last, Less less) {
  for (Iterator next = first; next != last; ++next) {
    std::rotate(std::upper_bound(first, next, *next, less), next, next + 1);
  }
}

}  // namespace dmlcpu
