// The kernels alone: every cell of the kernel table that this machine can run, on operands that stay in the caches.
// Prints one line of JSON a measurement; bench/kernels.py makes a table of them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "runtime/aligned_buffer.h"

namespace dmlcpu {
namespace {

double seconds_of(const std::function<void()>& call, long count) {
  const auto begin = std::chrono::steady_clock::now();
  for (long i = 0; i < count; ++i) call();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / static_cast<double>(count);
}

// The median of nine repeats of about 5 ms.
double median_seconds(const std::function<void()>& call) {
  call();
  const double once = seconds_of(call, 3);
  const long count = std::max(1L, static_cast<long>(0.005 / std::max(once, 1e-9)));
  std::vector<double> repeats;
  for (int repeat = 0; repeat < 9; ++repeat) repeats.push_back(seconds_of(call, count));
  std::nth_element(repeats.begin(), repeats.begin() + 4, repeats.end());
  return repeats[4];
}

// One instruction set's kernels, all on the same operands.
class KernelBench {
 public:
  explicit KernelBench(Isa isa)
      : table_(kernel_table(isa)), isa_(isa_name(isa)), a_(kBytes), b_(kBytes), c_(kBytes), parameters_(kBytes) {
    for (std::size_t i = 0; i < kBytes; ++i) {
      a_.data()[i] = static_cast<std::uint8_t>(i * 131 >> 3);
      b_.data()[i] = static_cast<std::uint8_t>(i * 197 >> 2);
    }
    std::fill_n(floats(parameters_), kBytes / sizeof(float), 0.01F);
  }

  void run() {
    for (const std::size_t k : {64U, 576U, 2304U}) product(k);
    depthwise();
    if (table_.depthwise_window != nullptr) depthwise_window();
    rescale();
    for (const std::size_t group_channels : {4U, 8U, 16U}) grouped(group_channels);
    nibbles();
    pack();
    quantize();
    dequantize();
    pool();
    report("add", kCount, "elements", [&] {
      table_.add->run({.a = a_.data(),
                       .b = b_.data(),
                       .output = c_.data(),
                       .count = kCount,
                       .a_parameters = {0.02F, 128.0F, 0},
                       .b_parameters = {0.03F, 127.0F, 0x80},
                       .output_parameters = {0.04F, 100.0F, 0}});
    });
    report("multiply", kCount, "elements", [&] {
      table_.multiply->run({.a = a_.data(),
                            .b = b_.data(),
                            .output = c_.data(),
                            .count = kCount,
                            .a_parameters = {0.02F, 128.0F, 0},
                            .b_parameters = {0.03F, 127.0F, 0x80},
                            .output_parameters = {0.04F, 100.0F, 0}});
    });
    table();
    max_pool();
    Range range{};
    report("range float32", kCount, "elements", [&] { table_.range->float32(parameters_.data(), kCount, range); });
    report("range float16", kCount, "elements", [&] { table_.range->float16(parameters_.data(), kCount, range); });
  }

 private:
  static constexpr std::size_t kBytes = 1 << 20, kCount = 16384, kPoolChannels = 64;

  static float* floats(AlignedBuffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }
  static std::int32_t* integers(AlignedBuffer& buffer) { return reinterpret_cast<std::int32_t*>(buffer.data()); }

  void report(const std::string& name, std::size_t amount, const char* unit, const std::function<void()>& call) {
    std::printf("{\"kernel\": \"%s\", \"isa\": \"%.*s\", \"amount\": %zu, \"unit\": \"%s\", \"seconds\": %.4g}\n",
                name.c_str(), static_cast<int>(isa_.size()), isa_.data(), amount, unit, median_seconds(call));
  }

  void product(std::size_t k) {
    static constexpr std::size_t kZero = 0, m = 96, n = 64;
    const GemmBlock block = {.a = a_.data(),
                             .a_row_stride = k,
                             .a_run_stride = 0,
                             .a_offsets = &kZero,
                             .segments = 1,
                             .b = b_.data(),
                             .b_offsets = &kZero,
                             .b_panel_stride = table_.gemm->nr * k,
                             .runs = 1,
                             .m = m,
                             .n = n,
                             .k = k,
                             .offset = integers(a_),
                             .multiplier = floats(parameters_),
                             .filter_zero_point = nullptr,
                             .activation_sum = nullptr,
                             .output_zero_point = 100.0F,
                             .flip = 0,
                             .output = c_.data(),
                             .output_row_stride = n,
                             .output_run_stride = 0};
    const std::string size = " 96x64x" + std::to_string(k);
    report("gemm" + size, 2 * m * n * k, "operations", [&] { table_.gemm->multiply(block); });
  }

