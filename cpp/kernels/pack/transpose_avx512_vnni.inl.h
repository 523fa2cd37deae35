// The transposition of pack.h for AVX-512.
// Included inside the unnamed namespace of a kernel file, after few_order.inl.h, transpose_halves.inl.h, masks and
// interleave_64.

// At most 4 rows whose transposed codes follow each other, as those of an image's colours.
void transpose_few(const TransposeBlock& block) noexcept {
  const std::size_t rows = block.rows;
  const std::uint8_t* row[4];
  for (std::size_t r = 0; r < 4; ++r) row[r] = block.input + (r < rows ? r : 0) * block.input_row_stride;
  const FewOrder<4>& few = kFewOrders<4>[rows - 1];
  const __m512i byte_order_u8x64 = _mm512_load_si512(few.bytes), order_i32x16 = _mm512_load_si512(few.elements);
  const __m512i flip_u8x64 = _mm512_set1_epi8(static_cast<char>(block.flip));
  const auto codes = [&](__m512i groups_u8x64) {
    return _mm512_permutexvar_epi32(order_i32x16,
                                    _mm512_shuffle_epi8(_mm512_xor_si512(groups_u8x64, flip_u8x64), byte_order_u8x64));
  };
  std::uint8_t* output = block.output;
  const __mmask16 whole = lane_mask(4 * rows);
  std::size_t i = 0;
  for (; i + 64 <= block.columns; i += 64) {
    const Groups groups = interleave_64(row, i, kAllBytes);
#pragma GCC unroll 4
    for (std::size_t j = 0; j < 4; ++j, output += 16 * rows) {
      _mm512_mask_storeu_epi32(output, whole, codes(groups.u8x64[j]));
    }
  }
  const Groups groups = interleave_64(row, i, byte_mask(block.columns - i));
  for (std::size_t j = 0; i < block.columns; ++j, i += 16, output += 16 * rows) {
    const std::size_t left = block.columns - i;
    _mm512_mask_storeu_epi8(output, byte_mask((left < 16 ? left : 16) * rows), codes(groups.u8x64[j]));
  }
}

// rows <= 16 by columns <= 32, where whole says that they are 16 and 32.
template <bool whole>
inline void transpose_halves_block(const std::uint8_t* input, std::size_t input_row_stride, std::size_t rows,
                                   std::size_t columns, std::uint8_t flip, std::uint8_t* output,
                                   std::size_t output_row_stride) noexcept {
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(flip));
  const auto load_mask = static_cast<__mmask32>(byte_mask(columns));
  const __mmask16 store_mask = lane_mask(rows);
  __m256i row_u8x32[16];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) {
    const bool inside = whole || i < rows;
    const std::uint8_t* row = input + (inside ? i * input_row_stride : 0);
    const __m256i codes_u8x32 = whole ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row))
                                      : _mm256_maskz_loadu_epi8(inside ? load_mask : 0, row);
    row_u8x32[i] = _mm256_xor_si256(codes_u8x32, flip_u8x32);
  }
  transpose_halves(row_u8x32);
  const auto store = [&](std::size_t column, __m128i codes_u8x16) {
    if constexpr (whole) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(output + column * output_row_stride), codes_u8x16);
    } else if (column < columns) {
      _mm_mask_storeu_epi8(output + column * output_row_stride, store_mask, codes_u8x16);
    }
  };
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) {
    store(i, _mm256_castsi256_si128(row_u8x32[i]));
    store(16 + i, _mm256_extracti128_si256(row_u8x32[i], 1));
  }
}

// Bytes of 16 x 16 blocks, one in each lane of 128 bits: interleaving the bytes of rows 8 apart, four times over,
// brings byte c of row r to byte r of vector c.
inline void transpose_lanes(__m512i (&row_u8x64)[16]) noexcept {
#pragma GCC unroll 4
  for (int stage = 0; stage < 4; ++stage) {
    __m512i result_u8x64[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      result_u8x64[2 * i] = _mm512_unpacklo_epi8(row_u8x64[i], row_u8x64[i + 8]);
      result_u8x64[2 * i + 1] = _mm512_unpackhi_epi8(row_u8x64[i], row_u8x64[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) row_u8x64[i] = result_u8x64[i];
  }
}

inline void store_half(std::uint8_t* output, __m256i codes_u8x32) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), codes_u8x32);
}

