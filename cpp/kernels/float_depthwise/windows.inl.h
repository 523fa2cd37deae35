// The windows of float_depthwise.h in blocks of sums that stay in registers, on the vectors of an instruction set: of
// up to eight pixels, along which the taps of a row of windows slide, so that what is read of an image's pixel serves
// all windows that have it.
// Included inside the unnamed namespace of a kernel file, behind masked_floats/<isa>.inl.h, runs.inl.h and
//
//   kMostTaps      of a row of windows, that stay in registers as well

constexpr std::size_t kLanesOfLine = 16;  // floats of a cache line
alignas(64) constexpr float kPadding[kLanesOfLine] = {};

struct Block {
  std::size_t pixel, pixels, channel;
  Mask mask;  // of its channels
};

// The products of the taps of a row from one on, and of all after it; `column` is the image's of the first pixel's
// first tap, which lies at `row`. `inside` is whether all taps are the image's.
template <std::size_t pixels, std::size_t vectors, std::size_t columns, std::size_t stride, bool masked, bool inside,
          std::size_t from = 0>
inline void add_row(const FloatDepthwiseWindows& run, Mask mask, const float* row, std::size_t column,
                    const float* filter, Floats (&sum)[pixels][vectors]) noexcept {
  constexpr std::size_t most = vectors == 1 ? kMostTaps : kMostTaps - 1;
  constexpr std::size_t runs = (columns - from + most - 1) / most, taps = (columns - from + runs - 1) / runs;
  const std::size_t step = run.image_step;
  Floats of_filter[taps][vectors];
#pragma GCC unroll 8
  for (std::size_t t = 0; t < taps; ++t, filter += run.filter_row_stride) {
    for (std::size_t v = 0; v < vectors; ++v) of_filter[t][v] = masked ? load(filter, mask) : load(filter + v * kLanes);
  }
#pragma GCC unroll 32
  for (std::size_t x = 0; x < (pixels - 1) * stride + taps; ++x) {
    const float* at = inside || column + from + x < run.image_columns ? row + (from + x) * step : kPadding;
    for (std::size_t v = 0; v < vectors; ++v) {
      const Floats pixel = masked ? load(at, mask) : load(at + v * kLanes);
#pragma GCC unroll 8
      for (std::size_t t = 0; t < taps; ++t) {
        if (x < t || (x - t) % stride != 0 || (x - t) / stride >= pixels) continue;
        sum[(x - t) / stride][v] = fused(pixel, of_filter[t][v], sum[(x - t) / stride][v]);
      }
    }
  }
  if constexpr (from + taps < columns) {
    add_row<pixels, vectors, columns, stride, masked, inside, from + taps>(run, mask, row, column, filter, sum);
  }
}

// Sums of more pixels than the block has are not stored.
template <std::size_t pixels, std::size_t vectors, std::size_t columns, std::size_t stride, bool masked, bool inside>
inline void write_block(const FloatDepthwiseWindows& run, const Block& block) noexcept {
  const auto load_vector = [&block](const float* values) noexcept {
    return masked ? load(values, block.mask) : load(values);
  };
  Floats sum[pixels][vectors];
  for (std::size_t v = 0; v < vectors; ++v) {
    const Floats first = run.bias == nullptr ? zeros() : load_vector(run.bias + block.channel + v * kLanes);
#pragma GCC unroll 8
    for (std::size_t p = 0; p < pixels; ++p) sum[p][v] = first;
  }
  const float* filter = run.filter + block.channel;
  const std::ptrdiff_t column = run.first_column + static_cast<std::ptrdiff_t>(block.pixel * stride);
  const std::ptrdiff_t offset = column * static_cast<std::ptrdiff_t>(run.image_step) +
                                static_cast<std::ptrdiff_t>(run.first_channel + block.channel);
  for (std::size_t i = 0; i < run.rows; ++i, filter += columns * run.filter_row_stride) {
    if (run.image_rows[i] != nullptr) {
      add_row<pixels, vectors, columns, stride, masked, inside>(run, block.mask, run.image_rows[i] + offset,
                                                                static_cast<std::size_t>(column), filter, sum);
      continue;
    }
    for (std::size_t t = 0; t < columns; ++t) {
      for (std::size_t v = 0; v < vectors; ++v) {
        const Floats of_filter = load_vector(filter + t * run.filter_row_stride + v * kLanes);
#pragma GCC unroll 8
        for (std::size_t p = 0; p < pixels; ++p) sum[p][v] = fused(zeros(), of_filter, sum[p][v]);
      }
    }
  }
  clip_sums(run.bounds, sum);
  float* output = run.output + block.pixel * run.output_pixel_stride + block.channel;
#pragma GCC unroll 8
  for (std::size_t p = 0; p < pixels; ++p, output += run.output_pixel_stride) {
    if (p >= block.pixels) continue;
    for (std::size_t v = 0; v < vectors; ++v) {
      masked ? store(output, block.mask, sum[p][v]) : store(output + v * kLanes, sum[p][v]);
    }
  }
}

