// How products of float32 are cut up, for kernels/float_product: tiles of rows of a meet panels of columns of b, a
// block of terms at a time.
//
// A block of a panel takes 32 KiB, which a level-1 cache holds while the rows of a tile pass by; theirs of the block
// take 64 KiB and their sums of the panel 32 KiB more, which are in the level-2 cache.
#pragma once

#include <cstdint>

namespace dmlcpu {

inline constexpr std::int64_t kFloatPanelColumns = 64, kFloatTileRows = 128, kFloatBlockTerms = 128;

}  // namespace dmlcpu
