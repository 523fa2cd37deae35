// rescale.h for AVX-512: 16 sums a step, the rest by a mask; codes 64 a step.
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "kernels/rescale/rescale.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx512_vnni.inl.h"
#include "kernels/half.inl.h"
#include "kernels/masked_floats/avx512_vnni.inl.h"
// after both
#include "kernels/lanes/halves_avx512_vnni.inl.h"

using Sums = __m512i;

inline Sums spread(std::int32_t value) noexcept { return _mm512_set1_epi32(value); }
inline Sums load(const std::int32_t* values) noexcept { return _mm512_loadu_si512(values); }
inline Sums load(const std::int32_t* values, Mask mask) noexcept { return _mm512_maskz_loadu_epi32(mask, values); }
inline void store(std::int32_t* values, Sums sums) noexcept { _mm512_storeu_si512(values, sums); }
inline void store(std::int32_t* values, Mask mask, Sums sums) noexcept { _mm512_mask_storeu_epi32(values, mask, sums); }
inline Sums less_product(Sums sums, Sums a, Sums b) noexcept {
  return _mm512_sub_epi32(sums, _mm512_mullo_epi32(a, b));
}
inline Floats to_float(Sums sums) noexcept { return _mm512_cvtepi32_ps(sums); }

inline Sums spread_bytes(std::uint8_t byte) noexcept { return _mm512_set1_epi8(static_cast<char>(byte)); }
inline void store_codes(std::uint8_t* output, __m512i codes_u8x64, __m512i flip_u8x64) noexcept {
  _mm512_storeu_si512(output, _mm512_xor_si512(codes_u8x64, flip_u8x64));
}
inline void store_codes(std::uint8_t* output, std::size_t count, Sums unsaturated, __m512i flip_u8x64) noexcept {
  store_tail(output, lane_mask(count), unsaturated, flip_u8x64);
}

inline Floats load_first(const Half* values, std::size_t count) noexcept { return load_first(values, count, 0.0f); }

inline Floats with_one_nan(Floats lanes) noexcept {
  return _mm512_mask_mov_ps(lanes, _mm512_cmp_ps_mask(lanes, lanes, _CMP_UNORD_Q), spread(__builtin_nanf("")));
}

#include "kernels/rescale/rows.inl.h"

}  // namespace

constinit const RescaleKernels avx512_vnni::rescale = {.to_sums = to_sums,
                                                       .to_codes = to_codes,
                                                       .to_float32 = with_or_without_bias<float>,
                                                       .to_float16 = with_or_without_bias<Half>,
                                                       .scale_columns = scale_columns};

}  // namespace dmlcpu
