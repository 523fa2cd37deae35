// What add and multiply by integers share: words of even and of odd bytes, and what is packed of them.
// Included inside the unnamed namespace of a kernel file.

// Which operands and output are INT8. Where all are, no instruction more flips them: even bytes are flipped and taken
// by one, odd ones are taken as signed words, 128 less than those of the offset domain, and the packs saturate to
// signed bytes, of an addend that is 128 less.
enum class Flips { none, some, all };

template <class Run>
inline Flips flips_of(const Run& run) noexcept {
  const std::uint8_t a = run.a_parameters.flip, b = run.b_parameters.flip, output = run.output_parameters.flip;
  return (a | b | output) == 0 ? Flips::none : (a & b & output) != 0 ? Flips::all : Flips::some;
}

constexpr float addend_of(float addend, Flips flips) noexcept { return flips == Flips::all ? addend - 128.0F : addend; }

// All bytes flipped, where some operands are.
template <Flips flips>
inline __m512i flipped(__m512i codes_u8x64, __m512i flip_u8x64) noexcept {
  return flips == Flips::some ? _mm512_xor_si512(codes_u8x64, flip_u8x64) : codes_u8x64;
}

template <Flips flips>
inline __m512i even_bytes(__m512i codes_u8x64) noexcept {
  const __m512i even_u16x32 = _mm512_set1_epi16(0x00ff), sign_u8x64 = _mm512_set1_epi16(0x0080);
  constexpr int kFlippedAndTaken = 0x28;  // (codes ^ sign) & even
  return flips == Flips::all ? _mm512_ternarylogic_epi32(codes_u8x64, sign_u8x64, even_u16x32, kFlippedAndTaken)
                             : _mm512_and_si512(codes_u8x64, even_u16x32);
}

template <Flips flips>
inline __m512i odd_bytes(__m512i codes_u8x64) noexcept {
  return flips == Flips::all ? _mm512_srai_epi16(codes_u8x64, 8) : _mm512_srli_epi16(codes_u8x64, 8);
}

// The low words of 32 dwords, saturated: the even bytes of 64. High words, which are large, leave what is not used.
template <Flips flips>
inline __m512i saturate_low_words(__m512i low_i32x16, __m512i high_i32x16) noexcept {
  return flips == Flips::all ? _mm512_packs_epi16(low_i32x16, high_i32x16)
                             : _mm512_packus_epi16(low_i32x16, high_i32x16);
}

// The even bytes of both in turn.
inline __m512i even_bytes_in_turn(__m512i even_u8x64, __m512i odd_u8x64) noexcept {
  return _mm512_mask_alignr_epi8(even_u8x64, 0xaaaaaaaaaaaaaaaa, odd_u8x64, odd_u8x64, 15);
}
