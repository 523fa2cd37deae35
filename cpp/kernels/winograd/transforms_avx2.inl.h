// The transforms of winograd.h for AVX2, for panels of 16 output channels.
// Included inside the unnamed namespace of a kernel file, after codes/avx2.inl.h and transforms.inl.h.

constexpr std::size_t kNr = 16, kLanes = 8;

inline __m256i load(const std::int32_t* values) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
}

using U16x16 [[gnu::vector_size(32)]] = std::uint16_t;
using U32x8 [[gnu::vector_size(32)]] = std::uint32_t;

inline void transform_input(const WinogradInputRun& operands) noexcept {
  const WinogradInputRun run = operands;
  for (std::size_t tile = 0; tile < run.tiles; ++tile) {
    for (std::size_t channel = 0; channel < run.channels; channel += 16) {
      const std::uint8_t* codes = run.codes + tile * kWinogradOutputs * run.pixel_stride + channel;
      std::int16_t* planes = run.planes + tile * run.tile_stride + channel;
      transform_codes<U16x16>(
          [&](std::size_t row, std::size_t column) noexcept {
            const std::uint8_t* pixel = codes + row * run.row_stride + column * run.pixel_stride;
            return reinterpret_cast<U16x16>(
                _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pixel))));
          },
          [&](std::size_t row, std::size_t column, U16x16 value) noexcept {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(planes + (row * 6 + column) * run.plane_stride),
                                reinterpret_cast<__m256i>(value));
          });
    }
  }
}

// The windows of 8 output channels by input channels `first` and first + 1 of four.
template <int first>
inline __attribute__((always_inline)) void transform_pair(const std::uint8_t* filter, std::size_t tap_stride,
                                                          __m256i zero_point_i16x16, std::int16_t* planes,
                                                          std::size_t plane_stride) noexcept {
  // Each code to the upper half of 16 bits, from where an arithmetic shift extends it.
  const __m256i spread_u8x32 =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, first, -1, first + 1, -1, first + 4, -1, first + 5, -1, first + 8,
                                                -1, first + 9, -1, first + 12, -1, first + 13));
  transform_window<U16x16>(
      [&](std::size_t row, std::size_t column) noexcept {
        const __m256i codes_i8x32 =
            _mm256_load_si256(reinterpret_cast<const __m256i*>(filter + (row * 3 + column) * tap_stride));
        const __m256i wide_i16x16 = _mm256_srai_epi16(_mm256_shuffle_epi8(codes_i8x32, spread_u8x32), 8);
        return reinterpret_cast<U16x16>(_mm256_sub_epi16(wide_i16x16, zero_point_i16x16));
      },
      [&](std::size_t row, std::size_t column, U16x16 value) noexcept {
        _mm256_store_si256(reinterpret_cast<__m256i*>(planes + (row * 6 + column) * plane_stride),
                           reinterpret_cast<__m256i>(value));
      });
}

inline __m256i zero_point_pairs(const std::int32_t* values) noexcept {
  if (values == nullptr) return _mm256_setzero_si256();
  const __m256i values_i32x8 = load(values);
  return _mm256_blend_epi16(values_i32x8, _mm256_slli_epi32(values_i32x8, 16), 0xaa);
}

// The sums of a tile, of 8 channels.
inline void transform_sums(const std::int32_t* products, std::size_t plane_stride, const std::int32_t* begun,
                           std::size_t begun_stride, std::int32_t* sums) noexcept {
  transform_products<U32x8>(
      [&](std::size_t row, std::size_t column) noexcept {
        return reinterpret_cast<U32x8>(load(products + (row * 6 + column) * plane_stride));
      },
      [&](std::size_t row, std::size_t column, U32x8 value) noexcept {
        const __m256i scaled_i32x8 = reinterpret_cast<__m256i>(value * kInverseOfNine);
        const __m256i sum_i32x8 = _mm256_srai_epi32(scaled_i32x8, shift_of(row, column));
        const std::size_t pixel = row * kWinogradOutputs + column;
        _mm256_store_si256(reinterpret_cast<__m256i*>(sums + pixel * kNr),
                           _mm256_add_epi32(sum_i32x8, load(begun + pixel * begun_stride)));
      });
}

// Makes codes of the sums of a panel's pixels. Where no conversion overflows, none is bounded.
class Requantizer {
 public:
  explicit Requantizer(const WinogradOutputRun& run) noexcept
      : low_multiplier_f32x8_(_mm256_loadu_ps(run.multiplier)),
        high_multiplier_f32x8_(_mm256_loadu_ps(run.multiplier + 8)),
        zero_point_i16x16_(_mm256_set1_epi16(static_cast<short>(run.output_zero_point))),
        flip_u8x32_(_mm256_set1_epi8(static_cast<char>(run.flip))),
        channels_(run.channels) {}

  bool converts_within_range() const noexcept {
    return all_below_1(low_multiplier_f32x8_) && all_below_1(high_multiplier_f32x8_);
  }

  // Two pixels, which may be the same.
  template <bool within_range>
  void store_pair(std::uint8_t* first, std::uint8_t* second, const std::int32_t* first_sums,
                  const std::int32_t* second_sums) const noexcept {
    const __m256i codes_u8x32 = _mm256_xor_si256(
        codes_in_order(rounded<within_range>(first_sums), rounded<within_range>(second_sums), zero_point_i16x16_),
        flip_u8x32_);
    store(first, _mm256_castsi256_si128(codes_u8x32));
    store(second, _mm256_extracti128_si256(codes_u8x32, 1));
  }

 private:
  // Of 16 channels, in 16 bits.
  template <bool within_range>
  __m256i rounded(const std::int32_t* sums) const noexcept {
    const __m256 low_f32x8 = _mm256_mul_ps(_mm256_cvtepi32_ps(load(sums)), low_multiplier_f32x8_);
    const __m256 high_f32x8 = _mm256_mul_ps(_mm256_cvtepi32_ps(load(sums + 8)), high_multiplier_f32x8_);
    return _mm256_packs_epi32(_mm256_cvtps_epi32(within_range ? low_f32x8 : bounded(low_f32x8)),
                              _mm256_cvtps_epi32(within_range ? high_f32x8 : bounded(high_f32x8)));
  }

  void store(std::uint8_t* output, __m128i codes_u8x16) const noexcept {
    if (channels_ == kNr) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(output), codes_u8x16);
    } else {
      std::uint8_t codes[kNr];
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), codes_u8x16);
      std::memcpy(output, codes, channels_);
    }
  }

  __m256 low_multiplier_f32x8_, high_multiplier_f32x8_;
  __m256i zero_point_i16x16_, flip_u8x32_;
  std::size_t channels_;
};
