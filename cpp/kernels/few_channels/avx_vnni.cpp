// few_channels.h for AVX-VNNI: one vpdpbusd for four input channels of 8 pixels.
#include <immintrin.h>

#include <cstring>

#include "kernels/few_channels/few_channels.h"

#ifndef __AVXVNNI__
#error "compile with AVX-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/codes/avx2.inl.h"
#include "kernels/few_channels/codes_avx2.inl.h"

using Activations = __m256i;
using Factors = __m256i;

constexpr std::size_t kFactorBytes = 4;
template <std::size_t filters>
constexpr std::size_t kVectors = filters <= 2 ? 4 : 2;

inline Activations activations_at(const std::uint8_t* bytes) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}
inline Factors factors_at(const std::uint8_t* bytes) noexcept {
  int codes;
  std::memcpy(&codes, bytes, sizeof(codes));
  return _mm256_set1_epi32(codes);
}
inline Integers plus_products(Integers sum, Activations activations, Factors factors) noexcept {
  return _mm256_dpbusd_avx_epi32(sum, activations, factors);
}

#include "kernels/few_channels/tiles.inl.h"

}  // namespace

constinit const FewChannelsKernels avx_vnni::few_channels = {
    .most_channels = 8.5, .most_channels_of_many = 8.5, .widened = false, .convolve = convolve};

}  // namespace dmlcpu
