// Where the tiles of Winograd's algorithm stand along an axis of the output.
//
// Outputs as far apart as the taps of a dilated window read what the outputs between them do not: an axis is as many
// convolutions of neighbouring taps as the dilation (its phases), each of every such output. A tile has outputs of one
// phase, and the tiles of a phase follow each other.
//
//   9 outputs, dilation 2     phase 0   [0 2 4 6] [8 - - -]     phase 1   [1 3 5 7]
#pragma once

#include <cstdint>

#include "kernels/winograd/winograd.h"
#include "operators/sizes.h"

namespace dmlcpu {

struct TileAxis {
  std::int64_t outputs, dilation;

  static constexpr std::int64_t kOutputs = static_cast<std::int64_t>(kWinogradOutputs), kInputs = kOutputs + 2;

  // Of a phase from a tile on: the tile's first output, and how many outputs and tiles there are.
  struct Place {
    std::int64_t first, outputs, tiles;
  };

  std::int64_t tiles() const {
    return longer_phases() * tiles_of(outputs_of_phase() + 1) +
           (dilation - longer_phases()) * tiles_of(outputs_of_phase());
  }

  Place place(std::int64_t tile) const {
    const std::int64_t of_longer = longer_phases() * tiles_of(outputs_of_phase() + 1);
    const bool is_longer = tile < of_longer;
    const std::int64_t count = outputs_of_phase() + (is_longer ? 1 : 0), tiles = tiles_of(count);
    if (!is_longer) tile -= of_longer;
    const std::int64_t phase = (is_longer ? 0 : longer_phases()) + tile / tiles, index = tile % tiles;
    return {phase + index * kOutputs * dilation, count - index * kOutputs, tiles - index};
  }

  // Positions of the padded input, to the end of what the tiles of the last phase would read if it were a longer one.
  std::int64_t padded_inputs() const {
    return dilation * (tiles_of(divide_up(outputs, dilation)) * kOutputs + kInputs - kOutputs);
  }

 private:
  std::int64_t outputs_of_phase() const { return outputs / dilation; }
  // The first ones, which have an output more.
  std::int64_t longer_phases() const { return outputs % dilation; }
  static std::int64_t tiles_of(std::int64_t count) { return divide_up(count, kOutputs); }
};

}  // namespace dmlcpu
