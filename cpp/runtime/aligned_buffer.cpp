#include "runtime/aligned_buffer.h"

#include "runtime/out_of_memory.h"
#include "runtime/recycled_memory.h"

// The address sanitizer finds what is touched past the end of what operator new allocates, not of mappings.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DMLCPU_CHECKS_ADDRESSES
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define DMLCPU_CHECKS_ADDRESSES
#endif

#if defined(__linux__) && !defined(DMLCPU_CHECKS_ADDRESSES)
#define DMLCPU_MAPS_LARGE_PAGES
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace dmlcpu {
namespace {

#ifdef DMLCPU_MAPS_LARGE_PAGES
// Asked for when the library is loaded: were it at the first use, a fork() amid that would leave the child waiting.
const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

// What mappings begin and end at.
std::size_t whole_pages(std::size_t size) { return round_up(size, kPage); }

// Memory of its own mapping, which goes back to the system as a whole: among the C library's it would leave gaps.
std::uint8_t* map_large_pages(std::size_t size) {
  if (size > PTRDIFF_MAX - 2 * kLargePage) throw std::bad_alloc();
  const std::size_t mapped = whole_pages(size) + kLargePage;
  void* const mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::uint8_t*>(mapping);
  const std::size_t head = (kLargePage - reinterpret_cast<std::uintptr_t>(begin) % kLargePage) % kLargePage;
  // Where these fail, no page of theirs was ever touched.
  if (head != 0) munmap(begin, head);
  munmap(begin + head + whole_pages(size), kLargePage - head);
  madvise(begin + head, whole_pages(size), MADV_HUGEPAGE);  // advice: it may fail
  return begin + head;
}
#endif

std::uint8_t* allocate_once(std::size_t size) {
#ifdef DMLCPU_MAPS_LARGE_PAGES
  if (size >= kLargePage) return map_large_pages(size);
#endif
  return static_cast<std::uint8_t*>(::operator new(size, std::align_val_t{kAlignment}));
}

std::uint8_t* allocate(std::size_t size) {
  try {
    return allocate_once(size);
  } catch (const std::bad_alloc&) {
    if (!give_up_recycled_memory()) throw OutOfMemory(size);
  }
  try {
    return allocate_once(size);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(size);
  }
}

}  // namespace

AlignedBuffer::AlignedBuffer(std::size_t size) : bytes_(size == 0 ? nullptr : allocate(size), Free{size}) {}

void AlignedBuffer::Free::operator()(std::uint8_t* bytes) const noexcept {
#ifdef DMLCPU_MAPS_LARGE_PAGES
  if (size >= kLargePage) {
    // A process that has as many mappings as it may have cannot cut one in two: then its pages go back alone.
    if (munmap(bytes, whole_pages(size)) != 0) madvise(bytes, whole_pages(size), MADV_DONTNEED);
    return;
  }
#endif
  ::operator delete(bytes, std::align_val_t{kAlignment});
}

}  // namespace dmlcpu
