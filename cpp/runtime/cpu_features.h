// The only place that asks the CPU and the operating system what they can do.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/isa.h"

namespace dmlcpu {

// The first feature that the instruction set needs and this process lacks (CPU bit, register state enabled by the
// operating system, or permission for AMX tiles), in words for a person; empty if nothing is missing. Asking for
// amx_int8 requests the permission from the kernel, each time.
std::string missing_feature(Isa isa);

// Whether the CPU has AVX512_VBMI. Says nothing of the registers: it counts only where avx512_vnni lacks nothing.
bool has_avx512_vbmi() noexcept;

// Whether stores past the caches are faster than others for data that no cache holds: on Intel's CPUs, but for the
// servers before Ice Lake. A core of Cascade Lake takes 28 to 36 % more time by them, one of AMD's Zen 4 12 to 18 %,
// and both twice the time and more where their level-3 cache would have held the data.
bool has_fast_streaming_stores() noexcept;

// Whether products of 512-bit vectors take twice the cycles that they take elsewhere: Zen 4 makes them in two halves,
// while its additions keep up.
bool halves_wide_products() noexcept;

// Sizes in bytes of the data caches that one core uses; typical values where the system does not tell.
struct CacheSizes {
  std::size_t level_1;
  std::size_t level_2;
  std::size_t level_3;
};
CacheSizes cache_sizes() noexcept;

// The processors that a thread may run on, as bits: bit i of a word of n bits is processor i of n. Empty where the
// system does not tell; of one size otherwise. thread is its number, 0 for the calling one. Throws std::bad_alloc.
std::vector<unsigned long> processors_of(int thread);

// Processors that this process may use: its affinity, and where a container limits its share of time, that share
// rounded up. At least 1.
int usable_processor_count();

}  // namespace dmlcpu
