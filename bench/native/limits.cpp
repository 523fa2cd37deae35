// What one core can do at most, measured: 8-bit products a second of each instruction set, for Python through ctypes.
//
// Vector instruction sets: independent multiply-adds on registers. AMX: blocks of 2 x 2 tiles whose operands are loaded
// from a level-1 cache, one load for each product, as any kernel has to.
#include <immintrin.h>

#include <chrono>
#include <cstdint>
#include <cstring>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

// Accumulators begin with different values: equal ones would be computed once.
constexpr int kSteps = 4096;

// Each runs kSteps steps and returns the multiplications and additions that it did.
using Loop = double (*)();

std::int32_t sink[12 * 16];

__attribute__((target("avx2"))) double avx2() {
  // Exact products of full-range codes: bytes widened to 16 bits, vpmaddwd, vpaddd.
  __m256i acc_i32x8[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) acc_i32x8[i] = _mm256_set1_epi32(i);
  __m256i a_i16x16 = _mm256_set1_epi16(3), b_i16x16 = _mm256_set1_epi16(5);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      __asm__ volatile("" : "+x"(a_i16x16), "+x"(b_i16x16));
      acc_i32x8[i] = _mm256_add_epi32(acc_i32x8[i], _mm256_madd_epi16(a_i16x16, b_i16x16));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(sink + 8 * i), acc_i32x8[i]);
  return 2.0 * 16 * 8 * kSteps;
}

__attribute__((target("avx2,avxvnni"))) double avx_vnni() {
  __m256i acc_i32x8[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) acc_i32x8[i] = _mm256_set1_epi32(i);
  __m256i a_x32 = _mm256_set1_epi8(3), b_x32 = _mm256_set1_epi8(5);
  for (int step = 0; step < kSteps; ++step) {
    __asm__ volatile("" : "+x"(a_x32), "+x"(b_x32));
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) {
      acc_i32x8[i] = _mm256_dpbusd_avx_epi32(acc_i32x8[i], a_x32, b_x32);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(sink + 8 * i), acc_i32x8[i]);
  return 2.0 * 32 * 12 * kSteps;
}

__attribute__((target("avx512f,avx512vnni"))) double avx512_vnni() {
  __m512i acc_i32x16[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) acc_i32x16[i] = _mm512_set1_epi32(i);
  __m512i a_x64 = _mm512_set1_epi32(0x03030303), b_x64 = _mm512_set1_epi32(0x05050505);
  for (int step = 0; step < kSteps; ++step) {
    __asm__ volatile("" : "+v"(a_x64), "+v"(b_x64));
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) {
      acc_i32x16[i] = _mm512_dpbusd_epi32(acc_i32x16[i], a_x64, b_x64);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) _mm512_storeu_si512(sink + 16 * i, acc_i32x16[i]);
  return 2.0 * 64 * 12 * kSteps;
}

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
