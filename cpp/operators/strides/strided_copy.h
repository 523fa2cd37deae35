// Copies elements between tensors of equal sizes and any strides, as bytes.
//
// The output decides the order of the axes (StridedRuns); two of them make a block, in the cheapest way that both
// strides allow:
//
//   runs         the innermost axis is contiguous in both           slices, concatenation, tensors that are one run
//   fill         it is contiguous in the output, one element long   broadcast, padding
//                in the input
//   doubled      two of each element, and of each row               images of twice the size
//   transposed   another axis is contiguous in the input            {N, C, H, W} memory to {N, H, W, C} and back
//   elements     all else                                           steps of two and more
//
// Where the outermost axis repeats a dense slice of the output, that is copied once from the input, then from itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "operators/operator.h"
#include "operators/strides/strided_runs.h"

namespace dmlcpu {

class StridedCopy {
 public:
  // Throws std::invalid_argument if the sizes or data types differ.
  StridedCopy(const TensorLayout& output, const TensorLayout& input, const ExecutionTarget& target);

  // From the first element on to the first element on. The two do not overlap.
  void run(const void* input, void* output) const;

  // Whether neighbours of the output are far apart in the input, for a whole axis.
  bool transposes() const { return method_ == Method::transposed; }

  std::string describe() const;

 private:
  enum class Method : std::uint8_t { runs, fill, doubled, transposed, elements };

  // A range of an axis to a task.
  struct Cut {
    std::size_t size, piece;
    std::size_t count() const { return (size + piece - 1) / piece; }
  };

  struct Block {
    const std::uint8_t* input;
    std::uint8_t* output;
    std::size_t rows, columns;
  };

  // Of a block, along the axes that are not in it.
  struct OuterPlace {
    Extents indices;
    StridedRuns::Offsets offsets;  // of its first element
  };

  void choose_method();
  void cut_into_tasks(std::size_t elements);
  void find_repeats();
  void choose_rows();
  void double_images();
  std::size_t elements_of_doubled_row() const;
  bool is_of_block(std::size_t axis) const;
  std::size_t slice_elements() const;  // where there are repeats
  OuterPlace outer_place(std::size_t index) const;
  void advance(OuterPlace& place) const;
  void repeat(std::uint8_t* output) const;
  void copy_block(const Block& block) const;
  template <class Element>
  void copy_tiles(const Block& block) const;

  ExecutionTarget target_;
  std::size_t element_bytes_;
  StridedRuns runs_;
  Method method_ = Method::elements;
  std::size_t row_axis_ = 1;  // with axis 0 it makes a block; rank() and more where there is no other axis
  std::size_t repeats_ = 1;   // of the slice that is not along the outermost axis
  Cut columns_{}, rows_{}, outer_{};
  Cut copies_{};  // of the first slice
};

}  // namespace dmlcpu
