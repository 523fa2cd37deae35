// dequantized_product.h with sums in registers, on the vectors of an instruction set.
// Included inside the unnamed namespace of a kernel file, behind <utility>, the lanes of kernels/lanes and
//
//   kSumVectors                  dequantized at a time: a panel is a multiple of them
//   kMostRows                    of a tile of sums
//   vectors_of_tile(rows)        of a row of sums, in a tile of so many: kSumVectors is a multiple of them
//   Words, load_words(words)     a vector of 32-bit words
//   with_differences<bits, vectors>(zero_points, use)
//                                calls use(differences), where differences.at<shift>(words, v) are the codes of so many
//                                bits, from bit `shift` on, of the words of columns v * kLanes and so on, less the zero
//                                points of so many vectors of columns, as floats: they are exact
#include "kernels/lanes/rows.inl.h"

constexpr std::size_t kSumColumns = kSumVectors * kLanes;

// Calls visit(k, values) with so many vectors of dequantized columns, for one k of a block after the other: from k up
// to end, where words is moved to.
template <std::size_t bits, std::size_t vectors, class Differences, class Visit>
inline __attribute__((always_inline)) void for_each_row_of_block(const Differences& differences, const float* scales,
                                                                 std::size_t k, std::size_t end,
                                                                 const std::uint32_t*& words, Visit visit) noexcept {
  constexpr std::size_t kCodes = 32 / bits;
  Floats scale[vectors];
  for (std::size_t v = 0; v < vectors; ++v) scale[v] = load(scales + v * kLanes);
  for (; k < end; k += kCodes, words += kCodedPanelColumns) {
    Words of_columns[vectors];
    for (std::size_t v = 0; v < vectors; ++v) of_columns[v] = load_words(words + v * kLanes);
    const auto visit_code = [&]<std::size_t code>() __attribute__((always_inline)) {
      Floats values[vectors];
      for (std::size_t v = 0; v < vectors; ++v) {
        values[v] = differences.template at<code_shift(bits, code)>(of_columns[v], v) * scale[v];
      }
      visit(k + code, values);
    };
    [&]<std::size_t... code>(std::index_sequence<code...>) __attribute__((always_inline)) {
      // Asked for each: the code for whole words alone would be as much again, and not faster.
      (void)((code < end - k && (visit_code.template operator()<code>(), true)) && ...);
    }(std::make_index_sequence<kCodes>());
  }
}

// The same for all k of a panel.
template <std::size_t bits, std::size_t vectors, class Visit>
inline __attribute__((always_inline)) void for_each_row(const CodedPanel& panel, std::size_t column,
                                                        Visit visit) noexcept {
  const std::uint32_t* words = panel.words + column;
  std::size_t parameters = column;
  for (std::size_t k = 0; k < panel.k; k += panel.block, parameters += kCodedPanelColumns) {
    const std::size_t end = panel.k - k < panel.block ? panel.k : k + panel.block;
    with_differences<bits, vectors>(
        panel.zero_point + parameters, [&](const auto& differences) __attribute__((always_inline)) {
          for_each_row_of_block<bits, vectors>(differences, panel.scale + parameters, k, end, words, visit);
        });
  }
}

template <std::size_t bits, std::size_t vectors, std::size_t rows>
void accumulate_rows(const DequantizedProductBlock& block, std::size_t row, std::size_t column) noexcept {
  const float* a = block.a + row * block.a_row_stride;
  float* sums = block.sums + row * block.sums_row_stride + column;
  const std::size_t columns = block.n - column;
  Floats sum[rows][vectors];
  for (std::size_t r = 0; r < rows; ++r) load_row(sums + r * block.sums_row_stride, block.begins ? 0 : columns, sum[r]);
  for_each_row<bits, vectors>(block.b, column, [&](std::size_t k, const Floats* values) __attribute__((always_inline)) {
    for (std::size_t r = 0; r < rows; ++r) {
      const Floats of_a = spread(a[r * block.a_row_stride + k]);
      for (std::size_t v = 0; v < vectors; ++v) sum[r][v] = fused(of_a, values[v], sum[r][v]);
    }
  });
  for (std::size_t r = 0; r < rows; ++r) store_row(sums + r * block.sums_row_stride, columns, sum[r]);
}

struct Tile {
  void (*accumulate)(const DequantizedProductBlock& block, std::size_t row, std::size_t column) noexcept;
  std::size_t columns;
};

template <std::size_t bits, std::size_t rows>
constexpr Tile kTileOfRows = {accumulate_rows<bits, vectors_of_tile(rows), rows>, vectors_of_tile(rows) * kLanes};

template <std::size_t bits>
void accumulate(const DequantizedProductBlock& block) noexcept {
  static constexpr auto kTiles = []<std::size_t... row>(std::index_sequence<row...>) {
    return std::array<Tile, kMostRows>{kTileOfRows<bits, row + 1>...};
  }(std::make_index_sequence<kMostRows>());
  std::size_t tiles = (block.m + kMostRows - 1) / kMostRows;
  for (std::size_t row = 0; row < block.m; --tiles) {
    const std::size_t rows = (block.m - row + tiles - 1) / tiles;  // much the same in all
    const Tile& tile = kTiles[rows - 1];
    for (std::size_t column = 0; column < block.n; column += tile.columns) tile.accumulate(block, row, column);
    row += rows;
  }
}

template <std::size_t bits>
void dequantize(const CodedPanel& panel, float* values) noexcept {
  for (std::size_t column = 0; column < kCodedPanelColumns; column += kSumColumns) {
    for_each_row<bits, kSumVectors>(panel, column,
                                    [&](std::size_t k, const Floats* of_row) __attribute__((always_inline)) {
                                      float* to = values + k * kCodedPanelColumns + column;
                                      for (std::size_t v = 0; v < kSumVectors; ++v) store(to + v * kLanes, of_row[v]);
                                    });
  }
}

template <std::size_t bits>
constexpr DequantizedProductFunctions kFunctions = {accumulate<bits>, dequantize<bits>};
