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

constexpr std::size_t kMr = 14, kNr = 32;

using Vector = __m512i;
using Words [[gnu::vector_size(64)]] = std::uint16_t;
using StepWords [[gnu::vector_size(32)]] = std::uint16_t;
using Sums [[gnu::vector_size(64)]] = std::uint32_t;

inline Vector widened(const std::uint8_t* codes, Words) noexcept { return _mm512_cvtepi8_epi16(load<__m256i>(codes)); }
inline __m256i widened(const std::uint8_t* codes, StepWords) noexcept {
  return _mm256_cvtepi8_epi16(load<__m128i>(codes));
}
inline Vector shuffled(Vector bytes, __m128i order) noexcept {
  return _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(order));
}
inline Vector accumulate(Vector sum_i32x16, Vector a_i16x32, Vector b_i16x32) noexcept {
  return _mm512_dpwssd_epi32(sum_i32x16, a_i16x32, b_i16x32);
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

#include "kernels/winograd/vectors.inl.h"

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
