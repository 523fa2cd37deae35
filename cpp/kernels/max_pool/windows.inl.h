// Windows by vectors of any width.
// Included inside the unnamed namespace of a kernel file.
//
// Four vectors go through a window together, neighbours within a pixel or one each of four pixels, so that stepping
// along the window is a small part. A last vector of a pixel's channels that is not whole begins earlier and repeats
// some of its neighbour's work.

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

// count vectors through the window at input: vector i step bytes, and output_step bytes, behind the one before.
template <bool is_signed, int count, class Codes>
inline void pool_vectors(const MaxPoolRun& run, const Codes& codes, const std::uint8_t* input, std::size_t step,
                         std::uint8_t* output, std::size_t output_step) noexcept {
  typename Codes::Vector highest[count];
  for (int i = 0; i < count; ++i) highest[i] = codes.fill(is_signed ? 0x80 : 0x00);
  for (std::size_t row = 0; row < run.rows; ++row) {
    const std::uint8_t* first = input + row * run.row_step;
    for (std::size_t column = 0; column < run.columns; ++column, first += run.column_step) {
      for (int i = 0; i < count; ++i) {
        const typename Codes::Vector vector = codes.load(first + static_cast<std::size_t>(i) * step);
        highest[i] = codes.template max<is_signed>(highest[i], vector);
      }
    }
  }
  for (int i = 0; i < count; ++i) codes.store(output + static_cast<std::size_t>(i) * output_step, highest[i]);
}

// One vector of channels, from channel on, of every pixel.
template <bool is_signed, class Codes>
inline void pool_channels(const MaxPoolRun& run, const Codes& codes, std::size_t channel) noexcept {
  const std::uint8_t* input = run.input + channel;
  std::uint8_t* output = run.output + channel;
  std::size_t pixel = 0;
  for (; pixel + 4 <= run.pixels; pixel += 4) {
    pool_vectors<is_signed, 4>(run, codes, input, run.pixel_step, output, run.output_pixel_stride);
    input += 4 * run.pixel_step;
    output += 4 * run.output_pixel_stride;
  }
  for (; pixel < run.pixels; ++pixel, input += run.pixel_step, output += run.output_pixel_stride) {
    pool_vectors<is_signed, 1>(run, codes, input, 0, output, 0);
  }
}

// All channels, at least a vector of them.
template <bool is_signed, class Codes>
inline void pool_by(const MaxPoolRun& run, const Codes& codes) noexcept {
  constexpr std::size_t kBlock = 4 * Codes::kSize;
  const std::size_t blocks = run.channels / kBlock * kBlock;
  for (std::size_t pixel = 0; blocks != 0 && pixel < run.pixels; ++pixel) {
    const std::uint8_t* input = run.input + pixel * run.pixel_step;
    std::uint8_t* output = run.output + pixel * run.output_pixel_stride;
    for (std::size_t channel = 0; channel < blocks; channel += kBlock) {
      pool_vectors<is_signed, 4>(run, codes, input + channel, Codes::kSize, output + channel, Codes::kSize);
    }
  }
  std::size_t channel = blocks;
  for (; channel + Codes::kSize <= run.channels; channel += Codes::kSize) pool_channels<is_signed>(run, codes, channel);
  if (channel < run.channels) pool_channels<is_signed>(run, codes, run.channels - Codes::kSize);
}
