// AMX's tiles in plain C++, by the names of the compiler's intrinsics. What the processor would refuse ends the
// program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbusd
#undef _tile_dpbssd
#undef _tile_dpbsud
#define _tile_loadconfig emulated_tile_loadconfig
#define _tile_release emulated_tile_release
#define _tile_loadd emulated_tile_loadd
#define _tile_stream_loadd emulated_tile_loadd
#define _tile_stored emulated_tile_stored
#define _tile_zero emulated_tile_zero
#define _tile_dpbusd emulated_tile_product<std::uint8_t, std::int8_t>
#define _tile_dpbssd emulated_tile_product<std::int8_t, std::int8_t>
#define _tile_dpbsud emulated_tile_product<std::int8_t, std::uint8_t>

#pragma GCC push_options
#pragma GCC optimize("O2")  // as in avx512/immintrin.h
namespace {

struct EmulatedTile {
  std::size_t rows, row_bytes;
  std::uint8_t bytes[16][64];
};

struct EmulatedTiles {
  bool configured;
  EmulatedTile tiles[8];
};

[[maybe_unused]] EmulatedTiles& emulated_tiles() {
  static EmulatedTiles state = {};
  return state;
}

[[maybe_unused]] void emulated_require(bool holds, const char* rule) {
  if (holds) return;
  std::fprintf(stderr, "AMX would fault: %s\n", rule);
  std::abort();
}

[[maybe_unused]] EmulatedTile& emulated_tile(int index) {
  emulated_require(emulated_tiles().configured, "no tile configuration is loaded");
  return emulated_tiles().tiles[index];
}

// Byte 0 is the palette; 16-bit row lengths begin at byte 16, row counts at byte 48. Loading zeroes the tiles.
[[maybe_unused]] void emulated_tile_loadconfig(const void* configuration) {
  const auto* bytes = static_cast<const std::uint8_t*>(configuration);
  emulated_require(bytes[0] == 1, "the palette is 1");
  EmulatedTiles& state = emulated_tiles();
  emulated_require(!state.configured, "tiles were released after the last product");
  std::memset(&state, 0, sizeof(state));
  state.configured = true;
  for (int i = 0; i < 8; ++i) {
    std::uint16_t row_bytes;
    std::memcpy(&row_bytes, bytes + 16 + 2 * i, sizeof(row_bytes));
    const std::uint8_t rows = bytes[48 + i];
    emulated_require(rows <= 16 && row_bytes <= 64 && (rows == 0) == (row_bytes == 0),
                     "a tile has up to 16 x 64 bytes");
    state.tiles[i].rows = rows;
    state.tiles[i].row_bytes = row_bytes;
  }
}

[[maybe_unused]] void emulated_tile_release() { emulated_tiles().configured = false; }

[[maybe_unused]] void emulated_tile_zero(int index) {
  std::memset(emulated_tile(index).bytes, 0, sizeof(EmulatedTile::bytes));
}

[[maybe_unused]] void emulated_tile_loadd(int index, const void* base, std::size_t stride) {
  EmulatedTile& tile = emulated_tile(index);
  emulated_tile_zero(index);
  for (std::size_t row = 0; row < tile.rows; ++row) {
    std::memcpy(tile.bytes[row], static_cast<const std::uint8_t*>(base) + row * stride, tile.row_bytes);
  }
}

[[maybe_unused]] void emulated_tile_stored(int index, void* base, std::size_t stride) {
  const EmulatedTile& tile = emulated_tile(index);
  for (std::size_t row = 0; row < tile.rows; ++row) {
    std::memcpy(static_cast<std::uint8_t*>(base) + row * stride, tile.bytes[row], tile.row_bytes);
  }
}

template <class A, class B>
void emulated_tile_product(int c_index, int a_index, int b_index) {
  EmulatedTile &c = emulated_tile(c_index), &a = emulated_tile(a_index), &b = emulated_tile(b_index);
  emulated_require(c_index != a_index && c_index != b_index && a_index != b_index, "the tiles are three");
  emulated_require(c.rows == a.rows && c.row_bytes == b.row_bytes && a.row_bytes == b.rows * 4, "tile shapes match");
  for (std::size_t row = 0; row < c.rows; ++row) {
    for (std::size_t column = 0; column < c.row_bytes / 4; ++column) {
      std::uint32_t sum;
      std::memcpy(&sum, c.bytes[row] + column * 4, sizeof(sum));
      for (std::size_t k = 0; k < a.row_bytes; ++k) {
        const int product = static_cast<A>(a.bytes[row][k]) * static_cast<B>(b.bytes[k / 4][column * 4 + k % 4]);
        sum += static_cast<std::uint32_t>(product);
      }
      std::memcpy(c.bytes[row] + column * 4, &sum, sizeof(sum));
    }
  }
}

}  // namespace
#pragma GCC pop_options
