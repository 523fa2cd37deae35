// The products of block_product.h with those of a block in registers, on the vectors of an instruction set.
// Included inside the unnamed namespace of a kernel file, behind the lanes of kernels/lanes and
//
//   Words, load_words(words)        a vector of 32-bit words, or integers
//   integers_of_bytes(bytes)        kLanes of them, unsigned
//   low_products(words, factor)     the signed 16-bit low halves times that of a factor
//   floats_of(words)                of integers, converted
//   Codes<bits>(words)              codes of a group of words, one unsigned byte each
//   plus_dot(sum, codes, a)         sum + the codes' products with as many of a, added up
//   Tile<rows>::kVectors            of a row of sums; a panel is a multiple of them
//   kMostRows                       of a tile
#include "kernels/lanes/rows.inl.h"

template <std::size_t bits, std::size_t rows>
void multiply_rows(const BlockProduct& product, std::size_t row, std::size_t column) noexcept {
  constexpr std::size_t vectors = Tile<rows>::kVectors, codes_of_word = 32 / bits;
  const std::size_t words_of_block = product.block / codes_of_word, row_codes = product.blocks * product.block;
  const std::int8_t* a = product.a + row * row_codes;
  const std::uint32_t* words = product.words + column;
  Floats sum[rows][vectors];
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t v = 0; v < vectors; ++v) sum[r][v] = spread(0.0f);
  }
  for (std::size_t block = 0; block < product.blocks; ++block) {
    const std::size_t of_a = row * product.blocks + block, of_b = block * kCodedPanelColumns + column;
    Words dot[rows][vectors];
    for (std::size_t v = 0; v < vectors; ++v) {
      const Words zero_point = integers_of_bytes(product.zero_point + of_b + v * kLanes);
      for (std::size_t r = 0; r < rows; ++r) {
        dot[r][v] = low_products(zero_point, product.a_negative_sum[of_a + r * product.blocks]);
      }
    }
    for (std::size_t word = 0; word < words_of_block; ++word, words += kCodedPanelColumns, a += codes_of_word) {
      for (std::size_t v = 0; v < vectors; ++v) {
        const Codes<bits> codes(load_words(words + v * kLanes));
        for (std::size_t r = 0; r < rows; ++r) dot[r][v] = plus_dot(dot[r][v], codes, a + r * row_codes);
      }
    }
    for (std::size_t v = 0; v < vectors; ++v) {
      const Floats scale = load(product.scale + of_b + v * kLanes);
      for (std::size_t r = 0; r < rows; ++r) {
        const Floats both = spread(product.a_scale[of_a + r * product.blocks]) * scale;
        sum[r][v] = fused(floats_of(dot[r][v]), both, sum[r][v]);
      }
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    store_row(product.sums + (row + r) * product.sums_row_stride + column, product.n - column, sum[r]);
  }
}

template <std::size_t bits, std::size_t rows>
void multiply_columns(const BlockProduct& product, std::size_t row) noexcept {
  constexpr std::size_t columns = Tile<rows>::kVectors * kLanes;
  for (std::size_t column = 0; column < product.n; column += columns) multiply_rows<bits, rows>(product, row, column);
}

// Of so many rows, at most `most`.
template <std::size_t bits, std::size_t most>
void multiply_some(const BlockProduct& product, std::size_t row, std::size_t rows) noexcept {
  if constexpr (most > 1) {
    if (rows < most) return multiply_some<bits, most - 1>(product, row, rows);
  }
  multiply_columns<bits, most>(product, row);
}

template <std::size_t bits>
void multiply(const BlockProduct& product) noexcept {
  for (std::size_t row = 0; row < product.m; row += kMostRows) {
    multiply_some<bits, kMostRows>(product, row, product.m - row);
  }
}
