#include "operators/strides/nibble_staging.h"

#include <algorithm>

namespace dmlcpu {
namespace {

std::uint8_t load_one(const std::uint8_t* packed, std::int64_t index, std::uint8_t flip) {
  return static_cast<std::uint8_t>((packed[index / 2] >> (index % 2 * 4) & 15) ^ flip);
}

void store_one(std::uint8_t code, std::uint8_t* packed, std::int64_t index, std::uint8_t flip) {
  const auto shift = static_cast<int>(index % 2 * 4);
  const int nibble = (std::min<int>(code, 15) ^ flip) << shift;
  packed[index / 2] = static_cast<std::uint8_t>((packed[index / 2] & ~(15 << shift)) | nibble);
}

}  // namespace

void load_nibbles(const NibblesKernels& kernels, const void* packed, const NibbleRun& run, std::uint8_t* codes) {
  const auto* data = static_cast<const std::uint8_t*>(packed);
  if (run.stride != 1) {
    for (std::size_t i = 0; i < run.count; ++i) {
      codes[i] = load_one(data, run.index + static_cast<std::int64_t>(i) * run.stride, run.flip);
    }
    return;
  }
  const std::size_t alone = run.index % 2 != 0 && run.count != 0 ? 1 : 0;
  if (alone != 0) codes[0] = load_one(data, run.index, run.flip);
  kernels.unpack(data + (run.index + 1) / 2, run.count - alone, run.flip, codes + alone);
}

void store_nibbles(const NibblesKernels& kernels, const std::uint8_t* codes, const NibbleRun& run, void* packed) {
  auto* data = static_cast<std::uint8_t*>(packed);
  if (run.stride != 1) {
    for (std::size_t i = 0; i < run.count; ++i) {
      store_one(codes[i], data, run.index + static_cast<std::int64_t>(i) * run.stride, run.flip);
    }
    return;
  }
  const std::size_t alone = run.index % 2 != 0 && run.count != 0 ? 1 : 0;
  if (alone != 0) store_one(codes[0], data, run.index, run.flip);
  kernels.pack(codes + alone, run.count - alone, run.flip, data + (run.index + 1) / 2);
}

}  // namespace dmlcpu