  void depthwise() {
    const std::size_t offsets[3] = {0, 256, 512};
    const DepthwiseRun run = {.activations = a_.data(),
                              .pixel_step = 256,
                              .offsets = offsets,
                              .groups = 3,
                              .filter = reinterpret_cast<const std::int8_t*>(b_.data()),
                              .taps = reinterpret_cast<const std::int8_t*>(b_.data()),
                              .pixels = 28,
                              .channels = 64,
                              .offset = integers(a_),
                              .multiplier = floats(parameters_),
                              .filter_zero_point = nullptr,
                              .output_zero_point = 100.0F,
                              .flip = 0,
                              .output = c_.data(),
                              .output_pixel_stride = 64};
    report("depthwise 3x3", 2UL * 9 * 28 * 64, "operations", [&] { table_.depthwise->convolve(run); });
  }

  // Rows of 28 pixels of 64 channels, with padding.
  void depthwise_window() {
    static constexpr std::size_t pixels = 28, channels = 64, row_count = 16;
    const std::vector<std::uint8_t> padding(kWindowLanes, 7);
    for (const std::size_t window : {3, 5}) {
      std::vector<const std::uint8_t*> rows;
      for (std::size_t i = 0; i < row_count * window; ++i) {
        rows.push_back(a_.data() + (i / window + i % window) * pixels * channels);
      }
      const DepthwiseWindowRun run = {.window = window,
                                      .stride = 1,
                                      .rows = rows.data(),
                                      .column_step = channels,
                                      .first_column = -static_cast<std::ptrdiff_t>(window / 2),
                                      .columns = pixels,
                                      .padding = padding.data(),
                                      .input_flip = 0,
                                      .filter = reinterpret_cast<const std::int8_t*>(b_.data()),
                                      .output_rows = row_count,
                                      .pixels = pixels,
                                      .channels = channels,
                                      .offset = integers(a_),
                                      .multiplier = floats(parameters_),
                                      .filter_zero_point = nullptr,
                                      .output_zero_point = 100.0F,
                                      .flip = 0,
                                      .output = c_.data(),
                                      .output_pixel_stride = channels,
                                      .output_row_stride = pixels * channels};
      const std::string size = " " + std::to_string(window) + "x" + std::to_string(window);
      report("depthwise window" + size, 2 * window * window * row_count * pixels * channels, "operations",
             [&] { table_.depthwise_window->convolve(run); });
    }
  }

  // A tile of sums in cache.
  void rescale() {
    static constexpr std::size_t m = 64, n = 128;
    const RescaleBlock block = {.sums = integers(a_),
                                .sums_row_stride = n,
                                .m = m,
                                .n = n,
                                .row_zero_point = integers(b_),
                                .column_sum = integers(b_),
                                .row_multiplier = floats(parameters_),
                                .column_multiplier = floats(parameters_),
                                .row_output_zero_point = floats(parameters_),
                                .flip = 0,
                                .bias = parameters_.data(),
                                .bias_row_stride = 0,
                                .output = c_.data(),
                                .output_row_stride = n};
    report("rescale to codes", m * n, "elements", [&] { table_.rescale->to_codes(block); });
    report("rescale to float32", m * n, "elements", [&] { table_.rescale->to_float32(block); });
    report("rescale to float16", m * n, "elements", [&] { table_.rescale->to_float16(block); });
    FloatProductBlock product = {.a = floats(parameters_),
                                 .a_row_stride = 128,
                                 .b = floats(parameters_),
                                 .b_row_stride = 64,
                                 .m = 1,
                                 .k = 128,
                                 .n = 64,
                                 .sums = floats(c_),
                                 .sums_row_stride = 64,
                                 .begins = false};
    for (const std::size_t rows : {std::size_t{1}, std::size_t{16}}) {
      product.m = rows;
      std::fill_n(product.sums, rows * product.n, 0.0F);
      report("float product " + std::to_string(rows) + "x128x64", 2 * rows * product.n * product.k, "operations",
             [&] { table_.float_product->accumulate(product); });
    }
  }

