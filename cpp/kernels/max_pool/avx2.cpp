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

// One code, with the same words.
struct Codes1 {
  static constexpr std::size_t kSize = 1;
  using Vector = std::uint8_t;
  static Vector fill(std::uint8_t code) noexcept { return code; }
  static Vector load(const std::uint8_t* codes) noexcept { return *codes; }
  static void store(std::uint8_t* codes, Vector value) noexcept { *codes = value; }
  template <bool is_signed>
  static Vector max(Vector x, Vector y) noexcept {
    if (is_signed) return static_cast<std::int8_t>(x) > static_cast<std::int8_t>(y) ? x : y;
    return x > y ? x : y;
  }
};

template <bool is_signed>
void pool(const MaxPoolRun& run) noexcept {
  if (run.channels >= Codes32::kSize) return pool_by<is_signed>(run, Codes32());
  if (run.channels >= Codes16::kSize) return pool_by<is_signed>(run, Codes16());
  pool_by<is_signed>(run, Codes1());
}

void max_pool_run(const MaxPoolRun& run) noexcept {
  if (run.is_signed) return pool<true>(run);
  pool<false>(run);
}

}  // namespace

constinit const MaxPoolKernels avx2::max_pool = {.run = max_pool_run};

}  // namespace dmlcpu
