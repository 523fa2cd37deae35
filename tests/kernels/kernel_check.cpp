// Runs every kernel of every instruction set that this machine has, between guard pages, against plain arithmetic
// written once more in this folder. Prints a line for each instruction set and family.
//
//   kernel_check [--isa NAME] [--family NAME] [--every-scale] [--seed N]
//
// Families have the names of their folders in cpp/kernels. --every-scale tries the quotients of quantize at every
// significand of the scale (minutes).
#include <cmath>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "check.h"
#include "emulated.h"
#include "kernels/dispatch.h"
#include "runtime/float_environment.h"

namespace dmlcpu::test {

char current_case[256] = "";

void describe_case(const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  std::vsnprintf(current_case, sizeof(current_case), format, values);
  va_end(values);
}

namespace {

struct Family {
  const char* name;
  void (*check)(Check& check);
};

constexpr Family kFamilies[] = {
    {"gemm", check_gemm},
    {"depthwise", check_depthwise},
    {"depthwise_window", check_depthwise_window},
    {"depthwise_planes", check_depthwise_planes},
    {"pack", check_pack},
    {"nibbles", check_nibbles},
    {"quantize", check_quantize},
    {"dequantize", check_dequantize},
    {"dequantized_product", check_dequantized_product},
    {"block_product", check_block_product},
    {"add", check_add},
    {"multiply", check_multiply},
    {"range", check_range},
    {"max_pool", check_max_pool},
    {"table", check_table},
    {"rescale", check_rescale},
    {"float_product", check_float_product},
    {"float_depthwise", check_float_depthwise},
    {"float_pool", check_float_pool},
    {"pool", check_pool},
    {"cast", check_cast},
    {"float_functions", check_float_functions},
    {"resample", check_resample},
    {"interpolate", check_interpolate},
    {"overlap", check_overlap},
    {"softmax", check_softmax},
    {"layer_normalization", check_layer_normalization},
    {"few_channels", check_few_channels},
    {"grouped", check_grouped},
    {"winograd", check_winograd},
};

struct sigaction fault_action_before;

// Says which case left its operands, then lets the fault happen again for whoever handled it before.
void report_fault(int) {
  (void)!write(STDERR_FILENO, "fault in: ", 10);
  (void)!write(STDERR_FILENO, current_case, std::strlen(current_case));
  (void)!write(STDERR_FILENO, "\n", 1);
  sigaction(SIGSEGV, &fault_action_before, nullptr);
}

void install_fault_report() {
  struct sigaction action = {};
  action.sa_handler = report_fault;
  sigaction(SIGSEGV, &action, &fault_action_before);
}

struct Totals {
  std::size_t checks = 0, failures = 0;

  void add(const char* isa, const char* family, const Check& check, const char* note = "") {
    std::printf("%-12s %-20s %7zu cases %zu failures%s\n", isa, family, check.cases, check.failures, note);
    std::fflush(stdout);
    ++checks;
    failures += check.failures;
  }
};

// What to check; empty for all.
struct Selection {
  std::string_view isa, family;

  bool has(std::string_view of_isa, std::string_view of_family) const {
    return (isa.empty() || isa == of_isa) && (family.empty() || family == of_family);
  }
};

Totals check_all(std::uint64_t seed, bool every_scale, const Selection& selection) {
  Totals totals;
  for (const Isa isa : available_isas()) {
    for (const Family& family : kFamilies) {
      if (!selection.has(isa_name(isa), family.name)) continue;
      Check check(kernel_table(isa), seed, every_scale);
      family.check(check);
      totals.add(isa_name(isa).data(), family.name, check);
    }
  }
  for (const EmulatedKernels& emulated : emulated_kernels()) {
    if (!selection.has(emulated.isa, emulated.family)) continue;
    Check check(emulated.table, seed, every_scale);
    emulated.check(check);
    totals.add(emulated.isa, emulated.family, check, ", emulated");
  }
  return totals;
}

}  // namespace

void Check::fail(std::size_t index, const void* actual, const void* expected, std::size_t size) {
  ++failures;
  if (failures > 10) return;  // the first ones tell
  std::printf("FAILED %s\n", current_case);
  if (size == 0) {
    std::printf("  wrote outside of the %zu elements\n", index);
    return;
  }
  std::uint32_t actual_bits = 0, expected_bits = 0;
  std::memcpy(&actual_bits, actual, size);
  std::memcpy(&expected_bits, expected, size);
  std::printf("  element %zu is 0x%0*x, not 0x%0*x\n", index, static_cast<int>(2 * size), actual_bits,
              static_cast<int>(2 * size), expected_bits);
}

void Check::equal_but_for_nans(const GuardedBuffer<float>& actual, std::vector<float> expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (float* value : {actual.data() + i, expected.data() + i}) {
      if (std::isnan(*value)) *value = std::nanf("");
    }
  }
  equal(actual, expected);
}

