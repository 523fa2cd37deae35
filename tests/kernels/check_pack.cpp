#include <algorithm>
#include <array>
#include <cstring>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

std::vector<std::uint8_t> draw_codes(Check& check, std::size_t count) {
  std::vector<std::uint8_t> codes(count);
  const bool saturated = check.one_in(4);
  for (std::uint8_t& code : codes) code = saturated ? 255 : static_cast<std::uint8_t>(check.below(256));
  return codes;
}

void check_copy(Check& check, std::size_t count, Edge edge) {
  const std::vector<std::uint8_t> input = draw_codes(check, count);
  const std::uint8_t flip = check.flip();
  std::vector<std::uint8_t> expected(count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = static_cast<std::uint8_t>(input[i] ^ flip);
  const GuardedBuffer<std::uint8_t> guarded_input(input, edge), output(count, edge);
  describe_case("pack copy, count %zu, edge %d", count, static_cast<int>(edge));
  check.table.pack->copy(guarded_input.data(), count, flip, output.data());
  check.equal(output, expected);
}

// Outputs at every distance from a cache line.
void check_stream(Check& check, std::size_t count, Edge edge) {
  const std::vector<std::uint8_t> input = draw_codes(check, count);
  const GuardedBuffer<std::uint8_t> guarded_input(input, edge), output(count, edge);
  describe_case("pack stream, count %zu, edge %d", count, static_cast<int>(edge));
  check.table.pack->stream(guarded_input.data(), count, output.data());
  check.equal(output, input);
}

void check_spread(Check& check, std::size_t rows, std::size_t piece, std::size_t count, Edge edge) {
  const std::size_t input_step = check.below(piece + 5), bytes = rows * piece;
  const std::size_t output_step = check.one_of<std::size_t>({bytes, bytes + check.below(70), (bytes + 63) / 64 * 64});
  const std::size_t input_bytes = count == 0 ? 0 : (count - 1) * input_step + piece;
  const std::vector<std::uint8_t> codes = draw_codes(check, rows * input_bytes);
  std::vector<std::uint8_t> expected(count * output_step);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < count * piece; ++i) {
      expected[i / piece * output_step + r * piece + i % piece] =
          codes[r * input_bytes + i / piece * input_step + i % piece];
    }
  }
  const GuardedBuffer<std::uint8_t> input(codes, edge);
  std::vector<const std::uint8_t*> inputs(rows);
  for (std::size_t r = 0; r < rows; ++r) inputs[r] = input.data() + r * input_bytes;
  const GuardedBuffer<std::uint8_t> output(expected.size(), edge);
  describe_case("pack spread, %zu rows of pieces of %zu, count %zu, steps %zu and %zu, edge %d", rows, piece, count,
                input_step, output_step, static_cast<int>(edge));
  check.table.pack->spread({.inputs = inputs.data(),
                            .rows = rows,
                            .input_step = input_step,
                            .count = count,
                            .piece_bytes = piece,
                            .output = output.data(),
                            .output_step = output_step});
  for (std::size_t i = 0; i < count; ++i) {  // behind the pieces it has any value
    std::memset(output.data() + i * output_step + bytes, 0, output_step - bytes);
  }
  check.equal(output, expected);
}

void check_interleave(Check& check, std::size_t count, Edge edge) {
  const std::array<std::vector<std::uint8_t>, 4> input = {draw_codes(check, count), draw_codes(check, count),
                                                          draw_codes(check, count), draw_codes(check, count)};
  std::vector<std::uint8_t> expected(4 * count);
  for (std::size_t i = 0; i < 4 * count; ++i) expected[i] = input[i % 4][i / 4];
  const GuardedBuffer<std::uint8_t> row0(input[0], edge), row1(input[1], edge), row2(input[2], edge),
      row3(input[3], edge), output(expected.size(), edge);
  describe_case("pack interleave, count %zu, edge %d", count, static_cast<int>(edge));
  check.table.pack->interleave(
      {.rows = {row0.data(), row1.data(), row2.data(), row3.data()}, .count = count, .output = output.data()});
  check.equal(output, expected);
}

