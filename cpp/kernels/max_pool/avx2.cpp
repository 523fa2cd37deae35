// max_pool.h for AVX2. Bound by loads: one for each tap of 32 channels.
//
// Four vectors go through a window together, neighbours within a pixel or one each of four pixels, so that stepping
// along the window is a small part. A last vector of fewer than 32 channels begins earlier and repeats some of its
// neighbour's work; pixels of fewer than 32 channels go by 16 likewise, or one by one.
#include <immintrin.h>

#include "kernels/max_pool/max_pool.h"

#ifndef __AVX2__
#error "compile with AVX2"
#endif

namespace dmlcpu {
namespace {

struct Codes32 {
  static constexpr std::size_t kSize = 32;
  using Vector = __m256i;
  static Vector fill(std::uint8_t code) noexcept { return _mm256_set1_epi8(static_cast<char>(code)); }
  static Vector load(const std::uint8_t* codes) noexcept {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
  }
  static void store(std::uint8_t* codes, Vector value) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), value);
  }
  template <bool is_signed>
  static Vector max(Vector x, Vector y) noexcept {
    return is_signed ? _mm256_max_epi8(x, y) : _mm256_max_epu8(x, y);
  }
};

struct Codes16 {
  static constexpr std::size_t kSize = 16;
  using Vector = __m128i;
  static Vector fill(std::uint8_t code) noexcept { return _mm_set1_epi8(static_cast<char>(code)); }
  static Vector load(const std::uint8_t* codes) noexcept {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  }
  static void store(std::uint8_t* codes, Vector value) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), value);
  }
  template <bool is_signed>
  static Vector max(Vector x, Vector y) noexcept {
    return is_signed ? _mm_max_epi8(x, y) : _mm_max_epu8(x, y);
  }
};

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

// count vectors through the window at input: vector i step bytes, and output_step bytes, behind the one before.
template <class Codes, bool is_signed, int count>
inline void pool_vectors(const MaxPoolRun& run, const std::uint8_t* input, std::size_t step, std::uint8_t* output,
                         std::size_t output_step) noexcept {
  typename Codes::Vector highest[count];
  for (int i = 0; i < count; ++i) highest[i] = Codes::fill(is_signed ? 0x80 : 0x00);
  for (std::size_t row = 0; row < run.rows; ++row) {
    const std::uint8_t* codes = input + row * run.row_step;
    for (std::size_t column = 0; column < run.columns; ++column, codes += run.column_step) {
      for (int i = 0; i < count; ++i) {
        highest[i] =
            Codes::template max<is_signed>(highest[i], Codes::load(codes + static_cast<std::size_t>(i) * step));
      }
    }
  }
  for (int i = 0; i < count; ++i) Codes::store(output + static_cast<std::size_t>(i) * output_step, highest[i]);
}

// The Codes::kSize channels from channel on, of every pixel.
template <class Codes, bool is_signed>
inline void pool_channels(const MaxPoolRun& run, std::size_t channel) noexcept {
  const std::uint8_t* input = run.input + channel;
  std::uint8_t* output = run.output + channel;
  std::size_t pixel = 0;
  for (; pixel + 4 <= run.pixels; pixel += 4) {
    pool_vectors<Codes, is_signed, 4>(run, input, run.pixel_step, output, run.output_pixel_stride);
    input += 4 * run.pixel_step;
    output += 4 * run.output_pixel_stride;
  }
  for (; pixel < run.pixels; ++pixel, input += run.pixel_step, output += run.output_pixel_stride) {
    pool_vectors<Codes, is_signed, 1>(run, input, 0, output, 0);
  }
}

// All channels from first on, by vectors of at most as many.
template <class Codes, bool is_signed>
inline void pool_rest(const MaxPoolRun& run, std::size_t first) noexcept {
  std::size_t channel = first;
  for (; channel + Codes::kSize <= run.channels; channel += Codes::kSize) pool_channels<Codes, is_signed>(run, channel);
  if (channel < run.channels) pool_channels<Codes, is_signed>(run, run.channels - Codes::kSize);
}

template <bool is_signed>
void pool(const MaxPoolRun& run) noexcept {
  constexpr std::size_t kBlock = 4 * Codes32::kSize;
  const std::size_t blocks = run.channels / kBlock * kBlock;
  if (blocks != 0) {
    for (std::size_t pixel = 0; pixel < run.pixels; ++pixel) {
      const std::uint8_t* input = run.input + pixel * run.pixel_step;
      std::uint8_t* output = run.output + pixel * run.output_pixel_stride;
      for (std::size_t channel = 0; channel < blocks; channel += kBlock) {
        pool_vectors<Codes32, is_signed, 4>(run, input + channel, Codes32::kSize, output + channel, Codes32::kSize);
      }
    }
  }
  if (run.channels >= Codes32::kSize) return pool_rest<Codes32, is_signed>(run, blocks);
  if (run.channels >= Codes16::kSize) return pool_rest<Codes16, is_signed>(run, 0);
  pool_rest<Codes1, is_signed>(run, 0);
}

void max_pool_run(const MaxPoolRun& run) noexcept {
  if (run.is_signed) return pool<true>(run);
  pool<false>(run);
}

}  // namespace

constinit const MaxPoolKernels avx2::max_pool = {.run = max_pool_run};

}  // namespace dmlcpu
