// The one owner of raw memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace dmlcpu {

// A cache line, and the largest vector register.
inline constexpr std::size_t kAlignment = 64;

// Rounds up to a multiple, modulo 2^64: sizes of memory that exists, and those of axes, are far below overflow.
constexpr std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// What the system's large pages are, mostly. Memory in large pages is mapped many times as fast, and streams of it are
// not stopped at the end of each small one: a product with 16 MiB of weights that no cache holds takes 0.8 of the time.
inline constexpr std::size_t kLargePage = std::size_t{2} << 20;

// Uninitialised bytes, 64-byte aligned, owned. From the size of a large page on they are a mapping of their own, on
// Linux, which is advised to be large pages. Throws OutOfMemory.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size);

  std::uint8_t* data() const noexcept { return bytes_.get(); }
  std::size_t size() const noexcept { return bytes_ == nullptr ? 0 : bytes_.get_deleter().size; }

 private:
  struct Free {
    std::size_t size;
    void operator()(std::uint8_t* bytes) const noexcept;
  };
  std::unique_ptr<std::uint8_t, Free> bytes_{nullptr, Free{0}};
};

}  // namespace dmlcpu