template <std::size_t pixels, std::size_t vectors, std::size_t columns, std::size_t stride>
void write_pixels(const FloatDepthwiseWindows& run, std::size_t pixel, std::size_t count) noexcept {
  const std::size_t first = static_cast<std::size_t>(run.first_column) + pixel * stride;
  const std::size_t last = first + (pixels - 1) * stride + columns - 1;
  const bool inside = first <= last && last < run.image_columns;
  Block block = {.pixel = pixel, .pixels = count, .channel = 0, .mask = first_lanes(kLanes)};
  for (; block.channel + vectors * kLanes <= run.channels; block.channel += vectors * kLanes) {
    inside ? write_block<pixels, vectors, columns, stride, false, true>(run, block)
           : write_block<pixels, vectors, columns, stride, false, false>(run, block);
  }
  if constexpr (vectors > 1) {
    for (; block.channel + kLanes <= run.channels; block.channel += kLanes) {
      write_block<pixels, 1, columns, stride, false, false>(run, block);
    }
  }
  if (block.channel == run.channels) return;
  block.mask = first_lanes(run.channels - block.channel);
  write_block<pixels, 1, columns, stride, true, false>(run, block);
}

// For windows of 3, 5, 7 and 9 columns, moving by one pixel and by two.
struct PixelsFunctions {
  void (*of[4][2])(const FloatDepthwiseWindows& run, std::size_t pixel, std::size_t count) noexcept;
};

template <std::size_t pixels, std::size_t vectors = 1>
constexpr PixelsFunctions kOf = {{{write_pixels<pixels, vectors, 3, 1>, write_pixels<pixels, vectors, 3, 2>},
                                  {write_pixels<pixels, vectors, 5, 1>, write_pixels<pixels, vectors, 5, 2>},
                                  {write_pixels<pixels, vectors, 7, 1>, write_pixels<pixels, vectors, 7, 2>},
                                  {write_pixels<pixels, vectors, 9, 1>, write_pixels<pixels, vectors, 9, 2>}}};

// Rows are mostly of powers of two of pixels, or of seven times these.
void convolve_windows(const FloatDepthwiseWindows& run) noexcept {
  // Pixels so far apart share few places of a level-1 cache, which has lost their cache lines when the next channels
  // are read: these are read at once then.
  constexpr std::size_t kFewPlaces = 256;  // a quarter of a way
  const bool whole_lines = kLanesOfLine > kLanes && run.rows > 1 && run.image_step % kFewPlaces == 0;
  const std::size_t most = whole_lines ? 4 : 8;
  std::size_t blocks = (run.pixels + most - 1) / most;
  for (std::size_t pixel = 0, count = 0; pixel < run.pixels; pixel += count, --blocks) {
    count = (run.pixels - pixel + blocks - 1) / blocks;
    const PixelsFunctions& functions = whole_lines  ? kOf<4, kLanesOfLine / kLanes>
                                       : count <= 4 ? kOf<4>
                                       : count <= 7 ? kOf<7>
                                                    : kOf<8>;
    functions.of[(run.columns - 3) / 2][run.stride - 1](run, pixel, count);
  }
}
