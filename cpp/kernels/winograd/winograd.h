// Convolution by windows of 3 x 3, steps of one pixel, with a quarter of the products: Winograd's F(4x4, 3x3). A tile
// of 6 x 6 codes becomes 36 numbers, a window of 3 x 3 codes of the filter likewise. Their products, summed over the
// input channels, become a tile of 4 x 4 outputs (Winograd 1980; Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015):
//
//   V = B' x B,  U = G w G',  M = sum over channels of U * V, number by number,  y = A' M A / 576
//
//        4  0 -5  0  1  0         1  0  0         6 -4 -4  1  1  0
//        0 -4 -4  1  1  0         1  1  1         0 -4  4  2 -2  0
//   B' = 0  4 -4 -1  1  0    G =  1 -1  1    A' = 0 -4 -4  4  4  0       each row of B' and G' has its place in the 36
//        0 -2 -1  2  1  0         1  2  4         0 -4  4  8 -8 24
//        0  2 -1 -2  1  0         1 -2  4
//        0  4  0 -5  0  1         0  0  1
//
// All of it is in integers, so that the sums are those of the plain convolution to the last bit:
//
//   codes       x in -128..127, w in -255..255 once the filter's zero point is taken off
//   V           rows of B' have magnitudes of 10 at most in all: 100 * 128 = 12800, within 16 bits
//   U           those of G of 7 at most: 49 * 255 = 12495, within 16 bits
//   M, A' M A   modulo 2^32. A pair of products is within 2 * 12800 * 12495 < 2^31, so that no step saturates
//   y           576 is 9 * 64. A multiplication by the inverse of 9 modulo 2^32 leaves 64 y modulo 2^32, of which a
//               shift makes y, as long as y is within -2^25 <= y < 2^25: of up to 224 channels by filters within
//               -128..127 (9 * 224 * 128 * 128 < 2^25), of up to 112 by others (9 * 112 * 128 * 255 < 2^25)
//
// The sums of more channels are added up modulo 2^32 from parts of so many. Factors of 2 and 4 that a row of A' has
// throughout are left out, and the shifts are shorter by them.
//
// Numbers stand in planes, one for each of the 36 places, `plane_stride` elements apart. An odd number of cache lines
// keeps 36 stores out of each other's way.
//
//   V    [place][tile][channel]                 16 bits
//   U    [place][channel / 2][nr][channel % 2]  16 bits, for a panel of nr output channels
//   M    [place][tile][nr]                      32 bits
//
// Contract: input channels are a multiple of 16 in V, which may have more than are multiplied, and of 4 in U and in
// products. Kernels write the planes, the sums and the pixels that they are asked for, nothing else. U is 64-byte
// aligned and its plane_stride a multiple of 64 bytes, and so are M and the sums.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dmlcpu {

inline constexpr std::size_t kWinogradPlaces = 36;
inline constexpr std::size_t kWinogradOutputs = 4;  // rows and columns of a tile of outputs; the tile before has 2 more
// Channels that are a step of every kernel: of V, and of U and the products.
inline constexpr std::size_t kWinogradChannels = 16, kWinogradChannelGroup = 4;
// Channels whose sums a shift recovers, see above.
inline constexpr std::size_t kWinogradMostChannels = 224, kWinogradMostChannelsOfAnyFilter = 112;

// V of neighbouring tiles: tile t begins 4 * t pixels behind codes. Reads 6 rows of 4 * tiles + 2 pixels.
struct WinogradInputRun {
  const std::uint8_t* codes;  // signed, the first channel
  std::size_t pixel_stride, row_stride;
  std::size_t tiles, channels;
  std::int16_t* planes;
  std::size_t plane_stride, tile_stride;  // in elements
};

// U of a panel. The filter is packed as gemm/gemm.h has it, a tap a segment: [tap][channel / 4][nr][channel % 4],
// signed codes, of which a panel may have more channels.
struct WinogradFilterRun {
  const std::uint8_t* filter;  // 64-byte aligned
  std::size_t tap_stride;
  std::size_t channels;
  const std::int32_t* zero_point;  // of each of the nr output channels, or null
  std::int16_t* planes;
  std::size_t plane_stride;  // in elements
};

// M of some tiles by a panel.
struct WinogradProductRun {
  const std::int16_t* activations;
  std::size_t activations_plane_stride, activations_tile_stride;  // in elements
  const std::int16_t* filter;
  std::size_t filter_plane_stride;
  std::size_t tiles, channels;
  std::int32_t* products;
  std::size_t products_plane_stride;
};

// The outputs of neighbouring tiles, for a panel. Tile t begins 4 * t pixels behind output.
struct WinogradOutputRun {
  const std::int32_t* products;
  std::size_t plane_stride;  // in elements
  std::size_t tiles;
  // What the channels before have left, or null: [tile][4 x 4 pixels][nr]. Without it sums begin with the offset.
  const std::int32_t* before;
  const std::int32_t* offset;  // nr of them
  // Where sums are left for the channels behind, may be `before`; null where they become codes:
  std::int32_t* after;
  // sat(rne(f32(sum) * multiplier) + output_zero_point), as gemm/gemm.h has it, flip and the domain of
  // output_zero_point included. `rows` of pixels, 1 to 4, and `columns`, which end within the last tile.
  const float* multiplier;  // nr of them, which are read in any case
  float output_zero_point;
  std::uint8_t flip;
  std::size_t rows, columns, channels;  // of the output; up to nr channels
  std::uint8_t* output;
  std::size_t pixel_stride, row_stride;
};

struct WinogradKernels {
  std::size_t nr;                // output channels of a panel
  std::size_t mr;                // tiles that are multiplied at a time
  std::size_t channels_of_step;  // input channels that take as long as fewer
  // For choices of algorithms: products a cycle, and cycles of an input channel of a tile, of an output channel of a
  // tile, and of a window of the filter.
  double products_per_cycle, cycles_of_input, cycles_of_output, cycles_of_window;
  void (*transform_input)(const WinogradInputRun& run) noexcept;
  void (*transform_filter)(const WinogradFilterRun& run) noexcept;
  void (*multiply)(const WinogradProductRun& run) noexcept;
  void (*transform_output)(const WinogradOutputRun& run) noexcept;
};

namespace scalar {
extern const WinogradKernels winograd;
}
namespace avx2 {
extern const WinogradKernels winograd;
}
namespace avx_vnni {
extern const WinogradKernels winograd;
}
namespace avx512_vnni {
extern const WinogradKernels winograd;
}

}  // namespace dmlcpu
