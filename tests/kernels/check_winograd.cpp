#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

constexpr std::int64_t kInput[6][6] = {{4, 0, -5, 0, 1, 0},  {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
                                       {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
constexpr std::int64_t kFilter[6][3] = {{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}};

// An element of T x T', where element(i, j) is x.
template <std::size_t inputs, class Element>
std::int64_t transformed(const std::int64_t (&matrix)[6][inputs], std::size_t row, std::size_t column,
                         const Element& element) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < inputs; ++i) {
    for (std::size_t j = 0; j < inputs; ++j) sum += matrix[row][i] * matrix[column][j] * element(i, j);
  }
  return sum;
}

template <class T>
std::size_t odd_lines(std::size_t elements) {
  constexpr std::size_t kOfLine = 64 / sizeof(T);
  return (((elements + kOfLine - 1) / kOfLine) | 1) * kOfLine;
}

// Codes that are all at an end of their range, alike or in turns, or any.
std::vector<std::uint8_t> codes(Check& check, std::size_t count) {
  std::vector<std::uint8_t> values(count);
  const std::size_t kind = check.below(4);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = kind == 0   ? check.code()
                : kind == 1 ? 0x80
                : kind == 2 ? 0x7f
                            : check.one_of<std::uint8_t>({0x80, 0x7f});
  }
  return values;
}

void check_input(Check& check, std::size_t tiles, std::size_t channels, Edge edge) {
  const std::size_t pixel_stride = channels + check.below(3), columns = 4 * tiles + 2;
  const std::size_t row_stride = columns * pixel_stride + check.below(5);
  const std::size_t tile_stride = channels + 16 * check.below(2);
  const std::size_t plane_stride = tiles * tile_stride + check.below(3);
  const GuardedBuffer<std::uint8_t> input(codes(check, 5 * row_stride + (columns - 1) * pixel_stride + channels), edge);
  const GuardedBuffer<std::int16_t> planes(35 * plane_stride + (tiles - 1) * tile_stride + channels, edge);
  check.table.winograd->transform_input({.codes = input.data(),
                                         .pixel_stride = pixel_stride,
                                         .row_stride = row_stride,
                                         .tiles = tiles,
                                         .channels = channels,
                                         .planes = planes.data(),
                                         .plane_stride = plane_stride,
                                         .tile_stride = tile_stride});
  auto expected = canaries<std::int16_t>(planes.size());
  for (std::size_t place = 0; place < kWinogradPlaces; ++place) {
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const auto code = [&](std::size_t row, std::size_t column) {
          return static_cast<std::int8_t>(
              input.data()[row * row_stride + (4 * tile + column) * pixel_stride + channel]);
        };
        expected[place * plane_stride + tile * tile_stride + channel] =
            static_cast<std::int16_t>(transformed(kInput, place / 6, place % 6, code));
      }
    }
  }
  check.equal(planes, expected);
}

void check_filter(Check& check, std::size_t channels, bool has_zero_point, Edge edge) {
  const std::size_t nr = check.table.winograd->nr, tap_stride = (channels + 16 * check.below(2)) * nr;
  const std::size_t plane_stride = odd_lines<std::int16_t>(channels * nr);
  const GuardedBuffer<std::uint8_t> filter(codes(check, 8 * tap_stride + channels * nr), edge);
  std::vector<std::int32_t> drawn(nr);
  for (std::int32_t& value : drawn) value = static_cast<std::int8_t>(check.code());
  const GuardedBuffer<std::int32_t> zero_point(drawn, edge);
  const GuardedBuffer<std::int16_t> planes(35 * plane_stride + channels * nr, edge);
  check.table.winograd->transform_filter({.filter = filter.data(),
                                          .tap_stride = tap_stride,
                                          .channels = channels,
                                          .zero_point = has_zero_point ? zero_point.data() : nullptr,
                                          .planes = planes.data(),
                                          .plane_stride = plane_stride});
  auto expected = canaries<std::int16_t>(planes.size());
  for (std::size_t place = 0; place < kWinogradPlaces; ++place) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      for (std::size_t output = 0; output < nr; ++output) {
        const auto difference = [&](std::size_t row, std::size_t column) {
          const std::uint8_t code =
              filter.data()[(row * 3 + column) * tap_stride + (channel / 4 * nr + output) * 4 + channel % 4];
          return static_cast<std::int8_t>(code) - (has_zero_point ? drawn[output] : 0);
        };
        expected[place * plane_stride + (channel / 2 * nr + output) * 2 + channel % 2] =
            static_cast<std::int16_t>(transformed(kFilter, place / 6, place % 6, difference));
      }
    }
  }
  check.equal(planes, expected);
}

