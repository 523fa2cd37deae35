// Winograd's convolution of winograd.h for AVX-512 with VNNI: vpdpwssd multiplies two pairs of 16 bits and adds both
// products to a 32-bit lane without saturation.
//
// Products: tiles of 14 x 32, as those of gemm: 28 accumulators, 2 vectors of the filter, 1 broadcast.
#include <immintrin.h>

#include <utility>

#include "kernels/winograd/winograd.h"

#if !defined(__AVX512VNNI__) || !defined(__AVX512BW__) || !defined(__AVX512VL__)
#error "compile with AVX512-VNNI, AVX512BW and AVX512VL"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/winograd/transforms.inl.h"

constexpr std::size_t kMr = 14, kNr = 32, kLanes = 16;

using U16x32 [[gnu::vector_size(64)]] = std::uint16_t;
using U32x16 [[gnu::vector_size(64)]] = std::uint32_t;

void transform_input(const WinogradInputRun& operands) noexcept {
  const WinogradInputRun run = operands;
  for (std::size_t tile = 0; tile < run.tiles; ++tile) {
    for (std::size_t channel = 0; channel < run.channels; channel += 32) {
      const std::uint8_t* codes = run.codes + tile * kWinogradOutputs * run.pixel_stride + channel;
      std::int16_t* planes = run.planes + tile * run.tile_stride + channel;
      const __mmask32 mask = run.channels - channel >= 32 ? ~__mmask32{0} : 0xffff;
      transform_codes<U16x32>(
          [&](std::size_t row, std::size_t column) noexcept {
            const std::uint8_t* pixel = codes + row * run.row_stride + column * run.pixel_stride;
            return reinterpret_cast<U16x32>(_mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, pixel)));
          },
          [&](std::size_t row, std::size_t column, U16x32 value) noexcept {
            _mm512_mask_storeu_epi16(planes + (row * 6 + column) * run.plane_stride, mask,
                                     reinterpret_cast<__m512i>(value));
          });
    }
  }
}

// The windows of 16 output channels by input channels `first` and first + 1 of four.
template <int first>
inline __attribute__((always_inline)) void transform_pair(const std::uint8_t* filter, std::size_t tap_stride,
                                                          __m512i zero_point_i16x32, std::int16_t* planes,
                                                          std::size_t plane_stride) noexcept {
  // Each code to the upper half of 16 bits, from where an arithmetic shift extends it.
  const __m512i spread_u8x64 =
      _mm512_broadcast_i32x4(_mm_setr_epi8(-1, first, -1, first + 1, -1, first + 4, -1, first + 5, -1, first + 8, -1,
                                           first + 9, -1, first + 12, -1, first + 13));
  transform_window<U16x32>(
      [&](std::size_t row, std::size_t column) noexcept {
        const __m512i codes_i8x64 = _mm512_load_si512(filter + (row * 3 + column) * tap_stride);
        const __m512i wide_i16x32 = _mm512_srai_epi16(_mm512_shuffle_epi8(codes_i8x64, spread_u8x64), 8);
        return reinterpret_cast<U16x32>(_mm512_sub_epi16(wide_i16x32, zero_point_i16x32));
      },
      [&](std::size_t row, std::size_t column, U16x32 value) noexcept {
        _mm512_store_si512(planes + (row * 6 + column) * plane_stride, reinterpret_cast<__m512i>(value));
      });
}

__m512i zero_point_pairs(const std::int32_t* values) noexcept {
  if (values == nullptr) return _mm512_setzero_si512();
  const __m512i values_i32x16 = _mm512_loadu_si512(values);
  return _mm512_mask_blend_epi16(0xaaaaaaaa, values_i32x16, _mm512_slli_epi32(values_i32x16, 16));
}

template <std::size_t rows>
void multiply_rows(const std::int16_t* activations, std::size_t tile_stride, const std::int16_t* filter,
                   std::size_t channels, std::int32_t* products) noexcept {
  __m512i acc_i32x16[rows][2];
#pragma GCC unroll 14
  for (std::size_t row = 0; row < rows; ++row) {
    acc_i32x16[row][0] = _mm512_setzero_si512();
    acc_i32x16[row][1] = _mm512_setzero_si512();
  }
  for (std::size_t channel = 0; channel < channels; channel += 2, filter += 2 * kNr) {
    const __m512i b0_i16x32 = _mm512_load_si512(filter), b1_i16x32 = _mm512_load_si512(filter + 32);
#pragma GCC unroll 14
    for (std::size_t row = 0; row < rows; ++row) {
      int pair;
      __builtin_memcpy(&pair, activations + row * tile_stride + channel, sizeof(pair));
      const __m512i a_i16x32 = _mm512_set1_epi32(pair);
      acc_i32x16[row][0] = _mm512_dpwssd_epi32(acc_i32x16[row][0], a_i16x32, b0_i16x32);
      acc_i32x16[row][1] = _mm512_dpwssd_epi32(acc_i32x16[row][1], a_i16x32, b1_i16x32);
    }
  }
#pragma GCC unroll 14
  for (std::size_t row = 0; row < rows; ++row) {
    _mm512_store_si512(products + row * kNr, acc_i32x16[row][0]);
    _mm512_store_si512(products + row * kNr + 16, acc_i32x16[row][1]);
  }
}

