// Windows by vectors of any width.
// Included inside the unnamed namespace of a kernel file.
//
// Four vectors go through a window together, neighbours within a pixel or one each of four pixels, so that stepping
// along the window is a small part. A last vector of a pixel's channels that is not whole begins earlier and repeats
// some of its neighbour's work.

// size codes as a vector, or one code by itself.
template <class Code, std::size_t size>
struct Codes {
  static constexpr std::size_t kSize = size;
  using Vector [[gnu::vector_size(size)]] = Code;

  static Vector lowest() noexcept { return Vector{} + (Code(-1) < 0 ? Code(-128) : Code(0)); }
  static Vector load(const std::uint8_t* codes) noexcept {
    Vector value;
    __builtin_memcpy(&value, codes, size);
    return value;
  }
  static void store(std::uint8_t* codes, Vector value) noexcept { __builtin_memcpy(codes, &value, size); }
};

// count vectors through the window at input: vector i step bytes, and output_step bytes, behind the one before.
template <int count, class Codes>
inline void pool_vectors(const MaxPoolRun& run, const Codes& codes, const std::uint8_t* input, std::size_t step,
                         std::uint8_t* output, std::size_t output_step) noexcept {
  typename Codes::Vector highest[count];
  for (int i = 0; i < count; ++i) highest[i] = codes.lowest();
  for (std::size_t row = 0; row < run.rows; ++row) {
    const std::uint8_t* first = input + row * run.row_step;
    for (std::size_t left = run.columns; left > 0; --left, first += run.column_step) {
      for (int i = 0; i < count; ++i) {
        const typename Codes::Vector vector = codes.load(first + static_cast<std::size_t>(i) * step);
        highest[i] = vector > highest[i] ? vector : highest[i];
      }
    }
  }
  for (int i = 0; i < count; ++i) codes.store(output + static_cast<std::size_t>(i) * output_step, highest[i]);
}

// One vector of channels, from channel on, of every pixel.
template <class Codes>
inline void pool_channels(const MaxPoolRun& run, const Codes& codes, std::size_t channel) noexcept {
  const std::uint8_t* input = run.input + channel;
  std::uint8_t* output = run.output + channel;
  std::size_t pixel = 0;
  for (; pixel + 4 <= run.pixels; pixel += 4) {
    pool_vectors<4>(run, codes, input, run.pixel_step, output, run.output_pixel_stride);
    input += 4 * run.pixel_step;
    output += 4 * run.output_pixel_stride;
  }
  for (; pixel < run.pixels; ++pixel, input += run.pixel_step, output += run.output_pixel_stride) {
    pool_vectors<1>(run, codes, input, 0, output, 0);
  }
}

// All channels, at least a vector of them.
template <class Codes>
inline void pool_by(const MaxPoolRun& run, const Codes& codes) noexcept {
  constexpr std::size_t kBlock = 4 * Codes::kSize;
  const std::size_t blocks = run.channels / kBlock * kBlock;
  for (std::size_t pixel = 0; blocks != 0 && pixel < run.pixels; ++pixel) {
    const std::uint8_t* input = run.input + pixel * run.pixel_step;
    std::uint8_t* output = run.output + pixel * run.output_pixel_stride;
    for (std::size_t channel = 0; channel < blocks; channel += kBlock) {
      pool_vectors<4>(run, codes, input + channel, Codes::kSize, output + channel, Codes::kSize);
    }
  }
  std::size_t channel = blocks;
  for (; channel + Codes::kSize <= run.channels; channel += Codes::kSize) pool_channels(run, codes, channel);
  if (channel < run.channels) pool_channels(run, codes, run.channels - Codes::kSize);
}