  void grouped(std::size_t group_channels) {
    const std::size_t offsets[9] = {0, 64, 128, 1920, 1984, 2048, 3840, 3904, 3968};
    const GroupedRun run = {.activations = a_.data(),
                            .pixel_step = 64,
                            .offsets = offsets,
                            .taps = 9,
                            .group_lanes = group_channels / kGroupedLaneChannels,
                            .filter = b_.data(),
                            .pixels = 28,
                            .channels = 64,
                            .offset = integers(a_),
                            .multiplier = floats(parameters_),
                            .filter_zero_point = nullptr,
                            .output_zero_point = 100.0F,
                            .flip = 0,
                            .output = c_.data(),
                            .output_pixel_stride = 64};
    report("grouped 3x3, " + std::to_string(group_channels) + " channels", 2UL * 9 * 28 * 64 * group_channels,
           "operations", [&] { table_.grouped->convolve(run); });
  }

  void pack() {
    report("pack copy", kCount, "elements", [&] { table_.pack->copy(a_.data(), kCount, 0x80, c_.data()); });
    const InterleaveRun run = {.rows = {a_.data(), a_.data() + kCount, a_.data() + 2 * kCount, a_.data() + 3 * kCount},
                               .count = kCount,
                               .output = c_.data()};
    report("pack interleave", 4 * kCount, "elements", [&] { table_.pack->interleave(run); });
    const PanelRun panels = {.rows = {run.rows[0], run.rows[1], run.rows[2], run.rows[3]},
                             .count = 256,
                             .flip = 0x80,
                             .nr = 32,
                             .panel_stride = 4096,
                             .output = c_.data()};
    report("pack interleave panels", 4UL * 256, "elements", [&] { table_.pack->interleave_panels(panels); });
    const GroupBlock groups = {.columns = a_.data(),
                               .column_stride = 512,
                               .count = 32,
                               .k = 512,
                               .flip = 0x80,
                               .output = c_.data(),
                               .group_stride = 128};
    report("pack gather groups", 32UL * 512, "elements", [&] { table_.pack->gather_groups(groups); });
    for (const std::size_t rows : {3U, 64U, 96U}) {
      const std::size_t columns = kCount / 64;
      const TransposeBlock block = {.input = a_.data(),
                                    .input_row_stride = 3136,
                                    .rows = rows,
                                    .columns = columns,
                                    .flip = 0,
                                    .output = c_.data(),
                                    .output_row_stride = rows};
      report("pack transpose " + std::to_string(rows) + " rows", rows * columns, "elements",
             [&] { table_.pack->transpose(block); });
    }
    const std::size_t offset = 0;
    const SummedRows rows = {
        .a = a_.data(), .a_row_stride = 256, .a_offsets = &offset, .segments = 1, .m = 64, .k = 256};
    report("pack sum rows", 64UL * 256, "elements", [&] { table_.pack->sum_rows(rows, integers(c_)); });
  }

  void table() {
    const TableRun run = {.table = b_.data(), .input = a_.data(), .count = kCount, .output = c_.data()};
    report("table", kCount, "elements", [&] { table_.table->look_up(run); });
    report("table, AVX512_VBMI if the CPU has it", kCount, "elements", [&] { table_.best_table().look_up(run); });
  }

  void max_pool() {
    for (const std::size_t channels : {16U, 64U}) {
      const std::size_t pixels = 28, row = 2 * (pixels + 1) * channels;
      const MaxPoolRun run = {.input = a_.data(),
                              .pixel_step = 2 * channels,
                              .rows = 3,
                              .row_step = row,
                              .columns = 3,
                              .column_step = channels,
                              .pixels = pixels,
                              .channels = channels,
                              .is_signed = false,
                              .output = c_.data(),
                              .output_pixel_stride = channels};
      report("max pool 3x3, " + std::to_string(channels) + " channels", pixels * channels, "elements",
             [&] { table_.max_pool->run(run); });
    }
  }

  void nibbles() {
    report("nibbles unpack", kCount, "elements", [&] { table_.nibbles->unpack(a_.data(), kCount, 8, c_.data()); });
    report("nibbles pack", kCount, "elements", [&] { table_.nibbles->pack(a_.data(), kCount, 8, c_.data()); });
    const NibbleRows rows = {.input = a_.data(),
                             .output = c_.data(),
                             .rows = kCount / 32,
                             .columns = 32,
                             .scale = floats(parameters_),
                             .zero_point = floats(parameters_),
                             .flip = 8};
    const std::size_t count = rows.rows * rows.columns;
    report("nibbles dequantize to float32, rows of 32", count, "elements",
           [&] { table_.nibbles->dequantize_float32(rows); });
    report("nibbles dequantize to float16, rows of 32", count, "elements",
           [&] { table_.nibbles->dequantize_float16(rows); });
  }

