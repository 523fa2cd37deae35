// The row of a resampled image whose weights are all 0, by the places of what it copies from a row of the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dmlcpu {

class NearestColumns {
 public:
  NearestColumns() = default;
  // From each place so many neighbouring elements of a byte, one run after the other. The places outlive it.
  NearestColumns(std::span<const std::int32_t> places, std::size_t run);

  // Whether all places follow each other.
  bool in_order() const { return stretch_.end - stretch_.begin == places_.size(); }
  void copy(const std::uint8_t* source, std::uint8_t* output) const noexcept;

 private:
  struct Stretch {
    std::size_t begin, end;
  };
  Stretch longest_stretch() const;

  std::span<const std::int32_t> places_;
  std::size_t run_ = 1;
  bool doubled_ = false;  // each element twice
  Stretch stretch_{};     // of places that are copied at once
};

}  // namespace dmlcpu
