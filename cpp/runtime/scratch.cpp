#include "runtime/scratch.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/aligned_buffer.h"

namespace dmlcpu {
namespace {

constexpr unsigned kWindow = 1 << 14;  // calls

class Scratch {
 public:
  std::uint8_t* take(std::size_t size) {
    largest_ = std::max(largest_, size);
    if (buffer_.size() < size) resize(size);
    if (++counted_ == kWindow) begin_window();
    return buffer_.data();
  }

 private:
  // Takes place in a step of a graph as well, where memory must not run short: what cannot shrink stays as it is.
  void begin_window() noexcept {
    counted_ = 0;
    const std::size_t needed = std::exchange(largest_, 0);
    if (buffer_.size() / 2 <= needed) return;
    try {
      buffer_ = AlignedBuffer(needed);
    } catch (const std::bad_alloc&) {
    }
  }

  void resize(std::size_t size) {
    buffer_ = AlignedBuffer();  // freed first: the old and the new never stand side by side
    buffer_ = AlignedBuffer(size);
  }

  AlignedBuffer buffer_;
  std::size_t largest_ = 0;  // taken in this window
  unsigned counted_ = 0;     // in this window
};

}  // namespace

std::uint8_t* thread_scratch(std::size_t size) {
  thread_local Scratch scratch;
  return scratch.take(size);
}

}  // namespace dmlcpu
