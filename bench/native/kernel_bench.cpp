// The kernels alone: every cell of the kernel table that this machine can run, on operands that stay in the caches.
// Prints one line of JSON a measurement; bench/kernels.py makes a table of them.
#include "kernel_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

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

}  // namespace

KernelBench::KernelBench(Isa isa)
    : table(kernel_table(isa)), a(kBytes), b(kBytes), c(kBytes), parameters(kBytes), isa_(isa_name(isa)) {
  for (std::size_t i = 0; i < kBytes; ++i) {
    a.data()[i] = static_cast<std::uint8_t>(i * 131 >> 3);
    b.data()[i] = static_cast<std::uint8_t>(i * 197 >> 2);
  }
  std::fill_n(floats(parameters), kBytes / sizeof(float), 0.01F);
}

void KernelBench::report(const std::string& name, std::size_t amount, const char* unit,
                         const std::function<void()>& call) const {
  std::printf("{\"kernel\": \"%s\", \"isa\": \"%.*s\", \"amount\": %zu, \"unit\": \"%s\", \"seconds\": %.4g}\n",
              name.c_str(), static_cast<int>(isa_.size()), isa_.data(), amount, unit, median_seconds(call));
}

}  // namespace dmlcpu

int main() {
  for (const dmlcpu::Isa isa : dmlcpu::available_isas()) {
    const dmlcpu::KernelBench bench(isa);
    dmlcpu::bench_products(bench);
    dmlcpu::bench_elements(bench);
  }
  return 0;
}
