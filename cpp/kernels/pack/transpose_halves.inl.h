// A transposition of bytes within registers.
// Included inside the unnamed namespace of a kernel file.

// Two blocks of 16 x 16 bytes, one in each 128-bit half: interleaving the bytes of rows 8 apart, four times over,
// brings byte c of row r to byte r of vector c. In 256 bits, where two ports shuffle; in 512 it is one.
inline void transpose_halves(__m256i (&row_u8x32)[16]) noexcept {
#pragma GCC unroll 4
  for (int stage = 0; stage < 4; ++stage) {
    __m256i result_u8x32[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      result_u8x32[2 * i] = _mm256_unpacklo_epi8(row_u8x32[i], row_u8x32[i + 8]);
      result_u8x32[2 * i + 1] = _mm256_unpackhi_epi8(row_u8x32[i], row_u8x32[i + 8]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) row_u8x32[i] = result_u8x32[i];
  }
}
