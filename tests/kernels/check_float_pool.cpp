#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "check.h"

namespace dmlcpu::test {
namespace {

struct Shape {
  std::size_t rows, taps, pixel, dilation;
};

// NaN among them, which payloads tell apart: of several, extremes are the first.
float number(Check& check) {
  const float value = check.number();
  const auto payload = static_cast<std::uint32_t>(check.below(1 << 22));
  return std::isnan(value) ? std::bit_cast<float>(0x7fc00000 | payload) : value;
}

// The same sums over their divisors, or over one.
void check_averages(Check& check, FloatPoolRun run, const std::vector<float>& sums, Edge edge) {
  for (const bool repeats : {false, true}) {
    std::vector<float> divisors(repeats ? 1 : run.count), averages(run.count);
    for (float& value : divisors) value = static_cast<float>(check.below(9));
    for (std::size_t e = 0; e < run.count; ++e) averages[e] = sums[e] / divisors[repeats ? 0 : e];
    const GuardedBuffer<float> divisor(divisors, edge), output(run.count, edge);
    run.output = output.data();
    run.divisors = divisor.data();
    run.divisor_repeats = repeats;
    check.table.float_pool->sums.runs(run);
    check.equal_but_for_nans(output, averages);
  }
}

void check_windows(Check& check, const Shape& shape, std::ptrdiff_t element_step, std::size_t count, Edge edge) {
  // Windows that begin before the row, or within it, and end within it or behind; rows may overlap.
  const std::ptrdiff_t step = static_cast<std::ptrdiff_t>(shape.pixel * shape.dilation);
  const std::size_t reach = (shape.taps == 0 ? 0 : shape.taps - 1) * shape.pixel * shape.dilation;
  const std::ptrdiff_t length =
      static_cast<std::ptrdiff_t>(1 + check.below(static_cast<std::size_t>(element_step) * count + 2 * reach));
  const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(check.below(2 * reach + 1 + count / 2)) -
                               static_cast<std::ptrdiff_t>(check.one_in(2) ? reach : 0);
  const auto row_step = static_cast<std::ptrdiff_t>(check.below(static_cast<std::size_t>(2 * length)));
  const bool special = check.one_in(4);
  std::vector<float> x(
      static_cast<std::size_t>(length + row_step * static_cast<std::ptrdiff_t>(shape.rows == 0 ? 0 : shape.rows - 1)));
  for (float& value : x) value = special ? number(check) : 0.1f * static_cast<float>(check.code()) - 9.0f;

  std::vector<float> sums(count, 0.0f), maxima(count, -std::numeric_limits<float>::infinity());
  std::vector<float> minima(count, std::numeric_limits<float>::infinity());
  for (std::size_t e = 0; e < count; ++e) {
    for (std::size_t i = 0; i < shape.rows; ++i) {
      for (std::size_t j = 0; j < shape.taps; ++j) {
        const std::ptrdiff_t place =
            first + static_cast<std::ptrdiff_t>(j) * step + static_cast<std::ptrdiff_t>(e) * element_step;
        if (place < 0 || place >= length) continue;
        const float value = x[static_cast<std::size_t>(static_cast<std::ptrdiff_t>(i) * row_step + place)];
        sums[e] += value;
        maxima[e] = maxima[e] > value || maxima[e] != maxima[e] ? maxima[e] : value;
        minima[e] = minima[e] < value || minima[e] != minima[e] ? minima[e] : value;
      }
    }
  }

  const GuardedBuffer<float> input(x, edge), output(count, edge);
  const FloatPoolRun run = {.input = input.data(),
                            .rows = shape.rows,
                            .row_step = row_step,
                            .length = length,
                            .first = first,
                            .taps = shape.taps,
                            .tap_step = step,
                            .step = element_step,
                            .count = count,
                            .output = output.data()};
  check.table.float_pool->sums.runs(run);
  check.equal_but_for_nans(output, sums);
  check_averages(check, run, sums, edge);
  check.table.float_pool->maxima.runs(run);
  check.equal(output, maxima);
  check.table.float_pool->minima.runs(run);
  check.equal(output, minima);
}

void check_extremes(Check& check, std::size_t rows, std::size_t count, Edge edge) {
  const std::size_t row_step = count + check.below(3);
  std::vector<float> x((rows - 1) * row_step + count);
  for (float& value : x) {
    value = 0.1f * static_cast<float>(check.code()) - 9.0f;
    if (check.one_in(40)) value = number(check);
  }
  if (check.one_in(3)) {  // both zeros above all others, or below
    const float side = check.one_in(2) ? 1.0f : -1.0f;
    for (float& value : x) value = side * value > 0.0f ? 0.0f * (check.one_in(2) ? 1.0f : -1.0f) : value;
  }
  float largest = -std::numeric_limits<float>::infinity(), smallest = -largest;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      const float value = x[i * row_step + j];
      largest = largest > value || largest != largest ? largest : value;
      smallest = smallest < value || smallest != smallest ? smallest : value;
    }
  }
  const GuardedBuffer<float> input(x, edge), output(1, edge);
  const FloatWindow window = {
      .input = input.data(), .rows = rows, .row_step = static_cast<std::ptrdiff_t>(row_step), .count = count};
  output.data()[0] = check.table.float_pool->largest(window);
  check.equal(output, std::vector<float>{largest});
  output.data()[0] = check.table.float_pool->smallest(window);
  check.equal(output, std::vector<float>{smallest});
}