void check_interleave_panels(Check& check, std::size_t count, Edge edge) {
  const std::size_t nr = check.one_of<std::size_t>({16, 32, 48}), stride = nr * 4 * (1 + check.below(3));
  const std::array<std::vector<std::uint8_t>, 4> input = {draw_codes(check, count), draw_codes(check, count),
                                                          draw_codes(check, count), draw_codes(check, count)};
  const std::uint8_t flip = check.flip();
  const auto place = [&](std::size_t i) { return i / nr * stride + i % nr * 4; };
  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(count == 0 ? 0 : place(count - 1) + 4);
  for (std::size_t i = 0; i < 4 * count; ++i) {
    expected[place(i / 4) + i % 4] = static_cast<std::uint8_t>(input[i % 4][i / 4] ^ flip);
  }
  const GuardedBuffer<std::uint8_t> row0(input[0], edge), row1(input[1], edge), row2(input[2], edge),
      row3(input[3], edge), output(expected.size(), edge);
  describe_case("pack interleave_panels, count %zu, nr %zu, stride %zu, edge %d", count, nr, stride,
                static_cast<int>(edge));
  check.table.pack->interleave_panels({.rows = {row0.data(), row1.data(), row2.data(), row3.data()},
                                       .count = count,
                                       .flip = flip,
                                       .nr = nr,
                                       .panel_stride = stride,
                                       .output = output.data()});
  check.equal(output, expected);
}

// Columns that are apart, overlap or are one.
void check_gather_groups(Check& check, std::size_t columns, std::size_t k, Edge edge) {
  const std::size_t column_stride = check.one_in(4) ? check.below(2) * 4 : k + check.below(3);
  const std::size_t group_stride = 4 * (columns + check.below(3));
  const std::size_t groups = (k + 3) / 4;
  const std::vector<std::uint8_t> input =
      draw_codes(check, columns == 0 || k == 0 ? 0 : (columns - 1) * column_stride + k);
  const std::uint8_t flip = check.flip();
  std::vector<std::uint8_t> expected =
      canaries<std::uint8_t>(columns == 0 || k == 0 ? 0 : (groups - 1) * group_stride + columns * 4);
  for (std::size_t column = 0; column < columns; ++column) {
    for (std::size_t i = 0; i < groups * 4; ++i) {
      expected[i / 4 * group_stride + column * 4 + i % 4] =
          i < k ? static_cast<std::uint8_t>(input[column * column_stride + i] ^ flip) : std::uint8_t{0};
    }
  }
  const GuardedBuffer<std::uint8_t> guarded_input(input, edge), output(expected.size(), edge);
  describe_case("pack gather_groups, %zu columns, k %zu, edge %d", columns, k, static_cast<int>(edge));
  check.table.pack->gather_groups({.columns = guarded_input.data(),
                                   .column_stride = column_stride,
                                   .count = columns,
                                   .k = k,
                                   .flip = flip,
                                   .output = output.data(),
                                   .group_stride = group_stride});
  check.equal(output, expected);
}

void check_transpose(Check& check, std::size_t rows, std::size_t columns, std::size_t input_gap, std::size_t output_gap,
                     Edge edge) {
  const std::size_t input_stride = columns + input_gap, output_stride = rows + output_gap;
  const std::vector<std::uint8_t> input = draw_codes(check, rows == 0 ? 0 : (rows - 1) * input_stride + columns);
  const std::uint8_t flip = check.flip();
  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(columns == 0 ? 0 : (columns - 1) * output_stride + rows);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      expected[column * output_stride + row] = static_cast<std::uint8_t>(input[row * input_stride + column] ^ flip);
    }
  }
  const GuardedBuffer<std::uint8_t> guarded_input(input, edge), output(expected.size(), edge);
  describe_case("pack transpose, %zu x %zu, gaps %zu and %zu, edge %d", rows, columns, input_gap, output_gap,
                static_cast<int>(edge));
  check.table.pack->transpose({.input = guarded_input.data(),
                               .input_row_stride = input_stride,
                               .rows = rows,
                               .columns = columns,
                               .flip = flip,
                               .output = output.data(),
                               .output_row_stride = output_stride});
  check.equal(output, expected);
}

