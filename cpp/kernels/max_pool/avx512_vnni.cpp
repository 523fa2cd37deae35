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

// The masked ones of 16 codes.
template <class Code>
struct CodesBelow16 : Codes<Code, 16> {
  using Vector = typename Codes<Code, 16>::Vector;
  __mmask16 mask;

  Vector load(const std::uint8_t* codes) const noexcept {
    return reinterpret_cast<Vector>(_mm_maskz_loadu_epi8(mask, codes));
  }
  void store(std::uint8_t* codes, Vector value) const noexcept {
    _mm_mask_storeu_epi8(codes, mask, reinterpret_cast<__m128i>(value));
  }
};

template <class Code>
void pool(const MaxPoolRun& run) noexcept {
  if (run.channels >= 64) return pool_by(run, Codes<Code, 64>());
  if (run.channels >= 32) return pool_by(run, Codes<Code, 32>());
  if (run.channels >= 16) return pool_by(run, Codes<Code, 16>());
  pool_channels(run, CodesBelow16<Code>{{}, static_cast<__mmask16>((1U << run.channels) - 1)}, 0);
}

void max_pool_run(const MaxPoolRun& run) noexcept { (run.is_signed ? pool<std::int8_t> : pool<std::uint8_t>)(run); }

}  // namespace

constinit const MaxPoolKernels avx512_vnni::max_pool = {.run = max_pool_run};

}  // namespace dmlcpu
