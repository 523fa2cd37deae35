// Memory that tells when a kernel leaves its operand.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace dmlcpu::test {

// Where an operand touches a page that faults.
enum class Edge { begin, end };

inline constexpr std::uint8_t kCanary = 0xa5;

// Elements between two inaccessible pages, flush with one of them. All bytes, and those of the margin towards the other
// page, start as the canary.
template <class T>
class GuardedBuffer {
 public:
  GuardedBuffer(std::size_t count, Edge edge) : count_(count) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    accessible_size_ = (count * sizeof(T) / page + 1) * page;
    mapped_size_ = accessible_size_ + 2 * page;
    void* mapping = mmap(nullptr, mapped_size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    mapping_ = static_cast<std::uint8_t*>(mapping);
    accessible_ = mapping_ + page;
    if (mprotect(accessible_, accessible_size_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    std::memset(accessible_, kCanary, accessible_size_);
    std::uint8_t* first = edge == Edge::begin ? accessible_ : accessible_ + accessible_size_ - count * sizeof(T);
    data_ = reinterpret_cast<T*>(first);
  }

  // A read-only operand: writing to it faults as well.
  GuardedBuffer(const std::vector<T>& values, Edge edge) : GuardedBuffer(values.size(), edge) {
    if (!values.empty()) std::memcpy(data_, values.data(), values.size() * sizeof(T));
    mprotect(accessible_, accessible_size_, PROT_READ);
  }

  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;
  ~GuardedBuffer() { munmap(mapping_, mapped_size_); }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }

  // Whether the bytes outside the elements are as they were at first.
  bool margins_intact() const {
    const std::uint8_t* first = reinterpret_cast<const std::uint8_t*>(data_);
    const std::uint8_t* last = first + count_ * sizeof(T);
    for (const std::uint8_t* byte = accessible_; byte != accessible_ + accessible_size_; ++byte) {
      if ((byte < first || byte >= last) && *byte != kCanary) return false;
    }
    return true;
  }

 private:
  std::size_t count_;
  std::size_t mapped_size_ = 0;
  std::size_t accessible_size_ = 0;
  std::uint8_t* mapping_ = nullptr;
  std::uint8_t* accessible_ = nullptr;
  T* data_ = nullptr;
};

// What an output holds before the kernel runs: expected values replace the elements that it has to write.
template <class T>
std::vector<T> canaries(std::size_t count) {
  std::vector<T> values(count);
  if (count != 0) std::memset(values.data(), kCanary, count * sizeof(T));
  return values;
}

}  // namespace dmlcpu::test
