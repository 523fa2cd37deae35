// What one core can do at most, measured, for Python through ctypes: 8-bit products a second of each instruction set,
// and bytes read and written.
//
// Vector instruction sets: independent multiply-adds on registers. AMX: blocks of 2 x 2 tiles whose operands are loaded
// from a level-1 cache, one load for each product, as any kernel has to.
#include <immintrin.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

// The loops of vector instruction sets are written out, since a compiler may compute equal sums once or spill them.
// Registers keep whatever they held: integer products take the same time for every value.
constexpr int kSteps = 4096;

// Each runs kSteps steps and returns the multiplications and additions that it did.
using Loop = double (*)();

#define DMLCPU_LOOP(body) \
  __asm__ volatile("mov %0, %%ecx\n1:\n" body "dec %%ecx\njnz 1b\n" : : "i"(kSteps) : "ecx", DMLCPU_CLOBBERS)
#define DMLCPU_CLOBBERS                                                                                               \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
      "xmm14", "xmm15"

// Exact products of full-range codes: bytes widened to 16 bits before, vpmaddwd, vpaddd.
double avx2() {
#define DMLCPU_STEP(n) "vpmaddwd %%ymm15, %%ymm14, %%ymm" #n "\nvpaddd %%ymm" #n ", %%ymm1" #n ", %%ymm1" #n "\n"
  DMLCPU_LOOP(DMLCPU_STEP(0) DMLCPU_STEP(1) DMLCPU_STEP(2) DMLCPU_STEP(3));
#undef DMLCPU_STEP
  return 2.0 * 16 * 4 * kSteps;
}

double avx_vnni() {
#define DMLCPU_STEP(n) "%{vex%} vpdpbusd %%ymm15, %%ymm14, %%ymm" #n "\n"
  DMLCPU_LOOP(DMLCPU_STEP(0) DMLCPU_STEP(1) DMLCPU_STEP(2) DMLCPU_STEP(3) DMLCPU_STEP(4) DMLCPU_STEP(5) DMLCPU_STEP(6)
                  DMLCPU_STEP(7) DMLCPU_STEP(8) DMLCPU_STEP(9) DMLCPU_STEP(10) DMLCPU_STEP(11));
#undef DMLCPU_STEP
  return 2.0 * 32 * 12 * kSteps;
}

#undef DMLCPU_CLOBBERS
#define DMLCPU_CLOBBERS                                                                                               \
  "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11", "zmm12", "zmm13", \
      "zmm14", "zmm15"

__attribute__((target("avx512f"))) double avx512_vnni() {
#define DMLCPU_STEP(n) "vpdpbusd %%zmm31, %%zmm30, %%zmm" #n "\n"
  DMLCPU_LOOP(DMLCPU_STEP(0) DMLCPU_STEP(1) DMLCPU_STEP(2) DMLCPU_STEP(3) DMLCPU_STEP(4) DMLCPU_STEP(5) DMLCPU_STEP(6)
                  DMLCPU_STEP(7) DMLCPU_STEP(8) DMLCPU_STEP(9) DMLCPU_STEP(10) DMLCPU_STEP(11) DMLCPU_STEP(12)
                      DMLCPU_STEP(13) DMLCPU_STEP(14) DMLCPU_STEP(15));
#undef DMLCPU_STEP
  return 2.0 * 64 * 16 * kSteps;
}

#undef DMLCPU_CLOBBERS
#undef DMLCPU_LOOP

#if defined(__linux__)
struct alignas(64) TileConfiguration {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};

__attribute__((target("amx-tile,amx-int8"))) double amx_int8() {
  constexpr int kStateTileData = 18, kRequestPermission = 0x1023;
  syscall(SYS_arch_prctl, kRequestPermission, kStateTileData);
  TileConfiguration tiles = {};
  tiles.palette = 1;
  for (int tile = 0; tile < 8; ++tile) {
    tiles.row_bytes[tile] = 64;
    tiles.rows[tile] = 16;
  }
  __asm__ volatile("" : : "r"(&tiles) : "memory");
  _tile_loadconfig(&tiles);
  alignas(64) static std::uint8_t operands[4 * 4][1024];  // 16 KiB
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int step = 0; step < kSteps; ++step) {
    const auto* base = operands[step % 4 * 4];
    _tile_loadd(6, base, 64);
    _tile_loadd(4, base + 1024, 64);
    _tile_dpbusd(0, 4, 6);
    _tile_loadd(7, base + 2048, 64);
    _tile_dpbusd(1, 4, 7);
    _tile_loadd(5, base + 3072, 64);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
  return 2.0 * 16 * 16 * 64 * 4 * kSteps;
}
#endif

