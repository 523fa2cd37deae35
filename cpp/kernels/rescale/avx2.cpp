// rescale.h for AVX2: 8 sums a step, the rest by a mask or through buffers of 8; codes 32 a step.
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "kernels/rescale/rescale.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/half.inl.h"
#include "kernels/masked_floats/avx2.inl.h"
// after both
#include "kernels/lanes/halves_avx2.inl.h"

using Sums = __m256i;

inline Sums spread(std::int32_t value) noexcept { return _mm256_set1_epi32(value); }
inline Sums load(const std::int32_t* values) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
}
inline Sums load(const std::int32_t* values, Mask mask) noexcept { return _mm256_maskload_epi32(values, mask); }
inline void store(std::int32_t* values, Sums sums) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), sums);
}
inline void store(std::int32_t* values, Mask mask, Sums sums) noexcept { _mm256_maskstore_epi32(values, mask, sums); }
inline Sums less_product(Sums sums, Sums a, Sums b) noexcept {
  return _mm256_sub_epi32(sums, _mm256_mullo_epi32(a, b));
}
inline Floats to_float(Sums sums) noexcept { return _mm256_cvtepi32_ps(sums); }

inline Sums spread_bytes(std::uint8_t byte) noexcept { return _mm256_set1_epi8(static_cast<char>(byte)); }
inline void store_codes(std::uint8_t* output, __m256i codes_u8x32, __m256i flip_u8x32) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(output), _mm256_xor_si256(codes_u8x32, flip_u8x32));
}
inline void store_codes(std::uint8_t* output, std::size_t count, Sums unsaturated, __m256i flip_u8x32) noexcept {
  store_tail(output, count, unsaturated, flip_u8x32);
}

inline Floats load_first(const Half* values, std::size_t count) noexcept { return load_first(values, count, 0.0f); }

inline Floats with_one_nan(Floats lanes) noexcept {
  return _mm256_blendv_ps(lanes, spread(__builtin_nanf("")), _mm256_cmp_ps(lanes, lanes, _CMP_UNORD_Q));
}

#include "kernels/rescale/rows.inl.h"

}  // namespace

constinit const RescaleKernels avx2::rescale = {.to_sums = to_sums,
                                                .to_codes = to_codes,
                                                .to_float32 = with_or_without_bias<float>,
                                                .to_float16 = with_or_without_bias<Half>,
                                                .scale_columns = scale_columns};

}  // namespace dmlcpu