  void quantize() {
    const float zero_point = 100.0F;
    QuantizeRun run = {.input = parameters_.data(),
                       .output = c_.data(),
                       .count = kCount,
                       .scale = floats(parameters_),
                       .zero_point = &zero_point,
                       .per_element = false,
                       .flip = 0};
    report("quantize float32", kCount, "elements", [&] { table_.quantize->divide_float32(run); });
    report("quantize float16", kCount, "elements", [&] { table_.quantize->divide_float16(run); });
    report("quantize int32", kCount, "elements", [&] { table_.quantize->divide_int32(run); });
    report("quantize float32 by the reciprocal", kCount, "elements", [&] { table_.quantize->multiply_float32(run); });
    run.per_element = true;
    run.zero_point = floats(parameters_);
    report("quantize float32, a scale an element", kCount, "elements", [&] { table_.quantize->divide_float32(run); });
  }

  void dequantize() {
    const float zero_point = 100.0F;
    const DequantizeRun run = {.input = a_.data(),
                               .output = c_.data(),
                               .count = kCount,
                               .scale = floats(parameters_),
                               .zero_point = &zero_point,
                               .per_element = false};
    report("dequantize uint8 to float32", kCount, "elements", [&] { table_.dequantize->to_float32.uint8(run); });
    report("dequantize int8 to float16", kCount, "elements", [&] { table_.dequantize->to_float16.int8(run); });
    report("dequantize int16 to float32", kCount, "elements", [&] { table_.dequantize->to_float32.int16(run); });
    report("dequantize int32 to float32", kCount, "elements", [&] { table_.dequantize->to_float32.int32(run); });
    report("dequantize uint32 to float32", kCount, "elements", [&] { table_.dequantize->to_float32.uint32(run); });
  }

  // Behind what the kernels read as values.
  PoolParameters pool_parameters() {
    float* zero_point = floats(parameters_) + kBytes / sizeof(float) - 2 * kPoolChannels;
    float* scale = zero_point + kPoolChannels;
    std::fill_n(zero_point, kPoolChannels, 100.0F);
    std::fill_n(scale, kPoolChannels, 0.013F);
    return {zero_point, floats(parameters_), scale, zero_point};
  }

  template <class Element>
  PoolRun<Element> pool_run(const Element* input, std::size_t window, std::size_t row_pixels, std::size_t pixels) {
    return {.input = input,
            .taps = {1, window, window},
            .tap_steps = {0, row_pixels * kPoolChannels, kPoolChannels},
            .count = static_cast<float>(window * window),
            .pixels = pixels,
            .pixel_step = kPoolChannels,
            .channels = kPoolChannels,
            .parameters = pool_parameters(),
            .flip = 0,
            .output = c_.data(),
            .output_pixel_step = kPoolChannels};
  }

  void pool() {
    static constexpr std::size_t pixels = 28;
    const PoolRun<std::uint8_t> plane = pool_run<std::uint8_t>(a_.data(), 7, 7, 1);
    report("pool 7x7 of codes", 49 * kPoolChannels, "elements", [&] { table_.pool->average_codes(plane); });
    PoolRun<std::uint8_t> halved = pool_run<std::uint8_t>(a_.data(), 2, 2 * pixels, pixels);
    halved.pixel_step *= 2;
    report("pool 2x2 of codes", 4 * pixels * kPoolChannels, "elements", [&] { table_.pool->average_codes(halved); });
    const PoolRun<float> row = pool_run<float>(floats(parameters_), 3, pixels + 2, pixels);
    report("pool 3x3 of values", 9 * pixels * kPoolChannels, "elements", [&] { table_.pool->average_values(row); });
    const PoolValues values = {.codes = a_.data(),
                               .pixel_step = kPoolChannels,
                               .pixels = pixels,
                               .channels = kPoolChannels,
                               .parameters = pool_parameters(),
                               .flip = 0,
                               .values = floats(c_),
                               .value_pixel_step = kPoolChannels};
    report("pool values", pixels * kPoolChannels, "elements", [&] { table_.pool->dequantize(values); });
  }

  const KernelTable& table_;
  std::string_view isa_;
  AlignedBuffer a_, b_, c_, parameters_;
};

}  // namespace
}  // namespace dmlcpu

int main() {
  for (const dmlcpu::Isa isa : dmlcpu::available_isas()) dmlcpu::KernelBench(isa).run();
  return 0;
}