// Windows of more rows than the plane has, too, and such as begin beside it; some with no element of it.
void check_plane(Check& check, std::size_t rows, std::size_t columns, Edge edge) {
  const std::size_t count = rows * columns, tap_rows = 1 + check.below(5),
                    taps = 1 + check.below(FloatPlane::kMostTaps);
  const auto rows_before = static_cast<std::ptrdiff_t>(check.below(tap_rows));
  const auto columns_before = static_cast<std::ptrdiff_t>(check.below(taps));
  const bool special = check.one_in(4), repeats = check.one_in(2);
  std::vector<float> x(count), divisors(repeats ? 1 : count), averages(count, 0.0f);
  for (float& value : x) value = special ? number(check) : 0.1f * static_cast<float>(check.code()) - 9.0f;
  for (float& value : divisors) value = static_cast<float>(check.below(9));
  const std::size_t bytes = (count + 15) / 16 * 2;
  std::vector<std::uint8_t> bits(taps * bytes, 0);
  for (std::size_t e = 0; e < count; ++e) {
    for (std::size_t i = 0; i < tap_rows; ++i) {
      for (std::size_t j = 0; j < taps; ++j) {
        const std::ptrdiff_t y = static_cast<std::ptrdiff_t>(e / columns + i) - rows_before;
        const std::ptrdiff_t column = static_cast<std::ptrdiff_t>(e % columns + j) - columns_before;
        if (column < 0 || column >= static_cast<std::ptrdiff_t>(columns)) continue;
        bits[j * bytes + e / 8] |= static_cast<std::uint8_t>(1U << e % 8);
        if (y < 0 || y >= static_cast<std::ptrdiff_t>(rows)) continue;
        averages[e] += x[static_cast<std::size_t>(y) * columns + static_cast<std::size_t>(column)];
      }
    }
    averages[e] /= divisors[repeats ? 0 : e];
  }
  const GuardedBuffer<float> input(x, edge), divisor(divisors, edge), output(count, edge);
  const GuardedBuffer<std::uint8_t> inside(bits, edge);
  check.table.float_pool->averages_of_plane({.input = input.data(),
                                             .rows = rows,
                                             .columns = columns,
                                             .tap_rows = tap_rows,
                                             .taps = taps,
                                             .rows_before = rows_before,
                                             .columns_before = columns_before,
                                             .inside = inside.data(),
                                             .tap_bytes = bytes,
                                             .divisors = divisor.data(),
                                             .divisor_repeats = repeats,
                                             .output = output.data()});
  check.equal_but_for_nans(output, averages);
}

// What taps in their order come to.
struct Expected {
  float sum = 0.0f, maximum = -std::numeric_limits<float>::infinity();
  float minimum = std::numeric_limits<float>::infinity();

  void take(float value) {
    sum += value;
    maximum = maximum > value || maximum != maximum ? maximum : value;
    minimum = minimum < value || minimum != minimum ? minimum : value;
  }
};

float tap(Check& check, bool special) {
  return special ? number(check) : 0.1f * static_cast<float>(check.code()) - 9.0f;
}

// Any numbers of taps, from any place of a plane on, as rows and columns have them.
std::vector<FloatPixels::Taps> some_taps(Check& check, std::size_t windows, std::size_t length, std::size_t dilation,
                                         std::size_t step) {
  std::vector<FloatPixels::Taps> taps(windows);
  for (FloatPixels::Taps& window : taps) {
    const std::size_t first = check.below(length), most = (length - 1 - first) / dilation + 1;
    window = {static_cast<std::int32_t>(first * step), static_cast<std::int32_t>(check.below(most + 1))};
  }
  return taps;
}

