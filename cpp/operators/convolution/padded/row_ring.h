// Where the rows of a padded input stand that the window of an output row reads: in a ring, whose places the rows of
// the next output row take over.
//
//   window of 3 rows, stride 1     place 0   row 0    then row 3
//                                  place 1   row 1    then row 4
//                                  place 2   row 2    ...
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "operators/sizes.h"

namespace dmlcpu {

class RowRing {
 public:
  // Without rows it is of no use, but has a size: 0.
  RowRing(std::int64_t rows, std::size_t row_bytes) : rows_(rows), row_bytes_(row_bytes) {}

  std::int64_t rows() const { return rows_; }
  std::size_t row_bytes() const { return row_bytes_; }
  std::size_t bytes() const { return as_size(rows_) * row_bytes_; }
  std::size_t offset(std::int64_t padded_row) const { return as_size(padded_row % rows_) * row_bytes_; }

  // Fills the ring by load(padded_row, where) with the rows from top on, but loads none before `loaded`, which it has
  // already; returns the end of what it has then. A task begins with 0.
  template <class Load>
  std::int64_t fill(std::int64_t top, std::int64_t loaded, std::uint8_t* ring, const Load& load) const {
    for (loaded = std::max(loaded, top); loaded < top + rows_; ++loaded) load(loaded, ring + offset(loaded));
    return loaded;
  }

 private:
  std::int64_t rows_;
  std::size_t row_bytes_;
};

}  // namespace dmlcpu