// Vectors of four lanes of 16 codes. Lanes are of rows 16 apart, `lanes` of them, and of columns 16 apart, so that
// after the transposition of each lane a vector has 16 * lanes codes of one column, which are stored at once.
//
//   lanes 4:  [row i, columns 0-15] [row i + 16, 0-15] [row i + 32, 0-15] [row i + 48, 0-15]
//   lanes 2:  [row i, columns 0-15] [row i + 16, 0-15] [row i, 16-31]     [row i + 16, 16-31]
//
// From a row and a column on, all of these rows, and 64 / lanes columns or as many as there are; whole says that these
// are all. In 512 bits one port shuffles where in 256 bits two do, but a column's codes fill a cache line.
template <std::size_t lanes, bool whole>
inline void transpose_lanes_block(const TransposeBlock& block, std::size_t row, std::size_t column) noexcept {
  const std::size_t columns = block.columns - column;
  const std::size_t input_row_stride = block.input_row_stride, output_row_stride = block.output_row_stride;
  const std::uint8_t* input = block.input + row * input_row_stride + column;
  std::uint8_t* output = block.output + column * output_row_stride + row;
  const auto load = [&](std::size_t i, std::size_t lane) __attribute__((always_inline)) {
    const std::size_t of_row = i + 16 * (lane % lanes), of_column = 16 * (lane / lanes);
    const std::uint8_t* codes = input + of_row * input_row_stride + of_column;
    if constexpr (whole) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const bool is_inside = of_column < columns;
    return _mm_maskz_loadu_epi8(is_inside ? lane_mask(columns - of_column) : 0, is_inside ? codes : input);
  };
  __m512i codes_u8x64[16];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) {
    codes_u8x64[i] = _mm512_castsi128_si512(load(i, 0));
    codes_u8x64[i] = _mm512_inserti32x4(codes_u8x64[i], load(i, 1), 1);
    codes_u8x64[i] = _mm512_inserti32x4(codes_u8x64[i], load(i, 2), 2);
    codes_u8x64[i] = _mm512_inserti32x4(codes_u8x64[i], load(i, 3), 3);
  }
  transpose_lanes(codes_u8x64);
  if (block.flip != 0) {
    for (__m512i& codes : codes_u8x64) codes = _mm512_xor_si512(codes, _mm512_set1_epi8(static_cast<char>(block.flip)));
  }
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) {
    std::uint8_t* first = output + i * output_row_stride;
    if constexpr (lanes == 4) {
      if (whole || i < columns) _mm512_storeu_si512(first, codes_u8x64[i]);
    } else {
      std::uint8_t* second = first + 16 * output_row_stride;
      if (whole || i < columns) store_half(first, _mm512_castsi512_si256(codes_u8x64[i]));
      if (whole || 16 + i < columns) store_half(second, _mm512_extracti64x4_epi64(codes_u8x64[i], 1));
    }
  }
}

// 16 rows by 32 columns at a time.
void transpose_narrow(const TransposeBlock& block) noexcept {
  for (std::size_t column = 0; column < block.columns; column += 32) {
    const std::size_t columns = block.columns - column;
    for (std::size_t row = 0; row < block.rows; row += 16) {
      const std::size_t rows = block.rows - row;
      const std::uint8_t* input = block.input + row * block.input_row_stride + column;
      std::uint8_t* output = block.output + column * block.output_row_stride + row;
      if (rows >= 16 && columns >= 32) {
        transpose_halves_block<true>(input, block.input_row_stride, 16, 32, block.flip, output,
                                     block.output_row_stride);
      } else {
        transpose_halves_block<false>(input, block.input_row_stride, rows, columns, block.flip, output,
                                      block.output_row_stride);
      }
    }
  }
}

// From a row and a column on, 16 * lanes rows by 64 columns or as many as there are.
template <std::size_t lanes>
void transpose_line(const TransposeBlock& block, std::size_t row, std::size_t column) noexcept {
  const std::size_t end = block.columns - column < 64 ? block.columns : column + 64;
  for (; column < end; column += 64 / lanes) {
    const bool whole = block.columns - column >= 64 / lanes;
    whole ? transpose_lanes_block<lanes, true>(block, row, column)
          : transpose_lanes_block<lanes, false>(block, row, column);
  }
}

// Some rows of a block, from one on.
TransposeBlock rows_of(const TransposeBlock& block, std::size_t first, std::size_t rows) noexcept {
  TransposeBlock part = block;
  part.input += first * block.input_row_stride;
  part.output += first;
  part.rows = rows;
  return part;
}

// Cache lines of the input, which are 64 columns, are read to their end before the next rows are.
void transpose_wide(const TransposeBlock& block) noexcept {
  // Rows whole KiB apart share few sets of the level-1 cache, which would not keep the lines of 64 of them.
  const bool keeps_64 = block.input_row_stride % 1024 != 0;
  const std::size_t end = block.rows / 32 * 32;
  for (std::size_t column = 0; column < block.columns; column += 64) {
    for (std::size_t row = 0; row < end;) {
      if (keeps_64 && end - row >= 64) {
        transpose_line<4>(block, row, column);
        row += 64;
      } else {
        transpose_line<2>(block, row, column);
        row += 32;
      }
    }
  }
  if (end != block.rows) transpose_narrow(rows_of(block, end, block.rows - end));
}

// Rows of the output that are further apart than the input's, as planes of channels are that pixels are brought to: a
// cache line of each is written at a time, where lines of all of them begin with the same row. Otherwise short stores
// are faster, but for planes a power of two apart: lines of 32 of them take turns in few sets of the level-1 cache.
void transpose_to_planes(const TransposeBlock& block) noexcept {
  const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(block.output)) % 64;
  if (block.output_row_stride % 64 != 0 || block.rows < head + 64) return transpose_narrow(block);
  const std::size_t lines = (block.rows - head) / 64 * 64, end = head + lines;
  transpose_narrow(rows_of(block, 0, head));
  transpose_wide(rows_of(block, head, lines));
  transpose_narrow(rows_of(block, end, block.rows - end));
}

void transpose(const TransposeBlock& block) noexcept {
  if (block.rows <= 4 && block.rows != 0 && block.output_row_stride == block.rows) return transpose_few(block);
  if (block.rows < 32) return transpose_narrow(block);
  block.output_row_stride > block.input_row_stride ? transpose_to_planes(block) : transpose_wide(block);
}
