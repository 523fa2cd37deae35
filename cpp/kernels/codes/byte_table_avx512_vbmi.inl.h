// Included inside the unnamed namespace of a kernel file.

// The first 64 * parts bytes of a table, 1, 2 or 4 parts, by 64 indices below as many. vpermt2b looks seven bits up
// among 128 bytes; the top bit chooses between two of them.
template <std::size_t parts>
struct ByteTable {
  __m512i values_u8x64[parts];

  ByteTable() = default;
  explicit ByteTable(const std::uint8_t* values) noexcept {
    for (std::size_t i = 0; i < parts; ++i) values_u8x64[i] = _mm512_loadu_si512(values + 64 * i);
  }

  __m512i of(__m512i indices_u8x64) const noexcept {
    if constexpr (parts == 1) {
      return _mm512_permutexvar_epi8(indices_u8x64, values_u8x64[0]);
    } else {
      const __m512i below_128_u8x64 = _mm512_permutex2var_epi8(values_u8x64[0], indices_u8x64, values_u8x64[1]);
      if constexpr (parts == 2) return below_128_u8x64;
      const __m512i others_u8x64 =
          _mm512_permutex2var_epi8(values_u8x64[parts - 2], indices_u8x64, values_u8x64[parts - 1]);
      return _mm512_mask_mov_epi8(below_128_u8x64, _mm512_movepi8_mask(indices_u8x64), others_u8x64);
    }
  }
};
