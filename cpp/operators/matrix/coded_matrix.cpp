#include "operators/matrix/coded_matrix.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/dequantized_product/dequantized_product.h"
#include "operators/strides/element_rows.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kColumns = kCodedPanelColumns;

constexpr std::size_t element_size(std::size_t tensor) { return tensor == kCodedZeroPoint ? 1 : 4; }

// Half bytes 0, 1, ... 7 of a word to the low halves of its bytes, then the high ones.
std::uint32_t with_halves_apart(std::uint32_t word) {
  const auto spread = [](std::uint32_t halves) {
    halves = (halves | halves << 8) & 0x00ff00ff;
    return (halves | halves << 4) & 0x0f0f0f0f;
  };
  return spread(word & 0xffff) | spread(word >> 16) << 4;
}

template <class Element>
void pack_parameters(const TensorLayout& layout, const Element* first, std::int64_t count, Element* panel) {
  for (std::int64_t block = 0; block < layout.sizes[1]; ++block, panel += kColumns) {
    for (std::int64_t i = 0; i < count; ++i) panel[i] = first[i * layout.strides[0] + block * layout.strides[1]];
  }
}

}  // namespace

CodedMatrix::CodedMatrix(const OperatorDesc& desc)
    : bits_(desc.attribute("bits").front()), block_size_(desc.attribute("block_size").front()) {
  const auto refuse = [&](const char* why) { throw std::invalid_argument(desc.type + ": " + why); };
  const TensorLayout &a = desc.tensor(kCodedA), &b = desc.tensor(kCodedB);
  if (bits_ != 4 && bits_ != 8) refuse("codes have 4 or 8 bits");
  if (a.rank < 2 || b.rank != 2) refuse("matrices are of rank 2 to 4, codes of rank 2");
  k_ = a.sizes[a.rank - 1];
  n_ = b.sizes[0];
  // Broadcast tensors can be of sizes that no memory has, and a block is kept whole. What is packed is below 1024 bytes
  // for each term of a block, row and column.
  constexpr std::int64_t kMost = INT64_MAX / 1024;
  if (block_size_ < 1 || block_size_ > kMost) refuse("block_size is out of range");
  if (k_ > kMost / block_size_ || n_ > kMost / block_size_ / k_) refuse("b is too large to be packed");
  blocks_ = divide_up(k_, block_size_);
  if (blocks_ > 1 && block_size_ * bits_ % 32 != 0) refuse("several blocks are of whole 32-bit words");
  if (b.sizes[1] != blocks_ * divide_up(block_size_ * bits_, 8)) refuse("a column's codes are its blocks");
  for (const std::size_t tensor : {kCodedScale, kCodedZeroPoint}) {
    const TensorLayout& layout = desc.tensor(tensor);
    if (layout.rank != 2 || layout.sizes[0] != n_ || layout.sizes[1] != blocks_) {
      refuse("there is a scale and a zero point for each block of a column");
    }
  }
  for (const std::size_t tensor : {kCodedB, kCodedScale, kCodedZeroPoint}) {
    if (!desc.tensor(tensor).owned) refuse("b, its scales and zero points are owned");
  }
}

std::int64_t CodedMatrix::panels() const { return divide_up(n_, kColumns); }

MatrixGeometry CodedMatrix::geometry(const OperatorDesc& desc) const {
  const TensorLayout &a = desc.tensor(kCodedA), &output = desc.tensor(kCodedOutput);
  const TensorLayout b = {.rank = 2, .sizes = {k_, n_}};
  return matrix_geometry(desc, a, b, output, std::nullopt);
}

std::size_t CodedMatrix::panel_elements(std::size_t tensor) const {
  return as_size(blocks_ * (tensor == kCodedB ? words_of_block() : 1) * kColumns);
}

std::size_t CodedMatrix::packed_size(std::size_t tensor) const {
  return as_size(panels()) * panel_elements(tensor) * element_size(tensor);
}

AlignedBuffer CodedMatrix::packed(const OperatorDesc& desc, const PackKernels& kernels, std::size_t tensor,
                                  const void* data) const {
  const TensorLayout& layout = desc.tensor(tensor);
  AlignedBuffer packed(packed_size(tensor));
  const std::size_t panel_size = panel_elements(tensor) * element_size(tensor);
  for (std::int64_t panel = 0; panel < panels(); ++panel) {
    const std::int64_t column = panel * kColumns, count = std::min(kColumns, n_ - column);
    const std::int64_t first = column * layout.strides[0];
    std::uint8_t* to = packed.data() + as_size(panel) * panel_size;
    // What fills up the last panel, so that equal matrices have equal bytes (runtime/shared_buffers.h).
    if (count < kColumns) std::fill_n(to, panel_size, std::uint8_t{0});
    if (tensor == kCodedScale) {
      pack_parameters(layout, static_cast<const float*>(data) + first, count, reinterpret_cast<float*>(to));
    } else if (tensor == kCodedZeroPoint) {
      pack_parameters(layout, static_cast<const std::uint8_t*>(data) + first, count, to);
    } else {
      const auto* columns = static_cast<const std::uint8_t*>(data) + first;
      pack_words(layout, kernels, columns, count, reinterpret_cast<std::uint32_t*>(to));
    }
  }
  return packed;
}

// Up to kColumns of them.
void CodedMatrix::pack_words(const TensorLayout& layout, const PackKernels& kernels, const std::uint8_t* columns,
                             std::int64_t count, std::uint32_t* panel) const {
  std::vector<std::uint8_t> copied;
  std::int64_t stride = layout.strides[0];
  if (layout.strides[1] != 1 && layout.sizes[1] != 1) {  // a column's codes are no neighbours
    copied.resize(as_size(count * layout.sizes[1]));
    if (stride == 1) {  // but those of columns are
      kernels.transpose({.input = columns,
                         .input_row_stride = as_size(layout.strides[1]),
                         .rows = as_size(layout.sizes[1]),
                         .columns = as_size(count),
                         .flip = 0,
                         .output = copied.data(),
                         .output_row_stride = as_size(layout.sizes[1])});
    } else {
      copy_rows(columns, {stride, layout.strides[1]}, copied.data(), {layout.sizes[1], 1}, count, layout.sizes[1]);
    }
    columns = copied.data();
    stride = layout.sizes[1];
  }
  // All blocks of a column at once: several are of whole words, and follow each other here as they do there.
  kernels.gather_groups({.columns = columns,
                         .column_stride = as_size(stride),
                         .count = as_size(count),
                         .k = as_size(layout.sizes[1]),
                         .flip = 0,
                         .output = reinterpret_cast<std::uint8_t*>(panel),
                         .group_stride = as_size(kColumns) * sizeof(std::uint32_t)});
  if (bits_ == 4) std::transform(panel, panel + panel_elements(kCodedB), panel, with_halves_apart);
}

}  // namespace dmlcpu
