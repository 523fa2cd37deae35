// What the measurements of kernels share: a row of the kernel table, operands that stay in the caches, and the clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kernels/dispatch.h"
#include "runtime/aligned_buffer.h"

namespace dmlcpu {

inline float* floats(const AlignedBuffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }
inline std::int32_t* integers(const AlignedBuffer& buffer) { return reinterpret_cast<std::int32_t*>(buffer.data()); }

// One instruction set's kernels, all on the same operands.
class KernelBench {
 public:
  static constexpr std::size_t kBytes = 1 << 20;

  explicit KernelBench(Isa isa);

  // Times the call and prints a line. The amount is what one call does, counted in the unit.
  void report(const std::string& name, std::size_t amount, const char* unit, const std::function<void()>& call) const;

  const KernelTable& table;
  // Any codes, memory for outputs, and floats that are scales as well as values.
  const AlignedBuffer a, b, c, parameters;

 private:
  std::string_view isa_;
};

void bench_products(const KernelBench& bench);
void bench_elements(const KernelBench& bench);

}  // namespace dmlcpu
