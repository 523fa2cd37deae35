#include "runtime/cpu_features.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dmlcpu {
namespace {

// Sizes of data caches, levels 1 to 3; 0 where there is none.
using CacheLevels = std::array<std::size_t, 3>;

#if defined(__x86_64__)

struct CpuidRegisters {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidRegisters cpuid(unsigned leaf, unsigned subleaf) {
  CpuidRegisters r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool bit(unsigned word, unsigned index) { return ((word >> index) & 1U) != 0; }

// The register states that the operating system saves and restores (XCR0); 0 if it does not use XSAVE.
std::uint64_t enabled_states() {
  if (!bit(cpuid(1, 0).ecx, 27)) return 0;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

struct Feature {
  const char* name;
  bool present;
};

std::string first_missing(std::initializer_list<Feature> features) {
  for (const Feature& feature : features) {
    if (!feature.present) return std::string("the CPU has no ") + feature.name;
  }
  return {};
}

// AMX tile data is switched on for a process only when it asks (Linux 5.16 and later). The kernel refuses where a
// signal stack is too small for the tiles; the permission covers all threads, present and future.
std::string request_amx_permission() {
#if defined(__linux__)
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureXtiledata = 18;
  if (syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0) return {};
  switch (errno) {
    case EINVAL:
    case ENOSYS:
      return "the kernel gives no permission for AMX tiles: Linux 5.16 is the first that does";
    case ENOSPC:
      return "the kernel refused permission for AMX tiles: a signal stack (sigaltstack) is too small for them";
    case EPERM:
    case EACCES:
      return "a sandbox (seccomp) refused permission for AMX tiles";
    default:
      return std::string("the kernel refused permission for AMX tiles: ") + std::strerror(errno);
  }
#else
  return "AMX is used on Linux only";
#endif
}

std::string missing_x86_feature(Isa isa) {
  if (isa == Isa::scalar) return {};
  constexpr std::uint64_t kAvxStates = 0x6, kAvx512States = 0xe6, kAmxStates = 0x60000;
  const CpuidRegisters leaf1 = cpuid(1, 0), leaf7 = cpuid(7, 0), leaf7_1 = cpuid(7, 1);
  const std::uint64_t states = enabled_states();

  std::string missing =
      first_missing({{"AVX2", bit(leaf7.ebx, 5)}, {"FMA", bit(leaf1.ecx, 12)}, {"F16C", bit(leaf1.ecx, 29)}});
  if (!missing.empty()) return missing;
  if ((states & kAvxStates) != kAvxStates) return "the operating system does not enable AVX registers";
  if (isa == Isa::avx2) return {};

  if (isa == Isa::avx_vnni) return first_missing({{"AVX-VNNI", bit(leaf7_1.eax, 4)}});

  missing = first_missing({{"AVX512F", bit(leaf7.ebx, 16)},
                           {"AVX512DQ", bit(leaf7.ebx, 17)},
                           {"AVX512BW", bit(leaf7.ebx, 30)},
                           {"AVX512VL", bit(leaf7.ebx, 31)},
                           {"AVX512_VNNI", bit(leaf7.ecx, 11)}});
  if (!missing.empty()) return missing;
  if ((states & kAvx512States) != kAvx512States) return "the operating system does not enable AVX-512 registers";
  if (isa == Isa::avx512_vnni) return {};

  missing = first_missing({{"AMX-TILE", bit(leaf7.edx, 24)}, {"AMX-INT8", bit(leaf7.edx, 25)}});
  if (!missing.empty()) return missing;
  if ((states & kAmxStates) != kAmxStates) return "the operating system does not enable AMX tiles";
  return request_amx_permission();
}

// By the processor's own list of caches. AMD's list has the form of Intel's under another number. Older C libraries'
// sysconf gives on AMD the level 3 of all cores together.
CacheLevels listed_caches() {
  CacheLevels sizes{};
  const bool amd_list = bit(cpuid(0x80000001, 0).ecx, 22);
  for (unsigned index = 0; index < 16; ++index) {
    const CpuidRegisters cache = cpuid(amd_list ? 0x8000001d : 4, index);
    constexpr unsigned kEndOfList = 0, kInstructions = 2;
    const unsigned type = cache.eax & 0x1f, level = (cache.eax >> 5) & 0x7;
    if (type == kEndOfList) break;
    if (type == kInstructions || level < 1 || level > sizes.size()) continue;
    const std::size_t line = (cache.ebx & 0xfff) + 1, partitions = ((cache.ebx >> 12) & 0x3ff) + 1;
    const std::size_t ways = (cache.ebx >> 22) + 1, sets = std::size_t{cache.ecx} + 1;
    sizes[level - 1] = line * partitions * ways * sets;
  }
  return sizes;
}

bool is_intel() {
  const CpuidRegisters vendor = cpuid(0, 0);
  return vendor.ebx == signature_INTEL_ebx && vendor.edx == signature_INTEL_edx && vendor.ecx == signature_INTEL_ecx;
}

// The servers called Skylake, Cascade Lake and Cooper Lake: Intel's family 6, model 0x55, whose upper half stands
// apart.
bool is_skylake_server() {
  const unsigned version = cpuid(1, 0).eax, family = (version >> 8) & 0xf;
  const unsigned model = ((version >> 4) & 0xf) + ((version >> 12) & 0xf0);
  return is_intel() && family == 6 && model == 0x55;
}

// AMD's family 0x19 with AVX-512; Zen 3 has the number, too. The base family is 0xf, and the rest stands beside it.
bool is_zen_4() {
  const CpuidRegisters vendor = cpuid(0, 0);
  const bool is_amd =
      vendor.ebx == signature_AMD_ebx && vendor.edx == signature_AMD_edx && vendor.ecx == signature_AMD_ecx;
  const unsigned version = cpuid(1, 0).eax, family = ((version >> 8) & 0xf) + ((version >> 20) & 0xff);
  return is_amd && family == 0x19 && bit(cpuid(7, 0).ebx, 16);
}

#else

CacheLevels listed_caches() { return {}; }

#endif

// The processors of a container's limit: quota of time over period, rounded up; 0 if there is no limit.
int cgroup_processor_limit() {
  double quota = -1.0, period = 0.0;
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); file) {  // version 2: "max 100000" or "150000 100000"
    std::string text;
    if (file >> text >> period && text != "max") std::istringstream(text) >> quota;
  } else {
    std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return 0;
  }
  if (quota <= 0.0 || period <= 0.0) return 0;
  return std::max(1, static_cast<int>(std::ceil(std::min(quota / period, 1e6))));
}

int affinity_processor_count() {
  int count = 0;
  for (const unsigned long word : processors_of(0)) count += std::popcount(word);
  return std::max(1, count != 0 ? count : static_cast<int>(std::thread::hardware_concurrency()));
}

#if defined(__linux__) && defined(_SC_LEVEL1_DCACHE_SIZE)
CacheLevels system_caches() {
  const auto size = [](int name) { return static_cast<std::size_t>(std::max(0L, sysconf(name))); };
  return {size(_SC_LEVEL1_DCACHE_SIZE), size(_SC_LEVEL2_CACHE_SIZE), size(_SC_LEVEL3_CACHE_SIZE)};
}
#else
CacheLevels system_caches() { return {}; }
#endif

// What the list has, otherwise what the system says, otherwise typical sizes.
CacheSizes find_caches() {
  CacheLevels sizes = listed_caches();
  const auto fill_in = [&](const CacheLevels& others) {
    for (std::size_t level = 0; level < sizes.size(); ++level) {
      if (sizes[level] == 0) sizes[level] = others[level];
    }
  };
  if (std::find(sizes.begin(), sizes.end(), 0U) != sizes.end()) fill_in(system_caches());
  fill_in({32 << 10, 1 << 20, 8 << 20});
  return {sizes[0], sizes[1], sizes[2]};
}

// Asked when the module is loaded: in a virtual machine the host answers each question to the CPU, which takes
// microseconds. Not at the first call, as a fork() amid that would leave the child waiting for its end.
const CacheSizes kCaches = find_caches();
#if defined(__x86_64__)
const bool kHasAvx512Vbmi = bit(cpuid(7, 0).ecx, 1), kIsZen4 = is_zen_4();
const bool kHasFastStreamingStores = is_intel() && !is_skylake_server();
#else
const bool kHasAvx512Vbmi = false, kIsZen4 = false, kHasFastStreamingStores = false;
#endif

}  // namespace

std::string missing_feature(Isa isa) {
#if defined(__x86_64__)
  return missing_x86_feature(isa);
#else
  return isa == Isa::scalar ? std::string() : std::string("the CPU is not x86-64");
#endif
}

bool has_avx512_vbmi() noexcept { return kHasAvx512Vbmi; }

bool has_fast_streaming_stores() noexcept { return kHasFastStreamingStores; }

bool halves_wide_products() noexcept { return kIsZen4; }

CacheSizes cache_sizes() noexcept { return kCaches; }

std::vector<unsigned long> processors_of([[maybe_unused]] int thread) {
#if defined(__linux__)
  // Machines with more processors than a cpu_set_t holds need a larger mask: double it until the kernel accepts.
  for (std::size_t bits = CPU_SETSIZE; bits <= (std::size_t{1} << 20); bits *= 2) {
    std::vector<unsigned long> words(bits / (8 * sizeof(unsigned long)));
    auto* const set = reinterpret_cast<cpu_set_t*>(words.data());
    if (sched_getaffinity(thread, words.size() * sizeof(unsigned long), set) == 0) return words;
  }
#endif
  return {};
}

int usable_processor_count() {
  const int affinity = affinity_processor_count();
  const int limit = cgroup_processor_limit();
  return limit == 0 ? affinity : std::min(affinity, limit);
}

}  // namespace dmlcpu
