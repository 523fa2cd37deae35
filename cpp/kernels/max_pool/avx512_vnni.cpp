// max_pool.h for AVX-512. Bound by loads: one for each tap of 64 channels.
//
// Four vectors go through a window together, neighbours within a pixel or one each of four pixels, so that stepping
// along the window is a small part. Masks cut the last vector of a pixel.
#include <immintrin.h>

#include "kernels/max_pool/max_pool.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

constexpr __mmask64 kAllCodes = ~__mmask64{0};

// count vectors through the window at input: vector i step bytes, and output_step bytes, behind the one before.
template <bool is_signed, int count>
inline void pool_vectors(const MaxPoolRun& run, const std::uint8_t* input, std::size_t step, std::uint8_t* output,
                         std::size_t output_step, __mmask64 mask) noexcept {
  __m512i highest_u8x64[count];
  for (int i = 0; i < count; ++i) highest_u8x64[i] = _mm512_set1_epi8(static_cast<char>(is_signed ? 0x80 : 0x00));
  for (std::size_t row = 0; row < run.rows; ++row) {
    const std::uint8_t* codes = input + row * run.row_step;
    for (std::size_t column = 0; column < run.columns; ++column, codes += run.column_step) {
      for (int i = 0; i < count; ++i) {
        const __m512i codes_u8x64 = _mm512_maskz_loadu_epi8(mask, codes + static_cast<std::size_t>(i) * step);
        highest_u8x64[i] =
            is_signed ? _mm512_max_epi8(highest_u8x64[i], codes_u8x64) : _mm512_max_epu8(highest_u8x64[i], codes_u8x64);
      }
    }
  }
  for (int i = 0; i < count; ++i) {
    _mm512_mask_storeu_epi8(output + static_cast<std::size_t>(i) * output_step, mask, highest_u8x64[i]);
  }
}

// The masked channels from channel on, of every pixel.
template <bool is_signed>
inline void pool_channels(const MaxPoolRun& run, std::size_t channel, __mmask64 mask) noexcept {
  const std::uint8_t* input = run.input + channel;
  std::uint8_t* output = run.output + channel;
  std::size_t pixel = 0;
  for (; pixel + 4 <= run.pixels; pixel += 4) {
    pool_vectors<is_signed, 4>(run, input, run.pixel_step, output, run.output_pixel_stride, mask);
    input += 4 * run.pixel_step;
    output += 4 * run.output_pixel_stride;
  }
  for (; pixel < run.pixels; ++pixel, input += run.pixel_step, output += run.output_pixel_stride) {
    pool_vectors<is_signed, 1>(run, input, 0, output, 0, mask);
  }
}

template <bool is_signed>
void pool(const MaxPoolRun& run) noexcept {
  constexpr std::size_t kBlock = 4 * 64;
  const std::size_t blocks = run.channels / kBlock * kBlock;
  if (blocks != 0) {
    for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
      const std::uint8_t* input = run.input + pixel * run.pixel_step;
      std::uint8_t* output = run.output + pixel * run.output_pixel_stride;
      for (std::size_t channel = 0; channel < blocks; channel += kBlock) {
        pool_vectors<is_signed, 4>(run, input + channel, 64, output + channel, 64, kAllCodes);
      }
    }
  }
  for (std::size_t channel = blocks; channel < run.channels; channel += 64) {
    const std::size_t left = run.channels - channel;
    pool_channels<is_signed>(run, channel, left >= 64 ? kAllCodes : (__mmask64{1} << left) - 1);
  }
}

void max_pool_run(const MaxPoolRun& run) noexcept {
  if (run.is_signed) return pool<true>(run);
  pool<false>(run);
}

}  // namespace

constinit const MaxPoolKernels avx512_vnni::max_pool = {.run = max_pool_run};

}  // namespace dmlcpu
