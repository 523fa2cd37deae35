// The one owner of raw memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace dmlcpu {

// A cache line, and the largest vector register.
inline constexpr std::size_t kAlignment = 64;

// Rounds up to a multiple. The caller's values are sizes of memory that exists or was checked, far below overflow.
constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Uninitialised bytes, 64-byte aligned, owned. Throws std::bad_alloc.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size)
      : bytes_(size == 0 ? nullptr : static_cast<std::uint8_t*>(::operator new(size, std::align_val_t{kAlignment}))),
        size_(size) {}

  std::uint8_t* data() const noexcept { return bytes_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  struct Free {
    void operator()(std::uint8_t* bytes) const noexcept { ::operator delete(bytes, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<std::uint8_t, Free> bytes_;
  std::size_t size_ = 0;
};

}  // namespace dmlcpu