// A step reads some cache lines and writes some: the exclusive or of what it read, so that no read is left out.
using Line = unsigned __attribute__((vector_size(64), aligned(1), may_alias));

template <int reads, int writes>
inline __attribute__((always_inline)) void copy_lines(const Line* input, Line* output, std::size_t steps) {
  for (std::size_t step = 0; step < steps; ++step) {
    Line line = input[step * reads];
    for (int i = 1; i < reads; ++i) line ^= input[step * reads + i];
    for (int i = 0; i < writes; ++i) output[step * writes + i] = line;
  }
}

template <int reads, int writes>
__attribute__((target("avx512f"))) void copy_by_64(const Line* input, Line* output, std::size_t steps) {
  copy_lines<reads, writes>(input, output, steps);
}

template <int reads, int writes>
void copy(const void* input, void* output, std::size_t steps) {
  const auto* lines = static_cast<const Line*>(input);
  if (__builtin_cpu_supports("avx512f")) return copy_by_64<reads, writes>(lines, static_cast<Line*>(output), steps);
  copy_lines<reads, writes>(lines, static_cast<Line*>(output), steps);
}

Loop loop_of(const char* isa) {
  if (std::strcmp(isa, "avx2") == 0) return avx2;
  if (std::strcmp(isa, "avx_vnni") == 0) return avx_vnni;
  if (std::strcmp(isa, "avx512_vnni") == 0) return avx512_vnni;
#if defined(__linux__)
  if (std::strcmp(isa, "amx_int8") == 0) return amx_int8;
#endif
  return nullptr;
}

}  // namespace

// Multiplications and additions a second, the best of some short loops; 0 for an instruction set without a limit here.
// The caller knows that this machine has the instruction set.
extern "C" __attribute__((visibility("default"))) double operations_per_second(const char* isa) {
  const Loop loop = loop_of(isa);
  if (loop == nullptr) return 0.0;
  double best = 0.0;
  for (int repeat = 0; repeat < 200; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    const double operations = loop();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (operations / elapsed.count() > best) best = operations / elapsed.count();
  }
  return best;
}

// How long one core takes to read so many bytes, the best of some passes over a buffer of that size.
extern "C" __attribute__((visibility("default"), target("avx2"))) double seconds_to_read(std::size_t bytes) {
  const std::vector<std::uint64_t> buffer(bytes / 8 + 32, 1);
  double best = 1e9;
  for (int repeat = 0; repeat < 30; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    __m256i sum[4] = {};
    for (std::size_t i = 0; i + 16 <= buffer.size(); i += 16) {
      for (std::size_t v = 0; v < 4; ++v) {
        sum[v] = _mm256_add_epi64(sum[v], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&buffer[i + 4 * v])));
      }
    }
    __asm__ volatile("" : : "x"(sum[0]), "x"(sum[1]), "x"(sum[2]), "x"(sum[3]));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (elapsed.count() < best) best = elapsed.count();
  }
  return best;
}

// Reads input_size bytes and writes output_size, one a multiple of the other up to 4, in one pass; what is left of a
// step is not touched. Returns false for other sizes.
extern "C" __attribute__((visibility("default"))) bool copy_bytes(const void* input, std::size_t input_size,
                                                                  void* output, std::size_t output_size) {
  const bool shrinks = input_size > output_size;
  const std::size_t steps = (shrinks ? output_size : input_size) / sizeof(Line);
  switch (shrinks ? input_size / output_size : output_size / input_size) {
    case 1:
      copy<1, 1>(input, output, steps);
      return true;
    case 2:
      shrinks ? copy<2, 1>(input, output, steps) : copy<1, 2>(input, output, steps);
      return true;
    case 4:
      shrinks ? copy<4, 1>(input, output, steps) : copy<1, 4>(input, output, steps);
      return true;
    default:
      return false;
  }
}
