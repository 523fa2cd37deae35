// table.h with AVX512_VBMI: 64 codes a step, the rest by one mask. vpermt2b looks up seven bits of a code among 128
// values; the top bit chooses between two of them. Bound by memory from the level-2 cache on.
#include <immintrin.h>

#include "kernels/table/table.h"

#ifndef __AVX512VBMI__
#error "compile with AVX512_VBMI"
#endif

namespace dmlcpu {
namespace {

void look_up(const TableRun& run) noexcept {
  const std::uint8_t* input = run.input;
  std::uint8_t* output = run.output;
  const __m512i values_0_u8x64 = _mm512_loadu_si512(run.table), values_64_u8x64 = _mm512_loadu_si512(run.table + 64);
  const __m512i values_128_u8x64 = _mm512_loadu_si512(run.table + 128),
                values_192_u8x64 = _mm512_loadu_si512(run.table + 192);

  const auto look_up_64 = [&](__m512i codes_u8x64) {
    const __m512i below_128_u8x64 = _mm512_permutex2var_epi8(values_0_u8x64, codes_u8x64, values_64_u8x64);
    const __m512i others_u8x64 = _mm512_permutex2var_epi8(values_128_u8x64, codes_u8x64, values_192_u8x64);
    return _mm512_mask_mov_epi8(below_128_u8x64, _mm512_movepi8_mask(codes_u8x64), others_u8x64);
  };

  std::size_t i = 0;
  for (; i + 64 <= run.count; i += 64) {
    _mm512_storeu_si512(output + i, look_up_64(_mm512_loadu_si512(input + i)));
  }
  if (i < run.count) {
    const __mmask64 mask = (__mmask64{1} << (run.count - i)) - 1;
    _mm512_mask_storeu_epi8(output + i, mask, look_up_64(_mm512_maskz_loadu_epi8(mask, input + i)));
  }
}

}  // namespace

constinit const TableKernels avx512_vbmi::table = {.look_up = look_up};

}  // namespace dmlcpu
