#include "check.h"

namespace dmlcpu::test {
namespace {

// The order of the codes as numbers.
int number(std::uint8_t code, bool is_signed) { return is_signed ? static_cast<std::int8_t>(code) : int{code}; }

struct Window {
  std::size_t rows, columns, pixel_step, gap;  // gap: bytes between pixels and between rows
};

void check_run(Check& check, std::size_t pixels, std::size_t channels, const Window& window, bool is_signed,
               Edge edge) {
  const std::size_t column_step = channels + window.gap, step = window.pixel_step * column_step;
  const std::size_t row_step = (pixels - 1) * step + window.columns * column_step + window.gap;
  const std::size_t output_stride = channels + window.gap;
  std::vector<std::uint8_t> input((window.rows - 1) * row_step + (window.columns - 1) * column_step +
                                  (pixels - 1) * step + channels);
  for (std::uint8_t& code : input) code = check.code();
  std::vector<std::uint8_t> expected = canaries<std::uint8_t>((pixels - 1) * output_stride + channels);
  for (std::size_t i = 0; i < pixels * channels; ++i) {
    const std::size_t pixel = i / channels, channel = i % channels;
    std::uint8_t highest = is_signed ? 0x80 : 0x00;
    for (std::size_t tap = 0; tap < window.rows * window.columns; ++tap) {
      const std::uint8_t code =
          input[pixel * step + tap / window.columns * row_step + tap % window.columns * column_step + channel];
      if (number(code, is_signed) > number(highest, is_signed)) highest = code;
    }
    expected[pixel * output_stride + channel] = highest;
  }
  const GuardedBuffer<std::uint8_t> guarded_input(input, edge), output(expected.size(), edge);
  check.table.max_pool->run({.input = guarded_input.data(),
                             .pixel_step = step,
                             .rows = window.rows,
                             .row_step = row_step,
                             .columns = window.columns,
                             .column_step = column_step,
                             .pixels = pixels,
                             .channels = channels,
                             .is_signed = is_signed,
                             .output = output.data(),
                             .output_pixel_stride = output_stride});
  check.equal(output, expected);
}

}  // namespace

void check_max_pool(Check& check) {
  static constexpr Window kWindows[] = {{1, 1, 1, 0}, {2, 2, 2, 0}, {3, 3, 1, 3}, {3, 1, 1, 0}, {1, 5, 3, 1}};
  for (const std::size_t channels : run_lengths()) {
    if (channels == 0) continue;
    for (const std::size_t pixels : Sizes{1, 2, 4, 5, 9}) {
      for (const Window& window : kWindows) {
        for (const Edge edge : kEdges) {
          for (const bool is_signed : {false, true}) {
            describe_case("max_pool, %zu pixels of %zu channels, window %zu x %zu, gap %zu, signed %d, edge %d", pixels,
                          channels, window.rows, window.columns, window.gap, int{is_signed}, static_cast<int>(edge));
            check_run(check, pixels, channels, window, is_signed, edge);
          }
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
