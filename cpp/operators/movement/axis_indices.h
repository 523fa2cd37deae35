// Indices along an axis that a dispatch computes, or that its caller may change meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "operators/operator.h"
#include "runtime/data_type.h"

namespace dmlcpu {

// Throws std::invalid_argument unless what is taken by indices has the data type and rank of what it is taken from.
inline void check_taken(const OperatorDesc& desc, const TensorLayout& input, const TensorLayout& output) {
  if (input.type == output.type && input.rank == output.rank) return;
  throw std::invalid_argument(desc.type + ": input and output differ in data type or rank");
}

// The indices along an axis as they are read, and the first that a thread found to be out of range.
class AxisIndices {
 public:
  AxisIndices(const void* data, DataType type, std::int64_t length)
      : data_(data), wide_(type == DataType::int64), length_(length) {}

  // The place along the axis that the index at an element names; below 0 if it names none.
  std::int64_t place(std::int64_t element) const noexcept {
    const std::int64_t index = wide_ ? *(static_cast<const volatile std::int64_t*>(data_) + element)
                                     : *(static_cast<const volatile std::int32_t*>(data_) + element);
    if (index >= -length_ && index < length_) return index < 0 ? index + length_ : index;
    note_wrong(index);
    return -1;
  }

  // The same of an index that has been read, but the first place if it names none; length is the axis's, for a caller
  // that has it in a register.
  std::int64_t checked(std::int64_t index, std::int64_t length) const noexcept {
    const std::int64_t place = index < 0 ? index + length : index;
    if (place < 0 || place >= length) [[unlikely]] {
      note_wrong(index);
      return 0;
    }
    return place;
  }

  // Call when all threads are done. Throws std::out_of_range.
  void check() const {
    if (!is_wrong_.load(std::memory_order_relaxed)) return;
    throw std::out_of_range("got index " + std::to_string(wrong_index_.load(std::memory_order_relaxed)) +
                            ", expected one from " + std::to_string(-length_) + " to " + std::to_string(length_ - 1));
  }

 private:
  void note_wrong(std::int64_t index) const noexcept {
    if (!is_wrong_.exchange(true, std::memory_order_relaxed)) wrong_index_.store(index, std::memory_order_relaxed);
  }

  const void* data_;
  bool wide_;
  std::int64_t length_;
  mutable std::atomic<bool> is_wrong_{false};
  mutable std::atomic<std::int64_t> wrong_index_{0};
};

}  // namespace dmlcpu