void check_sum_rows(Check& check, std::size_t m, std::size_t k, std::size_t gap, bool is_signed, Edge edge) {
  const std::size_t stride = k + gap;
  std::vector<std::size_t> offsets(check.below(4));
  for (std::size_t& offset : offsets) offset = check.below(2 * k + 1);
  const std::size_t row_end = offsets.empty() ? 0 : *std::max_element(offsets.begin(), offsets.end()) + k;
  const std::vector<std::uint8_t> a = draw_codes(check, m == 0 ? 0 : (m - 1) * stride + row_end);
  std::vector<std::int32_t> expected(m);
  for (std::size_t row = 0; row < m; ++row) {
    std::int64_t sum = 0;
    for (const std::size_t offset : offsets) {
      for (std::size_t i = 0; i < k; ++i) {
        const std::uint8_t code = a[row * stride + offset + i];
        sum += is_signed ? static_cast<std::int8_t>(code) : code;
      }
    }
    expected[row] = reference_wrap(sum);
  }
  const GuardedBuffer<std::uint8_t> guarded_a(a, edge);
  const GuardedBuffer<std::int32_t> sums(m, edge);
  describe_case("pack sum_rows, m %zu, segments %zu, k %zu, gap %zu, signed %d, edge %d", m, offsets.size(), k, gap,
                is_signed, static_cast<int>(edge));
  check.table.pack->sum_rows({.a = guarded_a.data(),
                              .a_row_stride = stride,
                              .a_offsets = offsets.data(),
                              .segments = offsets.size(),
                              .m = m,
                              .k = k,
                              .a_is_signed = is_signed},
                             sums.data());
  check.equal(sums, expected);
}

// 255 * k beyond int32.
void check_wrapping_sums(Check& check) {
  constexpr std::size_t kLong = 8421508;
  const std::vector<std::uint8_t> codes(kLong, 255);
  const std::vector<std::int32_t> expected = {reference_wrap(std::int64_t{255} * kLong)};
  const GuardedBuffer<std::int32_t> of_row(1, Edge::end);
  describe_case("pack: sums beyond int32");
  check.table.pack->sum_rows({.a = codes.data(), .a_row_stride = kLong, .a_offsets = &kOnlySegment, .m = 1, .k = kLong},
                             of_row.data());
  check.equal(of_row, expected);
}

}  // namespace

void check_pack(Check& check) {
  for (const Edge edge : kEdges) {
    for (const std::size_t count : run_lengths()) {
      check_copy(check, count, edge);
      check_interleave(check, count, edge);
      check_stream(check, count, edge);
      check_interleave_panels(check, count, edge);
      for (const std::size_t pieces : Sizes{0, 1, 2, 9}) {
        for (const std::size_t rows : Sizes{1, 2, 3, 7, 16}) check_spread(check, rows, count, pieces, edge);
      }
      for (const std::size_t columns : Sizes{1, 7, 8, 15, 16, 17, 40}) check_gather_groups(check, columns, count, edge);
    }
    for (const std::size_t rows : Sizes{1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 97, 131}) {
      for (const std::size_t columns : Sizes{1,  2,  3,  4,  5,  7,  15, 16, 17, 31, 32, 33, 34,  35,  39, 40,
                                             49, 55, 56, 63, 64, 65, 66, 67, 71, 72, 87, 88, 129, 140, 196}) {
        check_transpose(check, rows, columns, 0, 0, edge);
        check_transpose(check, rows, columns, 1 + check.below(9), 1 + check.below(9), edge);
        // Input rows further apart than the output's, and some at a distance that a kernel may care for.
        check_transpose(check, rows, columns, rows + check.below(9), 0, edge);
        check_transpose(check, rows, columns, 1024 - columns, check.below(2), edge);
      }
    }
    for (std::size_t k = 0; k <= 268; k += k < 70 ? 1 : 3) {
      for (const std::size_t m : Sizes{0, 1, 2, 5, 8, 9, 19}) {
        for (const bool is_signed : {false, true}) check_sum_rows(check, m, k, k % 3, is_signed, edge);
      }
    }
  }
  check_wrapping_sums(check);
}

}  // namespace dmlcpu::test