// Numbers up to the bounds that winograd.h proves, all alike or any.
std::vector<std::int16_t> numbers(Check& check, std::size_t count, std::int32_t most) {
  std::vector<std::int16_t> values(count);
  const std::size_t kind = check.below(3);
  for (std::int16_t& value : values) {
    const auto any = static_cast<std::int32_t>(check.below(static_cast<std::size_t>(2 * most + 1))) - most;
    value = static_cast<std::int16_t>(kind == 0 ? any : kind == 1 ? most : -most);
  }
  return values;
}

void check_products(Check& check, std::size_t tiles, std::size_t channels, Edge edge) {
  const std::size_t nr = check.table.winograd->nr;
  const std::size_t tile_stride = channels + 2 * check.below(3), a_stride = tiles * tile_stride + 2 * check.below(3);
  const std::size_t b_stride = odd_lines<std::int16_t>(channels * nr), stride = odd_lines<std::int32_t>(tiles * nr);
  const GuardedBuffer<std::int16_t> a(numbers(check, 35 * a_stride + (tiles - 1) * tile_stride + channels, 12800),
                                      edge);
  const GuardedBuffer<std::int16_t> b(numbers(check, 35 * b_stride + channels * nr, 12495), edge);
  const GuardedBuffer<std::int32_t> products(35 * stride + tiles * nr, edge);
  check.table.winograd->multiply({.activations = a.data(),
                                  .activations_plane_stride = a_stride,
                                  .activations_tile_stride = tile_stride,
                                  .filter = b.data(),
                                  .filter_plane_stride = b_stride,
                                  .tiles = tiles,
                                  .channels = channels,
                                  .products = products.data(),
                                  .products_plane_stride = stride});
  auto expected = canaries<std::int32_t>(products.size());
  for (std::size_t place = 0; place < kWinogradPlaces; ++place) {
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      for (std::size_t output = 0; output < nr; ++output) {
        std::int64_t sum = 0;
        for (std::size_t channel = 0; channel < channels; ++channel) {
          sum += std::int64_t{a.data()[place * a_stride + tile * tile_stride + channel]} *
                 b.data()[place * b_stride + (channel / 2 * nr + output) * 2 + channel % 2];
        }
        expected[place * stride + tile * nr + output] = reference_wrap(sum);
      }
    }
  }
  check.equal(products, expected);
}

struct OutputShape {
  std::size_t tiles, rows, columns, channels;
  bool has_before, has_after;
};

// The sums that are to be found, up to the bound of 2^25, and the numbers that they are found from: those of windows
// and tiles that have all they need in one channel after another.
struct Sums {
  Sums(Check& check, std::size_t tiles, std::size_t nr)
      : stride(odd_lines<std::int32_t>(tiles * nr)), products(35 * stride + tiles * nr), sums(tiles * 16 * nr) {
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      for (std::size_t output = 0; output < nr; ++output) draw(check, tile, output, nr);
    }
  }

  void draw(Check& check, std::size_t tile, std::size_t output, std::size_t nr) {
    // As many channels alike as the bound allows, or one, or any.
    const std::int64_t channels = check.one_of<std::int64_t>({1, 7, 224});
    const auto x = codes(check, 36), w = codes(check, 9);
    const auto code = [&](std::size_t row, std::size_t column) {
      return static_cast<std::int8_t>(x[row * 6 + column]);
    };
    const auto tap = [&](std::size_t row, std::size_t column) { return static_cast<std::int8_t>(w[row * 3 + column]); };
    for (std::size_t place = 0; place < kWinogradPlaces; ++place) {
      products[place * stride + tile * nr + output] = reference_wrap(
          channels * transformed(kInput, place / 6, place % 6, code) * transformed(kFilter, place / 6, place % 6, tap));
    }
    for (std::size_t pixel = 0; pixel < 16; ++pixel) {
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < 9; ++i) sum += code(pixel / 4 + i / 3, pixel % 4 + i % 3) * tap(i / 3, i % 3);
      sums[(tile * 16 + pixel) * nr + output] = channels * sum;
    }
  }

  std::size_t stride;
  std::vector<std::int32_t> products;
  std::vector<std::int64_t> sums;
};

template <class T, class Draw>
std::vector<T> drawn(std::size_t count, const Draw& draw) {
  std::vector<T> values(count);
  for (T& value : values) value = draw();
  return values;
}

