// The transposition of pack.h for AVX2.
// Included inside the unnamed namespace of a kernel file, after few_order.inl.h, transpose_halves.inl.h and
// interleave_32.

// The first count bytes, at most 32, then zeros.
inline __m256i load_first(const std::uint8_t* input, std::size_t count) noexcept {
  if (count == 32) return load(input);
  alignas(32) std::uint8_t bytes[32] = {};
  std::memcpy(bytes, input, count);
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
}

inline void store_first(std::uint8_t* output, std::size_t count, __m128i value_u8x16) noexcept {
  if (count == 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(output), value_u8x16);
    return;
  }
  alignas(16) std::uint8_t bytes[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(bytes), value_u8x16);
  std::memcpy(output, bytes, count);
}

// At most 4 rows whose transposed codes follow each other, as those of an image's colours. Stores are whole vectors,
// whose ends the next store overwrites (masked ones take AMD's CPUs 12 cycles), as long as they stay inside the output.
void transpose_few(const TransposeBlock& block) noexcept {
  const std::size_t rows = block.rows;
  const std::uint8_t* row[4];
  for (std::size_t r = 0; r < 4; ++r) row[r] = block.input + (r < rows ? r : 0) * block.input_row_stride;
  const auto load_aligned = [](const void* values) { return _mm256_load_si256(static_cast<const __m256i*>(values)); };
  const FewOrder<2>& few = kFewOrders<2>[rows - 1];
  const __m256i byte_order_u8x32 = load_aligned(few.bytes), order_i32x8 = load_aligned(few.elements);
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(block.flip));
  std::uint8_t* output = block.output;
  std::size_t i = 0;
  // The last of four stores begins 24 columns after the first, and its 32 bytes reach into as many columns as they are.
  const std::size_t reach = 24 + (31 + rows) / rows;
  for (; i + reach <= block.columns; i += 32) {
    const Groups groups = interleave_32(row, i);
    for (std::size_t j = 0; j < 4; ++j, output += 8 * rows) {
      const __m256i codes_u8x32 = _mm256_shuffle_epi8(_mm256_xor_si256(groups.u8x32[j], flip_u8x32), byte_order_u8x32);
      store(output, _mm256_permutevar8x32_epi32(codes_u8x32, order_i32x8));
    }
  }
  for (; i < block.columns; ++i) {
    for (std::size_t r = 0; r < rows; ++r) *output++ = static_cast<std::uint8_t>(row[r][i] ^ block.flip);
  }
}

// 16 rows by 32 columns from a place on, or 32 rows by 16 columns.
template <bool is_high>
inline __attribute__((always_inline)) void transpose_whole(const TransposeBlock& block, std::size_t row,
                                                           std::size_t column, __m256i flip_u8x32) noexcept {
  const std::size_t input_stride = block.input_row_stride, output_stride = block.output_row_stride;
  const std::uint8_t* input = block.input + row * input_stride + column;
  __m256i row_u8x32[16];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) {
    const std::uint8_t* codes = input + i * input_stride;
    if constexpr (is_high) {
      const auto* lower = reinterpret_cast<const __m128i*>(codes + 16 * input_stride);
      const __m128i upper_u8x16 = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
      row_u8x32[i] = _mm256_set_m128i(_mm_loadu_si128(lower), upper_u8x16);
    } else {
      row_u8x32[i] = load(codes);
    }
    row_u8x32[i] = _mm256_xor_si256(row_u8x32[i], flip_u8x32);
  }
  transpose_halves(row_u8x32);
  std::uint8_t* output = block.output + column * output_stride + row;
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) {
    if constexpr (is_high) {
      store(output + i * output_stride, row_u8x32[i]);
    } else {
      store_first(output + i * output_stride, 16, _mm256_castsi256_si128(row_u8x32[i]));
      store_first(output + (i + 16) * output_stride, 16, _mm256_extracti128_si256(row_u8x32[i], 1));
    }
  }
}

// All rows by at least as many columns as these tiles have. What is left at an end is taken with its neighbours once
// more.
template <bool is_high>
void transpose_columns(const TransposeBlock& whole) noexcept {
  constexpr std::size_t kRows = is_high ? 32 : 16, kColumns = is_high ? 16 : 32;
  const TransposeBlock block = whole;  // a copy: bytes of output could alias the original
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(block.flip));
  for (std::size_t next = 0; next < block.columns; next += kColumns) {
    const std::size_t column = next + kColumns <= block.columns ? next : block.columns - kColumns;
    for (std::size_t row = 0; row < block.rows; row += kRows) {
      const std::size_t first = row + kRows <= block.rows ? row : block.rows - kRows;
      transpose_whole<is_high>(block, first, column, flip_u8x32);
    }
  }
}

// 16 rows by 32 columns at a time, of fewer rows or columns as many as there are.
void transpose_parts(const TransposeBlock& block) noexcept {
  const __m256i flip_u8x32 = _mm256_set1_epi8(static_cast<char>(block.flip));
  for (std::size_t column = 0; column < block.columns; column += 32) {
    const std::size_t columns = block.columns - column < 32 ? block.columns - column : 32;
    for (std::size_t row = 0; row < block.rows; row += 16) {
      const std::size_t rows = block.rows - row < 16 ? block.rows - row : 16;
      const std::uint8_t* input = block.input + row * block.input_row_stride + column;
      __m256i row_u8x32[16];
      for (std::size_t i = 0; i < 16; ++i) {
        const __m256i codes_u8x32 =
            i < rows ? load_first(input + i * block.input_row_stride, columns) : _mm256_setzero_si256();
        row_u8x32[i] = _mm256_xor_si256(codes_u8x32, flip_u8x32);
      }
      transpose_halves(row_u8x32);
      std::uint8_t* output = block.output + column * block.output_row_stride + row;
      for (std::size_t i = 0; i < 16; ++i) {
        if (i < columns) store_first(output + i * block.output_row_stride, rows, _mm256_castsi256_si128(row_u8x32[i]));
        if (i + 16 < columns) {
          store_first(output + (i + 16) * block.output_row_stride, rows, _mm256_extracti128_si256(row_u8x32[i], 1));
        }
      }
    }
  }
}

void transpose(const TransposeBlock& block) noexcept {
  if (block.rows <= 4 && block.rows != 0 && block.output_row_stride == block.rows) return transpose_few(block);
  if (block.rows >= 32 && block.columns >= 16 && block.columns < 32) return transpose_columns<true>(block);
  if (block.rows >= 16 && block.columns >= 32) return transpose_columns<false>(block);
  transpose_parts(block);
}
