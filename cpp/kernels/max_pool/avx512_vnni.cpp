// max_pool.h for AVX-512. Bound by loads: one for each tap of 64 channels. Pixels of fewer channels go by 32 or 16, or
// by one mask: narrow vectors cross fewer cache lines than wide ones under masks.
#include <immintrin.h>

#include "kernels/max_pool/max_pool.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/max_pool/windows.inl.h"

struct Codes64 {
  static constexpr std::size_t kSize = 64;
  using Vector = __m512i;
  static Vector fill(std::uint8_t code) noexcept { return _mm512_set1_epi8(static_cast<char>(code)); }
  static Vector load(const std::uint8_t* codes) noexcept { return _mm512_loadu_si512(codes); }
  static void store(std::uint8_t* codes, Vector value) noexcept { _mm512_storeu_si512(codes, value); }
  template <bool is_signed>
  static Vector max(Vector x, Vector y) noexcept {
    return is_signed ? _mm512_max_epi8(x, y) : _mm512_max_epu8(x, y);
  }
};

// The masked ones of 16 codes.
struct CodesBelow16 : Codes16 {
  __mmask16 mask;
  Vector load(const std::uint8_t* codes) const noexcept { return _mm_maskz_loadu_epi8(mask, codes); }
  void store(std::uint8_t* codes, Vector value) const noexcept { _mm_mask_storeu_epi8(codes, mask, value); }
};

template <bool is_signed>
void pool(const MaxPoolRun& run) noexcept {
  if (run.channels >= Codes64::kSize) return pool_by<is_signed>(run, Codes64());
  if (run.channels >= Codes32::kSize) return pool_by<is_signed>(run, Codes32());
  if (run.channels >= Codes16::kSize) return pool_by<is_signed>(run, Codes16());
  pool_channels<is_signed>(run, CodesBelow16{{}, static_cast<__mmask16>((1U << run.channels) - 1)}, 0);
}

void max_pool_run(const MaxPoolRun& run) noexcept {
  if (run.is_signed) return pool<true>(run);
  pool<false>(run);
}

}  // namespace

constinit const MaxPoolKernels avx512_vnni::max_pool = {.run = max_pool_run};

}  // namespace dmlcpu