void check_pixels(Check& check, std::size_t rows, std::size_t columns, Edge edge) {
  const std::size_t lanes = check.table.float_pool->lanes, y_step = 1 + check.below(3), x_step = 1 + check.below(3);
  const std::vector<FloatPixels::Taps> row_taps = some_taps(check, 1 + check.below(6), rows, y_step, columns * lanes);
  const std::vector<FloatPixels::Taps> column_taps = some_taps(check, 1 + check.below(9), columns, x_step, lanes);
  const std::size_t count = row_taps.size() * column_taps.size() * lanes;
  const bool special = check.one_in(4), repeats = check.one_in(2);
  std::vector<float> x(rows * columns * lanes), divisors(repeats ? 1 : count / lanes);
  std::vector<float> averages(count), maxima(count), minima(count);
  for (float& value : x) value = tap(check, special);
  for (float& value : divisors) value = static_cast<float>(check.below(9));
  for (std::size_t e = 0; e < count; ++e) {
    const std::size_t pixel = e / lanes;
    const FloatPixels::Taps &of_row = row_taps[pixel / column_taps.size()],
                            &of_column = column_taps[pixel % column_taps.size()];
    Expected expected;
    for (std::int32_t i = 0; i < of_row.count; ++i) {
      for (std::int32_t j = 0; j < of_column.count; ++j) {
        const auto first = static_cast<std::size_t>(of_row.first + of_column.first);
        const std::size_t y = static_cast<std::size_t>(i) * y_step, column = static_cast<std::size_t>(j) * x_step;
        expected.take(x[first + (y * columns + column) * lanes + e % lanes]);
      }
    }
    averages[e] = expected.sum / divisors[repeats ? 0 : pixel];
    maxima[e] = expected.maximum;
    minima[e] = expected.minimum;
  }
  const GuardedBuffer<float> input(x, edge), divisor(divisors, edge), output(count, edge);
  FloatPixels pixels = {.input = input.data(),
                        .rows = row_taps.data(),
                        .columns = column_taps.data(),
                        .row_count = row_taps.size(),
                        .column_count = column_taps.size(),
                        .row_step = static_cast<std::ptrdiff_t>(y_step * columns * lanes),
                        .column_step = static_cast<std::ptrdiff_t>(x_step * lanes),
                        .divisors = divisor.data(),
                        .divisor_repeats = repeats,
                        .output = output.data()};
  check.table.float_pool->sums.pixels(pixels);
  check.equal_but_for_nans(output, averages);
  pixels.divisors = nullptr;
  check.table.float_pool->maxima.pixels(pixels);
  check.equal(output, maxima);
  check.table.float_pool->minima.pixels(pixels);
  check.equal(output, minima);
}

}  // namespace

void check_float_pool(Check& check) {
  for (const std::size_t rows : {1U, 2U, 7U, 9U}) {
    for (const std::size_t columns : {1U, 3U, 8U}) {
      for (const Edge edge : kEdges) {
        describe_case("pixels of %zu x %zu, edge %d", rows, columns, static_cast<int>(edge));
        for (int repeat = 0; repeat < 40; ++repeat) check_pixels(check, rows, columns, edge);
      }
    }
  }

  for (const std::size_t columns : run_lengths()) {
    for (const std::size_t rows : {1U, 2U, 3U, 7U}) {
      for (const Edge edge : kEdges) {
        if (columns == 0) continue;
        describe_case("averages of %zu rows of %zu, edge %d", rows, columns, static_cast<int>(edge));
        for (int repeat = 0; repeat < 12; ++repeat) check_plane(check, rows, columns, edge);
      }
    }
  }

  for (const std::size_t count : run_lengths()) {
    for (const std::size_t rows : {1U, 2U, 5U}) {
      for (const Edge edge : kEdges) {
        if (count == 0) continue;
        describe_case("extreme floats, %zu rows of %zu, edge %d", rows, count, static_cast<int>(edge));
        for (int repeat = 0; repeat < 12; ++repeat) check_extremes(check, rows, count, edge);
      }
    }
  }

  const Shape shapes[] = {{1, 1, 1, 1}, {1, 25, 1, 1}, {1, 25, 7, 1}, {3, 3, 1, 1}, {3, 3, 16, 1},
                          {2, 4, 5, 3}, {1, 0, 1, 1},  {0, 2, 1, 1},  {2, 70, 1, 2}};
  for (const Shape& shape : shapes) {
    for (const std::size_t count : run_lengths()) {
      if (count == 0) continue;
      for (const Edge edge : kEdges) {
        for (const std::ptrdiff_t step : {1, 2}) {
          describe_case("float pool, %zu rows of %zu taps, pixels of %zu, dilation %zu, step %td, count %zu, edge %d",
                        shape.rows, shape.taps, shape.pixel, shape.dilation, step, count, static_cast<int>(edge));
          for (int repeat = 0; repeat < 6; ++repeat) check_windows(check, shape, step, count, edge);
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
