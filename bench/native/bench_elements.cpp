// The other kernels, whose work is counted in elements.
#include <algorithm>
#include <string>

#include "kernel_bench.h"

namespace dmlcpu {
namespace {

constexpr std::size_t kCount = 16384, kPoolChannels = 64;

void bench_nibbles(const KernelBench& bench) {
  bench.report("nibbles unpack", kCount, "elements",
               [&] { bench.table.nibbles->unpack(bench.a.data(), kCount, 8, bench.c.data()); });
  bench.report("nibbles pack", kCount, "elements",
               [&] { bench.table.nibbles->pack(bench.a.data(), kCount, 8, bench.c.data()); });
  const NibbleRows rows = {.input = bench.a.data(),
                           .output = bench.c.data(),
                           .rows = kCount / 32,
                           .columns = 32,
                           .scale = floats(bench.parameters),
                           .zero_point = floats(bench.parameters),
                           .flip = 8};
  const std::size_t count = rows.rows * rows.columns;
  bench.report("nibbles dequantize to float32, rows of 32", count, "elements",
               [&] { bench.table.nibbles->dequantize_float32(rows); });
  bench.report("nibbles dequantize to float16, rows of 32", count, "elements",
               [&] { bench.table.nibbles->dequantize_float16(rows); });
}

void bench_pack(const KernelBench& bench) {
  bench.report("pack copy", kCount, "elements",
               [&] { bench.table.pack->copy(bench.a.data(), kCount, 0x80, bench.c.data()); });
  const InterleaveRun run = {
      .rows = {bench.a.data(), bench.a.data() + kCount, bench.a.data() + 2 * kCount, bench.a.data() + 3 * kCount},
      .count = kCount,
      .output = bench.c.data()};
  bench.report("pack interleave", 4 * kCount, "elements", [&] { bench.table.pack->interleave(run); });
  const PanelRun panels = {.rows = {run.rows[0], run.rows[1], run.rows[2], run.rows[3]},
                           .count = 256,
                           .flip = 0x80,
                           .nr = 32,
                           .panel_stride = 4096,
                           .output = bench.c.data()};
  bench.report("pack interleave panels", 4UL * 256, "elements", [&] { bench.table.pack->interleave_panels(panels); });
  const GroupBlock groups = {.columns = bench.a.data(),
                             .column_stride = 512,
                             .count = 32,
                             .k = 512,
                             .flip = 0x80,
                             .output = bench.c.data(),
                             .group_stride = 128};
  bench.report("pack gather groups", 32UL * 512, "elements", [&] { bench.table.pack->gather_groups(groups); });
  for (const std::size_t rows : {3U, 64U, 96U}) {
    const std::size_t columns = kCount / 64;
    const TransposeBlock block = {.input = bench.a.data(),
                                  .input_row_stride = 3136,
                                  .rows = rows,
                                  .columns = columns,
                                  .flip = 0,
                                  .output = bench.c.data(),
                                  .output_row_stride = rows};
    bench.report("pack transpose " + std::to_string(rows) + " rows", rows * columns, "elements",
                 [&] { bench.table.pack->transpose(block); });
  }
  const SummedRows rows = {.a = bench.a.data(), .a_row_stride = 256, .a_offsets = &kOnlySegment, .m = 64, .k = 256};
  bench.report("pack sum rows", 64UL * 256, "elements", [&] { bench.table.pack->sum_rows(rows, integers(bench.c)); });
}

void bench_quantize(const KernelBench& bench) {
  const float zero_point = 100.0F;
  QuantizeRun run = {.input = bench.parameters.data(),
                     .output = bench.c.data(),
                     .count = kCount,
                     .scale = floats(bench.parameters),
                     .zero_point = &zero_point,
                     .per_element = false,
                     .flip = 0};
  bench.report("quantize float32", kCount, "elements", [&] { bench.table.quantize->divide_float32(run); });
  bench.report("quantize float16", kCount, "elements", [&] { bench.table.quantize->divide_float16(run); });
  bench.report("quantize int32", kCount, "elements", [&] { bench.table.quantize->divide_int32(run); });
  bench.report("quantize float32 by the reciprocal", kCount, "elements",
               [&] { bench.table.quantize->multiply_float32(run); });
  run.per_element = true;
  run.zero_point = floats(bench.parameters);
  bench.report("quantize float32, a scale an element", kCount, "elements",
               [&] { bench.table.quantize->divide_float32(run); });
}

void bench_dequantize(const KernelBench& bench) {
  const float zero_point = 100.0F;
  const DequantizeRun run = {.input = bench.a.data(),
                             .output = bench.c.data(),
                             .count = kCount,
                             .scale = floats(bench.parameters),
                             .zero_point = &zero_point,
                             .per_element = false};
  bench.report("dequantize uint8 to float32", kCount, "elements",
               [&] { bench.table.dequantize->to_float32.uint8(run); });
  bench.report("dequantize int8 to float16", kCount, "elements", [&] { bench.table.dequantize->to_float16.int8(run); });
  bench.report("dequantize int16 to float32", kCount, "elements",
               [&] { bench.table.dequantize->to_float32.int16(run); });
  bench.report("dequantize int32 to float32", kCount, "elements",
               [&] { bench.table.dequantize->to_float32.int32(run); });
  bench.report("dequantize uint32 to float32", kCount, "elements",
               [&] { bench.table.dequantize->to_float32.uint32(run); });
}

// Behind what the kernels read as values.
PoolParameters pool_parameters(const KernelBench& bench) {
  float* zero_point = floats(bench.parameters) + KernelBench::kBytes / sizeof(float) - 2 * kPoolChannels;
  float* scale = zero_point + kPoolChannels;
  std::fill_n(zero_point, kPoolChannels, 100.0F);
  std::fill_n(scale, kPoolChannels, 0.013F);
  return {zero_point, floats(bench.parameters), scale, zero_point};
}

template <class Element>
PoolRun<Element> pool_run(const KernelBench& bench, const Element* input, std::size_t window, std::size_t row_pixels,
                          std::size_t pixels) {
  return {.input = input,
          .taps = {1, window, window},
          .tap_steps = {0, row_pixels * kPoolChannels, kPoolChannels},
          .count = static_cast<float>(window * window),
          .pixels = pixels,
          .pixel_step = kPoolChannels,
          .channels = kPoolChannels,
          .parameters = pool_parameters(bench),
          .flip = 0,
          .output = bench.c.data(),
          .output_pixel_step = kPoolChannels};
}

void bench_pool(const KernelBench& bench) {
  static constexpr std::size_t pixels = 28;
  const PoolRun<std::uint8_t> plane = pool_run<std::uint8_t>(bench, bench.a.data(), 7, 7, 1);
  bench.report("pool 7x7 of codes", 49 * kPoolChannels, "elements", [&] { bench.table.pool->average_codes(plane); });
  PoolRun<std::uint8_t> halved = pool_run<std::uint8_t>(bench, bench.a.data(), 2, 2 * pixels, pixels);
  halved.pixel_step *= 2;
  bench.report("pool 2x2 of codes", 4 * pixels * kPoolChannels, "elements",
               [&] { bench.table.pool->average_codes(halved); });
  const PoolRun<float> row = pool_run<float>(bench, floats(bench.parameters), 3, pixels + 2, pixels);
  bench.report("pool 3x3 of values", 9 * pixels * kPoolChannels, "elements",
               [&] { bench.table.pool->average_values(row); });
  const PoolValues values = {.codes = bench.a.data(),
                             .pixel_step = kPoolChannels,
                             .pixels = pixels,
                             .channels = kPoolChannels,
                             .parameters = pool_parameters(bench),
                             .flip = 0,
                             .values = floats(bench.c),
                             .value_pixel_step = kPoolChannels};
  bench.report("pool values", pixels * kPoolChannels, "elements", [&] { bench.table.pool->dequantize(values); });
}

void bench_arithmetic(const KernelBench& bench) {
  bench.report("add", kCount, "elements", [&] {
    bench.table.add->run({.a = bench.a.data(),
                          .b = bench.b.data(),
                          .output = bench.c.data(),
                          .count = kCount,
                          .a_parameters = {0.02F, 128.0F, 0},
                          .b_parameters = {0.03F, 127.0F, 0x80},
                          .output_parameters = {0.04F, 100.0F, 0}});
  });
  bench.report("add of integers", kCount, "elements", [&] {
    bench.table.add->run_integers({.a = bench.a.data(),
                                   .b = bench.b.data(),
                                   .output = bench.c.data(),
                                   .count = kCount,
                                   .a_parameters = {0.02F, 128.0F, 0},
                                   .b_parameters = {0.03F, 127.0F, 0x80},
                                   .output_parameters = {0.04F, 100.0F, 0},
                                   .integers = {20000, 30000, -6370000, 2.5e-5F}});
  });
  bench.report("multiply", kCount, "elements", [&] {
    bench.table.multiply->run({.a = bench.a.data(),
                               .b = bench.b.data(),
                               .output = bench.c.data(),
                               .count = kCount,
                               .a_parameters = {0.02F, 128.0F, 0},
                               .b_parameters = {0.03F, 127.0F, 0x80},
                               .output_parameters = {0.04F, 100.0F, 0}});
  });
}

void bench_table(const KernelBench& bench) {
  const TableRun run = {.table = bench.b.data(), .input = bench.a.data(), .count = kCount, .output = bench.c.data()};
  const TableKernels& without_vbmi = *kernel_table_without_vbmi(bench.table.isa).table;
  bench.report("table", kCount, "elements", [&] { without_vbmi.look_up(run); });
  bench.report("table, AVX512_VBMI if the CPU has it", kCount, "elements", [&] { bench.table.table->look_up(run); });
}

// Of attention over 197 places, codes in parts of the range.
void bench_softmax(const KernelBench& bench) {
  static constexpr std::size_t length = 197;
  float* exponentials = floats(bench.parameters);
  for (const int range : {64, 128, 256}) {
    std::uint8_t* codes = bench.c.data();
    for (std::size_t i = 0; i < length; ++i) codes[i] = static_cast<std::uint8_t>(bench.a.data()[i] % range);
    codes[0] = 0;
    codes[1] = static_cast<std::uint8_t>(range - 1);
    float* powers = floats(bench.c) + length;
    bench.report("softmax of " + std::to_string(range) + " codes, sums", length, "elements", [=, &bench] {
      bench.table.softmax->code_sum(
          {.input = codes, .count = length, .exponentials = exponentials, .input_flip = 0, .powers = powers});
    });
  }
}

void bench_max_pool(const KernelBench& bench) {
  for (const std::size_t channels : {16U, 64U}) {
    const std::size_t pixels = 28, row = 2 * (pixels + 1) * channels;
    const MaxPoolRun run = {.input = bench.a.data(),
                            .pixel_step = 2 * channels,
                            .rows = 3,
                            .row_step = row,
                            .columns = 3,
                            .column_step = channels,
                            .pixels = pixels,
                            .channels = channels,
                            .is_signed = false,
                            .output = bench.c.data(),
                            .output_pixel_stride = channels};
    bench.report("max pool 3x3, " + std::to_string(channels) + " channels", pixels * channels, "elements",
                 [&] { bench.table.max_pool->run(run); });
  }
}

void bench_range(const KernelBench& bench) {
  Range range{};
  bench.report("range float32", kCount, "elements",
               [&] { bench.table.range->float32(bench.parameters.data(), kCount, range); });
  bench.report("range float16", kCount, "elements",
               [&] { bench.table.range->float16(bench.parameters.data(), kCount, range); });
}

}  // namespace

void bench_elements(const KernelBench& bench) {
  bench_nibbles(bench);
  bench_pack(bench);
  bench_quantize(bench);
  bench_dequantize(bench);
  bench_pool(bench);
  bench_arithmetic(bench);
  bench_table(bench);
  bench_softmax(bench);
  bench_max_pool(bench);
  bench_range(bench);
}

}  // namespace dmlcpu
