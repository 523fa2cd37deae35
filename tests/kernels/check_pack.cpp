#include <array>

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

void check_interleave(Check& check, std::size_t count, std::size_t run, Edge edge) {
  const std::array<std::vector<std::uint8_t>, 4> input = {draw_codes(check, count), draw_codes(check, count),
                                                          draw_codes(check, count), draw_codes(check, count)};
  const std::uint8_t flip = check.flip();
  const std::size_t gap = run == kOneRun ? 0 : 4 * check.below(3), run_bytes = run * 4 + gap;
  const std::size_t runs = count == 0 ? 0 : (count - 1) / run;
  std::vector<std::uint8_t> expected = canaries<std::uint8_t>(4 * count + runs * gap);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t r = 0; r < 4; ++r) {
      expected[i / run * run_bytes + i % run * 4 + r] = static_cast<std::uint8_t>(input[r][i] ^ flip);
    }
  }
  const GuardedBuffer<std::uint8_t> row0(input[0], edge), row1(input[1], edge), row2(input[2], edge),
      row3(input[3], edge), output(expected.size(), edge);
  describe_case("pack interleave, count %zu, run %zu, gap %zu, edge %d", count, run, gap, static_cast<int>(edge));
  check.table.pack->interleave({.rows = {row0.data(), row1.data(), row2.data(), row3.data()},
                                .count = count,
                                .flip = flip,
                                .output = output.data(),
                                .run = run,
                                .run_bytes = run_bytes});
  check.equal(output, expected);
}

void check_sum_rows(Check& check, std::size_t m, std::size_t k, std::size_t gap, Edge edge) {
  const std::size_t stride = k + gap;
  const std::vector<std::uint8_t> a = draw_codes(check, m == 0 ? 0 : (m - 1) * stride + k);
  std::vector<std::int32_t> expected(m);
  for (std::size_t row = 0; row < m; ++row) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < k; ++i) sum += a[row * stride + i];
    expected[row] = reference_wrap(sum);
  }
  const GuardedBuffer<std::uint8_t> guarded_a(a, edge);
  const GuardedBuffer<std::int32_t> sums(m, edge);
  describe_case("pack sum_rows, m %zu, k %zu, gap %zu, edge %d", m, k, gap, static_cast<int>(edge));
  check.table.pack->sum_rows(guarded_a.data(), stride, m, k, sums.data());
  check.equal(sums, expected);
}

void check_sum_columns(Check& check, std::size_t nr, std::size_t k, Edge edge) {
  const std::vector<std::uint8_t> panel = draw_codes(check, nr * k);
  std::vector<std::int32_t> expected(nr);
  for (std::size_t column = 0; column < nr; ++column) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < k; ++i) sum += panel[(i / 4 * nr + column) * 4 + i % 4];
    expected[column] = reference_wrap(sum);
  }
  const GuardedBuffer<std::uint8_t> guarded_panel(panel, edge);
  const GuardedBuffer<std::int32_t> sums(nr, edge);
  describe_case("pack sum_columns, nr %zu, k %zu, edge %d", nr, k, static_cast<int>(edge));
  check.table.pack->sum_columns(guarded_panel.data(), nr, k, sums.data());
  check.equal(sums, expected);
}

// 255 * k beyond int32.
void check_wrapping_sums(Check& check) {
  constexpr std::size_t kLong = 8421508;
  const std::vector<std::uint8_t> codes(kLong, 255);
  const std::vector<std::int32_t> expected = {reference_wrap(std::int64_t{255} * kLong)};
  const GuardedBuffer<std::int32_t> of_row(1, Edge::end), of_column(1, Edge::end);
  describe_case("pack: sums beyond int32");
  check.table.pack->sum_rows(codes.data(), kLong, 1, kLong, of_row.data());
  check.equal(of_row, expected);
  check.table.pack->sum_columns(codes.data(), 1, kLong, of_column.data());
  check.equal(of_column, expected);
}

}  // namespace

void check_pack(Check& check) {
  for (const Edge edge : kEdges) {
    for (const std::size_t count : run_lengths()) {
      check_copy(check, count, edge);
      for (const std::size_t run : {std::size_t{16}, std::size_t{32}, std::size_t{48}, kOneRun}) {
        check_interleave(check, count, run, edge);
      }
    }
    for (std::size_t k = 0; k <= 268; k += 4) {
      for (const std::size_t m : {0, 1, 2, 5}) check_sum_rows(check, m, k, k % 3, edge);
      for (const std::size_t nr : {1, 4, 7, 8, 9, 15, 16, 17, 24, 32, 33, 48, 64}) {
        check_sum_columns(check, nr, k, edge);
      }
    }
  }
  check_wrapping_sums(check);
}

}  // namespace dmlcpu::test
