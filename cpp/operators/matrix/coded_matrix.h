// A matrix of constant codes, of 4 or 8 bits with a scale and a zero point for each block of k, as the right operand of
// a product of floats: what DEQUANTIZED_PRODUCT and QUANTIZED_BLOCK_PRODUCT have in common.
//
//   a           {.., M, K}, FLOAT32
//   b           {N, blocks * bytes of a block}, UINT8: codes of a column, unsigned; of 4 bits two in a byte, the first
//               in the low half; several blocks are of whole 32-bit words, and the last is filled up with anything
//   scale       {N, blocks}, FLOAT32
//   zero point  {N, blocks}, UINT8, a byte each
//   output      {.., M, N}, FLOAT32
//
// Attributes: bits, of a code; block_size, terms. b, scale and zero point are owned, and packed once, in panels
// (kernels/dequantized_product/dequantized_product.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/pack/pack.h"
#include "operators/matrix/matrix_geometry.h"
#include "operators/sizes.h"

namespace dmlcpu {

// The tensors of such a product.
enum CodedProductTensor : std::size_t { kCodedA, kCodedB, kCodedScale, kCodedZeroPoint, kCodedOutput };

class CodedMatrix {
 public:
  // Throws std::invalid_argument where tensors and attributes do not fit together: the kernels' memory safety rests on
  // these checks, and those of geometry().
  explicit CodedMatrix(const OperatorDesc& desc);

  std::int64_t bits() const { return bits_; }
  std::int64_t block_size() const { return block_size_; }
  std::int64_t blocks() const { return blocks_; }
  std::int64_t panels() const;
  // 32-bit words of a column in a block.
  std::int64_t words_of_block() const { return divide_up(block_size_ * bits_, 32); }

  // Of a product by the matrix, which all of a batch share; b's strides mean nothing.
  MatrixGeometry geometry(const OperatorDesc& desc) const;

  // Of b, scale or zero point: the packed form, its elements (words of b) for a panel, its bytes, and what it depends
  // on (CompiledOperator::packing).
  AlignedBuffer packed(const OperatorDesc& desc, const PackKernels& kernels, std::size_t tensor,
                       const void* data) const;
  std::size_t panel_elements(std::size_t tensor) const;
  std::size_t packed_size(std::size_t tensor) const;
  std::vector<std::size_t> packing() const { return {as_size(bits_), as_size(block_size_), as_size(blocks_)}; }

 private:
  void pack_words(const TensorLayout& layout, const PackKernels& kernels, const std::uint8_t* columns,
                  std::int64_t count, std::uint32_t* panel) const;

  std::int64_t bits_, block_size_, blocks_, k_, n_;
};

// A kind of operators, Base, that keeps its b, scale and zero point as a coded matrix.
template <class Base>
class OfCodedMatrix : public Base {
 protected:
  // The arguments are Base's.
  template <class... Arguments>
  explicit OfCodedMatrix(const CodedMatrix& matrix, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), matrix_(matrix) {}

  const CodedMatrix& matrix() const { return matrix_; }

  std::optional<AlignedBuffer> pack_owned(std::size_t tensor, const void* data) const final {
    if (tensor == kCodedA) return std::nullopt;
    return matrix_.packed(this->desc(), *this->target().kernels().pack, tensor, data);
  }
  std::size_t packed_owned_size(std::size_t tensor) const final {
    return tensor == kCodedA ? Base::packed_owned_size(tensor) : matrix_.packed_size(tensor);
  }
  std::vector<std::size_t> packing(std::size_t tensor) const final {
    return tensor == kCodedA ? Base::packing(tensor) : matrix_.packing();
  }

 private:
  CodedMatrix matrix_;
};

}  // namespace dmlcpu
