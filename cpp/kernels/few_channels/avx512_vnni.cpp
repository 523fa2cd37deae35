// few_channels.h for AVX512-VNNI: one vpdpbusd for four input channels of 16 pixels.
#include <immintrin.h>

#include "kernels/few_channels/few_channels.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"

using Integers = __m512i;
using Activations = __m512i;
using Factors = __m512i;

constexpr std::size_t kLanes = 16, kFactorBytes = 4;
// Eight sums hide the latency of a product; of more filters fewer vectors do.
template <std::size_t filters>
constexpr std::size_t kVectors = filters <= 3 ? 8 : 4;

inline Integers integers_of(std::int32_t value) noexcept { return _mm512_set1_epi32(value); }
inline Activations activations_at(const std::uint8_t* bytes) noexcept { return _mm512_loadu_si512(bytes); }
inline Factors factors_at(const std::uint8_t* bytes) noexcept {
  int codes;
  __builtin_memcpy(&codes, bytes, sizeof(codes));
  return _mm512_set1_epi32(codes);
}
inline Integers plus_products(Integers sum, Activations activations, Factors factors) noexcept {
  return _mm512_dpbusd_epi32(sum, activations, factors);
}
inline Integers minus_product(Integers sum, Integers a, Integers b) noexcept {
  return _mm512_sub_epi32(sum, _mm512_mullo_epi32(a, b));
}

template <std::size_t vectors>
inline void store_codes(const FewChannelsRun& run, const Integers (&sums)[vectors], std::size_t channel,
                        std::size_t count, std::uint8_t* output) noexcept {
  const __m512 multiplier_f32x16 = _mm512_set1_ps(run.multiplier[channel]);
  const __m512i zero_point_i16x32 = _mm512_set1_epi16(static_cast<short>(run.output_zero_point));
  const auto rounded = [&](std::size_t v) {  // vectors beyond the tile repeat the last one
    const Integers sum = sums[v < vectors ? v : vectors - 1];
    return _mm512_cvtps_epi32(bounded(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), multiplier_f32x16)));
  };
  for (std::size_t v = 0; v < vectors; v += 4, output += 64) {
    const __m512i codes_u8x64 =
        saturate_in_order(rounded(v), rounded(v + 1), rounded(v + 2), rounded(v + 3), zero_point_i16x32);
    const std::size_t of_store = count - v * kLanes;
    const __mmask64 mask = of_store >= 64 ? ~__mmask64{0} : (__mmask64{1} << of_store) - 1;
    _mm512_mask_storeu_epi8(output, mask, _mm512_xor_si512(codes_u8x64, _mm512_set1_epi8(static_cast<char>(run.flip))));
  }
}

#include "kernels/few_channels/tiles.inl.h"

}  // namespace

constinit const FewChannelsKernels avx512_vnni::few_channels = {
    .most_channels = 8.5, .most_channels_of_many = 12.7, .widened = false, .convolve = convolve};

}  // namespace dmlcpu