void Check::expect(bool passed) {
  ++cases;
  if (passed) return;
  if (++failures <= 10) std::printf("FAILED %s\n", current_case);
}

std::uint32_t Check::word() {
  static constexpr std::uint32_t special[] = {0,          1,          0xffffffff, 0x7fffffff, 0x80000000, 0x80000001,
                                              0xfffffffe, 0x01000000, 0x01000001, 0x00ffffff, 0x80000080, 0x80000081,
                                              0x800000ff, 0xffffff80, 0xffffff7f, 0x7fffffbf, 0x7fffffc0};
  const std::uint32_t random = static_cast<std::uint32_t>(random_bits());
  switch (below(4)) {
    case 0:
      return one_of(special);
    case 1:
      return random;
    case 2:
      return random >> below(32);  // of every magnitude
    default:
      return 0U - (random >> below(32));
  }
}

float Check::number() {
  using Limits = std::numeric_limits<float>;
  static constexpr float special[] = {0.0f,
                                      0.5f,
                                      1.0f,
                                      1.5f,
                                      2.5f,
                                      127.5f,
                                      255.5f,
                                      256.0f,
                                      65504.0f,
                                      65520.0f,
                                      0x1p-24f,
                                      0x1p-25f,
                                      0x1p23f,
                                      0x1p31f,
                                      Limits::denorm_min(),
                                      Limits::min(),
                                      Limits::max(),
                                      Limits::infinity(),
                                      Limits::quiet_NaN(),
                                      Limits::signaling_NaN()};
  const float sign = one_in(2) ? 1.0f : -1.0f;
  if (one_in(3)) return std::copysign(one_of(special), sign);
  if (one_in(2)) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random_bits());
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  return std::ldexp(sign * static_cast<float>(below(1 << 20)), static_cast<int>(below(24)) - 20);
}

float Check::scale() {
  static constexpr float special[] = {1.0f,      0.5f,      0.25f,           0x1p-7f,        0.1f,
                                      1.0f / 3,  0x1p-64f,  0x1.fffffep-65f, 0x1p64f,        0x1.000002p64f,
                                      0x1p-126f, 0x1p-140f, 0x1.fffffep127f, 0x1.fffffep-1f, 0x1.000002p0f};
  if (one_in(8)) return number();
  if (one_in(3)) return one_in(8) ? -one_of(special) : one_of(special);
  const int exponent = one_in(3) ? static_cast<int>(below(254)) - 126 : -static_cast<int>(below(12));
  return std::ldexp(static_cast<float>((1 << 23) + below(1 << 23)), exponent - 23);
}

float Check::near_tie(float scale) {
  float value = (static_cast<float>(below(513)) - 256.5f) * scale;
  for (std::size_t steps = below(4); steps > 0; --steps) {
    value = std::nextafter(
        value, one_in(2) ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity());
  }
  return value;
}

std::vector<std::size_t> run_lengths() {
  std::vector<std::size_t> lengths;
  for (std::size_t length = 0; length <= 80; ++length) lengths.push_back(length);
  for (const std::size_t length :
       Sizes{95, 96, 97, 127, 128, 129, 191, 192, 193, 255, 256, 257, 999, 1000, 1024, 1031}) {
    lengths.push_back(length);
  }
  return lengths;
}

}  // namespace dmlcpu::test

int main(int argc, char** argv) {
  std::uint64_t seed = 20240817;
  bool every_scale = false;
  dmlcpu::test::Selection selection;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--every-scale") {
      every_scale = true;
    } else if (argument == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--isa" && i + 1 < argc) {
      selection.isa = argv[++i];
    } else if (argument == "--family" && i + 1 < argc) {
      selection.family = argv[++i];
    } else {
      std::fprintf(stderr, "usage: kernel_check [--every-scale] [--seed N] [--isa NAME] [--family NAME]\n");
      return 2;
    }
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  dmlcpu::test::install_fault_report();
  const dmlcpu::DefaultFloatEnvironment environment;
  const dmlcpu::test::Totals totals = dmlcpu::test::check_all(seed, every_scale, selection);
  if (totals.checks == 0) {
    std::fprintf(stderr, "nothing to check has that name\n");
    return 2;
  }
  return totals.failures == 0 ? 0 : 1;
}