// The sums of a tile, of 16 channels.
void transform_sums(const std::int32_t* products, std::size_t plane_stride, const std::int32_t* begun,
                    std::size_t begun_stride, std::int32_t* sums) noexcept {
  transform_products<U32x16>(
      [&](std::size_t row, std::size_t column) noexcept {
        return reinterpret_cast<U32x16>(_mm512_load_si512(products + (row * 6 + column) * plane_stride));
      },
      [&](std::size_t row, std::size_t column, U32x16 value) noexcept {
        const __m512i scaled_i32x16 = reinterpret_cast<__m512i>(value * kInverseOfNine);
        const __m512i sum_i32x16 = _mm512_srai_epi32(scaled_i32x16, static_cast<unsigned>(shift_of(row, column)));
        const std::size_t pixel = row * kWinogradOutputs + column;
        _mm512_store_si512(sums + pixel * kNr,
                           _mm512_add_epi32(sum_i32x16, _mm512_loadu_si512(begun + pixel * begun_stride)));
      });
}

// Makes codes of the sums of a panel's pixels. Where no conversion overflows, none is bounded.
class Requantizer {
 public:
  explicit Requantizer(const WinogradOutputRun& run) noexcept
      : low_multiplier_f32x16_(_mm512_loadu_ps(run.multiplier)),
        high_multiplier_f32x16_(_mm512_loadu_ps(run.multiplier + 16)),
        zero_point_i16x32_(_mm512_set1_epi16(static_cast<short>(run.output_zero_point))),
        flip_u8x64_(_mm512_set1_epi8(static_cast<char>(run.flip))),
        mask_(run.channels >= 32 ? ~__mmask32{0} : (__mmask32{1} << run.channels) - 1) {}

  bool converts_within_range() const noexcept {
    return (below_1(low_multiplier_f32x16_) & below_1(high_multiplier_f32x16_)) == kAllLanes;
  }

  // Two pixels, which may be the same.
  template <bool within_range>
  void store_pair(std::uint8_t* first, std::uint8_t* second, const std::int32_t* first_sums,
                  const std::int32_t* second_sums) const noexcept {
    const __m512i codes_u8x64 = _mm512_xor_si512(
        saturate_in_order(rounded<within_range>(first_sums, low_multiplier_f32x16_),
                          rounded<within_range>(first_sums + 16, high_multiplier_f32x16_),
                          rounded<within_range>(second_sums, low_multiplier_f32x16_),
                          rounded<within_range>(second_sums + 16, high_multiplier_f32x16_), zero_point_i16x32_),
        flip_u8x64_);
    _mm256_mask_storeu_epi8(first, mask_, _mm512_castsi512_si256(codes_u8x64));
    _mm256_mask_storeu_epi8(second, mask_, _mm512_extracti64x4_epi64(codes_u8x64, 1));
  }

 private:
  template <bool within_range>
  static __m512i rounded(const std::int32_t* sums, __m512 multiplier_f32x16) noexcept {
    const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums)), multiplier_f32x16);
    return _mm512_cvtps_epi32(within_range ? scaled_f32x16 : bounded(scaled_f32x16));
  }

  __m512 low_multiplier_f32x16_, high_multiplier_f32x16_;
  __m512i zero_point_i16x32_, flip_u8x64_;
  __mmask32 mask_;
};

#include "kernels/winograd/panels.inl.h"

}  // namespace

constinit const WinogradKernels avx512_vnni::winograd = {.nr = kNr,
                                                         .mr = kMr,
                                                         .channels_of_step = 32,
                                                         .products_per_cycle = 64,
                                                         .cycles_of_input = 7.5,
                                                         .cycles_of_output = 12.5,
                                                         .cycles_of_window = 3.5,
                                                         .transform_input = transform_input,
                                                         .transform_filter = transform_filter,
                                                         .multiply = multiply,
                                                         .transform_output = transform_output};

}  // namespace dmlcpu
