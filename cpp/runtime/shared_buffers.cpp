#include "runtime/shared_buffers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace dmlcpu {

namespace {

// Weights that differ do so almost everywhere: a few of their bytes tell them apart, and what these do not, the
// comparison of all does.
constexpr std::size_t kSamples = 64;

std::size_t hash_of(const AlignedBuffer& buffer) {
  const std::size_t step = std::max<std::size_t>(buffer.size() / kSamples, 1);
  std::uint64_t hash = buffer.size();
  for (std::size_t i = 0; i < buffer.size(); i += step) {  // FNV-1a
    hash = (hash ^ buffer.data()[i]) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

std::shared_ptr<const AlignedBuffer> SharedBuffers::shared(AlignedBuffer buffer) {
  const std::size_t hash = hash_of(buffer);
  auto own = std::make_shared<const AlignedBuffer>(std::move(buffer));
  const std::lock_guard lock(mutex_);
  std::erase_if(by_hash_, [](const auto& entry) { return entry.second.expired(); });
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto entry = begin; entry != end; ++entry) {
    std::shared_ptr<const AlignedBuffer> other = entry->second.lock();
    if (other && other->size() == own->size() && std::memcmp(other->data(), own->data(), own->size()) == 0) {
      return other;
    }
  }
  by_hash_.emplace(hash, own);
  return own;
}

}  // namespace dmlcpu
