#include "runtime/aligned_buffer.h"

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace dmlcpu {

void ask_for_large_pages(std::uint8_t* bytes, std::size_t size) noexcept {
#if defined(__linux__)
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t head = (page - reinterpret_cast<std::uintptr_t>(bytes) % page) % page;
  if (size > head) madvise(bytes + head, (size - head) / page * page, MADV_HUGEPAGE);  // advice: it may fail
#else
  static_cast<void>(bytes);
  static_cast<void>(size);
#endif
}

AlignedBuffer::AlignedBuffer(std::size_t size) {
  if (size == 0) return;
  const bool is_large = size >= kLargePage;
  const std::align_val_t alignment{is_large ? kLargePage : kAlignment};
  bytes_ = {static_cast<std::uint8_t*>(::operator new(size, alignment)), Free{alignment}};
  size_ = size;
  if (is_large) ask_for_large_pages(bytes_.get(), size);
}

}  // namespace dmlcpu