void check_output(Check& check, const OutputShape& shape, Edge edge) {
  const std::size_t nr = check.table.winograd->nr, of_tile = 16 * nr;
  Sums sums(check, shape.tiles, nr);
  const GuardedBuffer<std::int32_t> products(sums.products, edge);
  const auto word = [&] { return static_cast<std::int32_t>(check.word()); };
  const auto before_values = drawn<std::int32_t>(shape.tiles * of_tile, word),
             offset_values = drawn<std::int32_t>(nr, word);
  const GuardedBuffer<std::int32_t> before(before_values, edge), offset(offset_values, edge);
  const GuardedBuffer<std::int32_t> after(shape.has_after ? shape.tiles * of_tile : 0, edge);
  const bool in_place = shape.has_before && shape.has_after && check.one_in(2);
  if (in_place) std::copy(before_values.begin(), before_values.end(), after.data());
  const bool below_1 = check.one_in(2);
  const GuardedBuffer<float> multiplier(
      drawn<float>(nr, [&] { return below_1 || check.one_in(2) ? 0.00001F * check.zero_point() : check.scale(); }),
      edge);
  const std::size_t pixel_stride = shape.channels + check.below(3);
  const std::size_t row_stride = shape.columns * pixel_stride + check.below(5);
  const GuardedBuffer<std::uint8_t> output(
      shape.has_after ? 0 : (shape.rows - 1) * row_stride + (shape.columns - 1) * pixel_stride + shape.channels, edge);
  const float zero_point = check.zero_point();
  const std::uint8_t flip = check.flip();
  check.table.winograd->transform_output({.products = products.data(),
                                          .plane_stride = sums.stride,
                                          .tiles = shape.tiles,
                                          .before = in_place           ? after.data()
                                                    : shape.has_before ? before.data()
                                                                       : nullptr,
                                          .offset = offset.data(),
                                          .after = shape.has_after ? after.data() : nullptr,
                                          .multiplier = multiplier.data(),
                                          .output_zero_point = zero_point,
                                          .flip = flip,
                                          .rows = shape.rows,
                                          .columns = shape.columns,
                                          .channels = shape.channels,
                                          .output = output.data(),
                                          .pixel_stride = pixel_stride,
                                          .row_stride = row_stride});
  auto expected_after = canaries<std::int32_t>(after.size());
  auto expected_output = canaries<std::uint8_t>(output.size());
  for (std::size_t i = 0; i < sums.sums.size(); ++i) {
    const std::size_t row = i / nr % 16 / 4, column = i / of_tile * 4 + i / nr % 4, channel = i % nr;
    const std::int32_t sum =
        reference_wrap(sums.sums[i] + (shape.has_before ? before_values[i] : offset_values[channel]));
    if (shape.has_after) {
      expected_after[i] = sum;
    } else if (row < shape.rows && column < shape.columns && channel < shape.channels) {
      expected_output[row * row_stride + column * pixel_stride + channel] =
          reference_code(static_cast<float>(sum) * multiplier.data()[channel], zero_point, flip);
    }
  }
  check.equal(after, expected_after);
  check.equal(output, expected_output);
}

}  // namespace

void check_winograd(Check& check) {
  for (const Edge edge : kEdges) {
    for (const std::size_t channels : Sizes{4, 16, 20, 40, 64, 112}) {
      for (const bool has_zero_point : {false, true}) {
        describe_case("filter of %zu channels, zero points %d, edge %d", channels, has_zero_point,
                      static_cast<int>(edge));
        check_filter(check, channels, has_zero_point, edge);
      }
    }
    for (const std::size_t channels : Sizes{16, 32, 48, 64, 112}) {
      for (std::size_t tiles = 1; tiles <= 3; ++tiles) {
        describe_case("input of %zu tiles, %zu channels, edge %d", tiles, channels, static_cast<int>(edge));
        check_input(check, tiles, channels, edge);
      }
    }
    for (std::size_t tiles = 1; tiles <= 30; ++tiles) {
      const std::size_t channels = 4 * (1 + check.below(12));
      describe_case("products of %zu tiles, %zu channels, edge %d", tiles, channels, static_cast<int>(edge));
      check_products(check, tiles, channels, edge);
    }
    for (std::size_t channels = 1; channels <= check.table.winograd->nr; ++channels) {
      for (const std::size_t columns : Sizes{1, 2, 3, 4, 5, 7, 8, 10}) {
        const OutputShape shape = {(columns + 3) / 4, 1 + check.below(4), columns,
                                   channels,          check.one_in(2),    check.one_in(3)};
        describe_case("output of %zu tiles, %zu rows, %zu columns, %zu channels, before %d, after %d, edge %d",
                      shape.tiles, shape.rows, columns, channels, shape.has_before, shape.has_after,
                      static_cast<int>(edge));
        check_output(check, shape, edge);
      }
    }
  }
}

}  // namespace dmlcpu::test
