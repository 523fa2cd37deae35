// What a step of a panel adds to the sums of a tile, by vpmaddubsw, for avx2.cpp.
// Included inside the unnamed namespace of that file, behind kNr, load_codes and broadcast.

// Adds steps of a panel, or of half of it, to the sums of a tile: by three operations for 32 products, five for 64 of
// eight k, six for 32 that are split, and nothing to widen. a is the first row's.
template <std::size_t rows, std::size_t halves>
class StepAdder {
 public:
  explicit StepAdder(std::size_t a_row_stride) noexcept
      : a_row_stride_(a_row_stride), ones_i16x16_(_mm256_set1_epi16(1)) {}

  __attribute__((always_inline)) void add_four(const std::uint8_t* a, const std::uint8_t* b,
                                               __m256i (&acc_i32x8)[rows][halves]) const noexcept {
#pragma GCC unroll 12
    for (std::size_t row = 0; row < rows; ++row) {
      const __m256i a_x32 = broadcast(a + row * a_row_stride_);
      hide(b);
#pragma GCC unroll 2
      for (std::size_t half = 0; half < halves; ++half) {
        add(_mm256_maddubs_epi16(a_x32, load_codes(b + 32 * half)), acc_i32x8[row][half]);
      }
    }
  }

  __attribute__((always_inline)) void add_eight(const std::uint8_t* a, const std::uint8_t* b,
                                                __m256i (&acc_i32x8)[rows][halves]) const noexcept {
#pragma GCC unroll 12
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint8_t* of_row = a + row * a_row_stride_;
      const __m256i a0_x32 = broadcast(of_row), a1_x32 = broadcast(of_row + 4);
      hide(b);
#pragma GCC unroll 2
      for (std::size_t half = 0; half < halves; ++half) {
        add(_mm256_add_epi16(_mm256_maddubs_epi16(a0_x32, load_codes(b + 32 * half)),
                             _mm256_maddubs_epi16(a1_x32, load_codes(b + 4 * kNr + 32 * half))),
            acc_i32x8[row][half]);
      }
    }
  }

  __attribute__((always_inline)) void add_split(const std::uint8_t* a, const std::uint8_t* b,
                                                __m256i (&acc_i32x8)[rows][halves]) const noexcept {
    const __m256i even_u8x32 = _mm256_set1_epi16(0xff);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < halves; ++half) {
      const __m256i b_i8x32 = load_codes(b + 32 * half);
      const __m256i b_even_i8x32 = _mm256_and_si256(even_u8x32, b_i8x32);
      const __m256i b_odd_i8x32 = _mm256_andnot_si256(even_u8x32, b_i8x32);
#pragma GCC unroll 12
      for (std::size_t row = 0; row < rows; ++row) {
        const __m256i a_x32 = broadcast(a + row * a_row_stride_);
        add(_mm256_maddubs_epi16(a_x32, b_even_i8x32), acc_i32x8[row][half]);
        add(_mm256_maddubs_epi16(a_x32, b_odd_i8x32), acc_i32x8[row][half]);
      }
    }
  }

 private:
  void add(__m256i sums_i16x16, __m256i& acc_i32x8) const noexcept {
    acc_i32x8 = _mm256_add_epi32(acc_i32x8, _mm256_madd_epi16(sums_i16x16, ones_i16x16_));
  }
  // Keeps the compiler from holding b in registers, where all are the sums'.
  static void hide(const std::uint8_t*& b) noexcept {
    if constexpr (rows * halves > 10 && halves == 2) __asm__("" : "+r"(b));
  }

  std::size_t a_row_stride_;
  __m256i ones_i16x16_;
};
