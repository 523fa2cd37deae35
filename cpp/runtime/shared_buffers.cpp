#include "runtime/shared_buffers.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

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

// Lists that were being changed cannot be walked, so that their entries are not freed: that is the little that each
// keeps of a buffer beside its bytes.
void SharedBuffers::forget_all() noexcept { std::construct_at(&entries_); }

// Waits as long as the system may not run a thread that holds the lock.
bool SharedBuffers::hold_lock() noexcept {
  constexpr int kAttempts = 1000;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (lock_.try_hold([this]() noexcept { forget_all(); })) return true;
    std::this_thread::yield();
  }
  return false;
}

std::shared_ptr<const AlignedBuffer> SharedBuffers::shared(AlignedBuffer buffer) {
  // All that takes long is done without the lock: comparing, allocating, and freeing what nobody holds any more.
  const std::size_t hash = hash_of(buffer);
  auto own = std::make_shared<const AlignedBuffer>(std::move(buffer));
  // Not by the lower bits: those of a product follow from the factors' lower bits alone.
  std::list<Entry>& entries = entries_[(hash >> 32) % kLists];
  std::list<Entry> entry, expired;
  entry.push_back({hash, own});
  // Held until the end, so that none of them expires and is taken for another.
  std::vector<std::shared_ptr<const AlignedBuffer>> compared;
  for (;;) {
    compared.push_back(nullptr);
    std::shared_ptr<const AlignedBuffer>& other = compared.back();
    if (!hold_lock()) return own;
    for (auto each = entries.begin(); each != entries.end() && !other;) {
      const auto here = each++;
      if (here->buffer.expired()) {
        expired.splice(expired.end(), entries, here);
      } else if (here->hash == hash) {
        other = here->buffer.lock();
        if (std::find(compared.begin(), compared.end() - 1, other) != compared.end() - 1) other = nullptr;
      }
    }
    if (!other) entries.splice(entries.end(), entry);
    lock_.release();
    if (!other) return own;
    if (other->size() == own->size() && std::memcmp(other->data(), own->data(), own->size()) == 0) return other;
  }
}

}  // namespace dmlcpu
