#include <algorithm>

#include "check.h"
#include "reference.h"

namespace dmlcpu::test {
namespace {

std::vector<std::uint8_t> draw_bytes(Check& check, std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = check.code();
  return bytes;
}

std::uint8_t nibble(const std::vector<std::uint8_t>& packed, std::size_t i) {
  return i % 2 == 0 ? packed[i / 2] & 15 : packed[i / 2] >> 4;
}

std::uint8_t draw_flip(Check& check) { return check.one_in(2) ? 8 : 0; }

void check_unpack(Check& check, std::size_t count, Edge edge) {
  const std::vector<std::uint8_t> input = draw_bytes(check, (count + 1) / 2);
  const std::uint8_t flip = draw_flip(check);
  std::vector<std::uint8_t> expected(count);
  for (std::size_t i = 0; i < count; ++i) expected[i] = nibble(input, i) ^ flip;
  const GuardedBuffer<std::uint8_t> guarded_input(input, edge), output(count, edge);
  describe_case("nibbles unpack, count %zu, flip %d, edge %d", count, flip, static_cast<int>(edge));
  check.table.nibbles->unpack(guarded_input.data(), count, flip, output.data());
  check.equal(output, expected);
}

void check_pack(Check& check, std::size_t count, Edge edge) {
  const std::vector<std::uint8_t> input = draw_bytes(check, count);
  const std::uint8_t flip = draw_flip(check);
  std::vector<std::uint8_t> expected = canaries<std::uint8_t>((count + 1) / 2);
  for (std::size_t i = 0; i < count; ++i) {
    const int code = std::min<int>(input[i], 15) ^ flip;
    const int byte = expected[i / 2];
    expected[i / 2] = static_cast<std::uint8_t>(i % 2 == 0 ? (byte & 0xf0) | code : (byte & 0x0f) | code << 4);
  }
  const GuardedBuffer<std::uint8_t> guarded_input(input, edge), output(expected.size(), edge);
  describe_case("nibbles pack, count %zu, flip %d, edge %d", count, flip, static_cast<int>(edge));
  check.table.nibbles->pack(guarded_input.data(), count, flip, output.data());
  check.equal(output, expected);
}

void convert(float value, float& output) { output = value; }
void convert(float value, std::uint16_t& output) { output = reference_narrow(value); }

template <class Output>
void check_rows(Check& check, NibbleRowsFunction kernel, std::size_t rows, std::size_t columns, Edge edge) {
  const std::vector<std::uint8_t> input = draw_bytes(check, rows * columns / 2);
  const std::uint8_t flip = draw_flip(check);
  std::vector<float> scale(rows), zero_point(rows);
  for (float& value : scale) value = check.scale();
  for (float& value : zero_point) value = static_cast<float>(check.below(16));
  std::vector<Output> expected(rows * columns);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float code = static_cast<float>(nibble(input, i) ^ flip);
    convert((code - zero_point[i / columns]) * scale[i / columns], expected[i]);
  }
  const GuardedBuffer<std::uint8_t> guarded_input(input, edge);
  const GuardedBuffer<float> guarded_scale(scale, edge), guarded_zero_point(zero_point, edge);
  const GuardedBuffer<Output> output(expected.size(), edge);
  describe_case("nibbles dequantize to %zu bytes, %zu rows of %zu, flip %d, edge %d", sizeof(Output), rows, columns,
                flip, static_cast<int>(edge));
  kernel({.input = guarded_input.data(),
          .output = output.data(),
          .rows = rows,
          .columns = columns,
          .scale = guarded_scale.data(),
          .zero_point = guarded_zero_point.data(),
          .flip = flip});
  check.equal(output, expected);
}

}  // namespace

void check_nibbles(Check& check) {
  for (const Edge edge : kEdges) {
    for (const std::size_t count : run_lengths()) {
      check_unpack(check, count, edge);
      check_pack(check, count, edge);
    }
    for (const std::size_t rows : Sizes{0, 1, 2, 3, 17}) {
      for (std::size_t columns = kNibbleColumns; columns <= 5 * kNibbleColumns; columns += kNibbleColumns) {
        for (int repeat = 0; repeat < 4; ++repeat) {
          check_rows<float>(check, check.table.nibbles->dequantize_float32, rows, columns, edge);
          check_rows<std::uint16_t>(check, check.table.nibbles->dequantize_float16, rows, columns, edge);
        }
      }
    }
  }
}

}  // namespace dmlcpu::test
