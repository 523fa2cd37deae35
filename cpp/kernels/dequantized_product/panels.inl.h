// dequantized_product.h with sums in registers, on the vectors of an instruction set.
// Included inside the unnamed namespace of a kernel file, behind <utility> and
//
//   Floats, Words, kLanes        vectors of float32 and of 32-bit words, and their lanes
//   Mask, first_lanes(count)     their first lanes, 1 to kLanes
//   zeros(), spread(value)       vectors of one float
//   load, store                  floats, whole, or the lanes of a mask alone, of which the others are loaded as 0
//   load_words(words)            whole
//   floats_of_bytes(bytes)       kLanes of them
//   code_at<bits, shift>(words)  2^23 + the code of so many bits, from so many on, of each word: codes become the ends
//   of
//                                significands, so that nothing has to be converted
//   plus, minus, times           of two vectors of floats, rounded once
//   fused(a, b, c)               a * b + c, rounded once
//   kVectors                     of a row of sums: a panel is a multiple of them

constexpr float kCodeBase = 0x1p23f;
constexpr std::size_t kMostRows = 4, kSumColumns = kVectors * kLanes;

// The scales and zero points of a block of k, of some columns.
struct BlockColumns {
  Floats scale[kVectors], base[kVectors];

  BlockColumns(const float* scales, const std::uint8_t* zero_points) noexcept {
    for (std::size_t v = 0; v < kVectors; ++v) {
      scale[v] = load(scales + v * kLanes);
      base[v] = plus(floats_of_bytes(zero_points + v * kLanes), spread(kCodeBase));
    }
  }
};

// Calls visit(k, values) with kVectors vectors of dequantized columns, for one k after the other.
template <std::size_t bits, class Visit>
inline __attribute__((always_inline)) void for_each_row(const CodedPanel& panel, std::size_t column,
                                                        Visit visit) noexcept {
  constexpr std::size_t kCodes = 32 / bits;
  const std::uint32_t* words = panel.words + column;
  const float* scale = panel.scale + column;
  const std::uint8_t* zero_point = panel.zero_point + column;
  for (std::size_t k = 0; k < panel.k; scale += kCodedPanelColumns, zero_point += kCodedPanelColumns) {
    const BlockColumns columns(scale, zero_point);
    const std::size_t end = panel.k - k < panel.block ? panel.k : k + panel.block;
    for (; k < end; k += kCodes, words += kCodedPanelColumns) {
      Words of_columns[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) of_columns[v] = load_words(words + v * kLanes);
      const auto visit_code = [&]<std::size_t code>() __attribute__((always_inline)) {
        Floats values[kVectors];
        for (std::size_t v = 0; v < kVectors; ++v) {
          // The difference is exact: both are integers below 2^24.
          values[v] =
              times(minus(code_at<bits, code_shift(bits, code)>(of_columns[v]), columns.base[v]), columns.scale[v]);
        }
        visit(k + code, values);
      };
      [&]<std::size_t... code>(std::index_sequence<code...>) __attribute__((always_inline)) {
        if (end - k >= kCodes) {
          (visit_code.template operator()<code>(), ...);
        } else {
          (void)((code < end - k && (visit_code.template operator()<code>(), true)) && ...);
        }
      }(std::make_index_sequence<kCodes>());
    }
    k = end;
  }
}

// Calls visit(v, mask) for the vectors of sums from a column on; null is the mask of a whole one.
template <class Visit>
inline void for_each_vector(std::size_t columns, Visit visit) noexcept {
  for (std::size_t v = 0; v < kVectors && v * kLanes < columns; ++v) {
    const std::size_t left = columns - v * kLanes;
    if (left >= kLanes) {
      visit(v, nullptr);
    } else {
      const Mask mask = first_lanes(left);
      visit(v, &mask);
    }
  }
}

template <std::size_t bits, std::size_t rows>
void accumulate_rows(const DequantizedProductBlock& block, std::size_t row, std::size_t column) noexcept {
  const float* a = block.a + row * block.a_row_stride;
  float* sums = block.sums + row * block.sums_row_stride + column;
  Floats sum[rows][kVectors];
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = zeros();
    if (block.begins) continue;
    for_each_vector(block.n - column, [&](std::size_t v, const Mask* mask) noexcept {
      const float* from = sums + r * block.sums_row_stride + v * kLanes;
      sum[r][v] = mask == nullptr ? load(from) : load(from, *mask);
    });
  }
  for_each_row<bits>(block.b, column, [&](std::size_t k, const Floats* values) __attribute__((always_inline)) {
    for (std::size_t r = 0; r < rows; ++r) {
      const Floats of_a = spread(a[r * block.a_row_stride + k]);
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = fused(of_a, values[v], sum[r][v]);
    }
  });
  for (std::size_t r = 0; r < rows; ++r) {
    for_each_vector(block.n - column, [&](std::size_t v, const Mask* mask) noexcept {
      float* to = sums + r * block.sums_row_stride + v * kLanes;
      mask == nullptr ? store(to, sum[r][v]) : store(to, *mask, sum[r][v]);
    });
  }
}

template <std::size_t bits>
void accumulate(const DequantizedProductBlock& block) noexcept {
  for (std::size_t column = 0; column < block.n; column += kSumColumns) {
    std::size_t row = 0;
    for (; row + kMostRows <= block.m; row += kMostRows) accumulate_rows<bits, kMostRows>(block, row, column);
    switch (block.m - row) {
      case 3:
        accumulate_rows<bits, 3>(block, row, column);
        break;
      case 2:
        accumulate_rows<bits, 2>(block, row, column);
        break;
      case 1:
        accumulate_rows<bits, 1>(block, row, column);
        break;
      default:
        break;
    }
  }
}

template <std::size_t bits>
void dequantize(const CodedPanel& panel, float* values) noexcept {
  for (std::size_t column = 0; column < kCodedPanelColumns; column += kSumColumns) {
    for_each_row<bits>(panel, column, [&](std::size_t k, const Floats* of_row) __attribute__((always_inline)) {
      float* to = values + k * kCodedPanelColumns + column;
      for (std::size_t v = 0; v < kVectors; ++v) store(to + v * kLanes, of_row[v]);
    });
  }
}

template <std::size_t bits>
constexpr DequantizedProductFunctions kFunctions = {accumulate<bits>, dequantize<bits>};
