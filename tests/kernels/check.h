// What the checks of all kernel families share: counting, reporting, sizes and adversarial data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "guarded_buffer.h"
#include "kernels/kernel_table.h"

namespace dmlcpu::test {

// The case under test, for a message about a failure or a fault.
extern char current_case[256];

// Takes what printf takes.
[[gnu::format(printf, 1, 2)]] void describe_case(const char* format, ...);

// What a loop over sizes goes through.
using Sizes = std::initializer_list<std::size_t>;

// One family of one instruction set: its kernels, its data and its tally.
class Check {
 public:
  Check(const KernelTable& kernels, std::uint64_t seed, bool every_scale)
      : table(kernels), exhaustive(every_scale), state_(seed) {}

  // Compares an output, and the memory around it, bit by bit.
  template <class T>
  void equal(const GuardedBuffer<T>& actual, const std::vector<T>& expected) {
    ++cases;
    if (!expected.empty() && std::memcmp(actual.data(), expected.data(), expected.size() * sizeof(T)) != 0) {
      std::size_t i = 0;
      while (std::memcmp(actual.data() + i, expected.data() + i, sizeof(T)) == 0) ++i;
      fail(i, actual.data() + i, expected.data() + i, sizeof(T));
    }
    if (!actual.margins_intact()) fail(expected.size(), nullptr, nullptr, 0);
  }

  // The same of floats where a NaN is as good as any other; overwrites those of the output.
  void equal_but_for_nans(const GuardedBuffer<float>& actual, std::vector<float> expected);

  void expect(bool passed);

  // Uniform in 0..bound-1: the upper half of a product has no division, of which data would take most of the time.
  std::size_t below(std::size_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>(static_cast<Wide>(random_bits()) * bound >> 64);
  }
  template <class T, std::size_t kCount>
  T one_of(const T (&values)[kCount]) {
    return values[below(kCount)];
  }

  std::uint8_t code() {
    return one_in(4) ? one_of<std::uint8_t>({0, 1, 127, 128, 255}) : static_cast<std::uint8_t>(below(256));
  }
  std::uint8_t flip() { return one_in(2) ? 0x80 : 0x00; }
  float zero_point() { return static_cast<float>(code()); }
  bool one_in(std::size_t n) { return below(n) == 0; }

  // Special values, random bits, or ordinary values.
  std::uint32_t word();
  float number();
  // A scale as a model has it, or an extreme one.
  float scale();
  // A number whose quotient by the scale is at, or within a few units in the last place of, a half-way point.
  float near_tie(float scale);

  const KernelTable& table;
  const bool exhaustive;
  std::size_t cases = 0;
  std::size_t failures = 0;

 private:
  void fail(std::size_t index, const void* actual, const void* expected, std::size_t size);

  // SplitMix64 (Steele, Lea and Flood, 2014).
  std::uint64_t random_bits() {
    std::uint64_t bits = state_ += 0x9e3779b97f4a7c15;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    return bits ^ bits >> 31;
  }

  std::uint64_t state_;
};

// Every count up to a bit more than the widest step of a kernel, then around multiples of it.
std::vector<std::size_t> run_lengths();

inline constexpr Edge kEdges[] = {Edge::begin, Edge::end};

void check_add(Check& check);
void check_block_product(Check& check);
void check_cast(Check& check);
void check_depthwise(Check& check);
void check_depthwise_planes(Check& check);
void check_depthwise_window(Check& check);
void check_dequantize(Check& check);
void check_dequantized_product(Check& check);
void check_few_channels(Check& check);
void check_float_depthwise(Check& check);
void check_float_pool(Check& check);
void check_float_product(Check& check);
void check_float_functions(Check& check);
void check_gemm(Check& check);
void check_interpolate(Check& check);
void check_layer_normalization(Check& check);
void check_max_pool(Check& check);
void check_multiply(Check& check);
void check_grouped(Check& check);
void check_nibbles(Check& check);
void check_overlap(Check& check);
void check_pack(Check& check);
void check_pool(Check& check);
void check_quantize(Check& check);
void check_range(Check& check);
void check_table(Check& check);
void check_rescale(Check& check);
void check_resample(Check& check);
void check_softmax(Check& check);
void check_winograd(Check& check);

}  // namespace dmlcpu::test
