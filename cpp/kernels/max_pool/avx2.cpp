// max_pool.h for AVX2. Bound by loads: one for each tap of 32 channels. Pixels of fewer channels go by 16, or one by
// one.
#include <immintrin.h>

#include "kernels/max_pool/max_pool.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

#include "kernels/max_pool/windows.inl.h"

template <class Code>
void pool(const MaxPoolRun& operands) noexcept {
  const MaxPoolRun run = operands;  // a copy: bytes of output could alias the original
  if (run.channels >= 32) return pool_by(run, Codes<Code, 32>());
  if (run.channels >= 16) return pool_by(run, Codes<Code, 16>());
  pool_by(run, Codes<Code, 1>());
}

void max_pool_run(const MaxPoolRun& run) noexcept { (run.is_signed ? pool<std::int8_t> : pool<std::uint8_t>)(run); }

}  // namespace

constinit const MaxPoolKernels avx2::max_pool = {.run = max_pool_run};

}  // namespace dmlcpu
