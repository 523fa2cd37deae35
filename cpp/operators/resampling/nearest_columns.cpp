#include "operators/resampling/nearest_columns.h"

#include <cstring>

#include "operators/sizes.h"

namespace dmlcpu {

NearestColumns::NearestColumns(std::span<const std::int32_t> places, std::size_t run)
    : places_(places), run_(run), doubled_(run == 1), stretch_(longest_stretch()) {
  for (std::size_t i = 0; i < places.size(); ++i) doubled_ &= as_size(places[i]) == i / 2;
}

// Of neighbours: a row whose margins repeat what is next to them is one such stretch between them.
NearestColumns::Stretch NearestColumns::longest_stretch() const {
  const auto step = static_cast<std::int32_t>(run_);
  Stretch longest{};
  for (std::size_t begin = 0, i = 1; i <= places_.size(); ++i) {
    if (i < places_.size() && places_[i] - places_[i - 1] == step) continue;
    if (i - begin > longest.end - longest.begin) longest = {begin, i};
    begin = i;
  }
  return longest;
}

void NearestColumns::copy(const std::uint8_t* __restrict source, std::uint8_t* __restrict output) const noexcept {
  const std::int32_t* places = places_.data();
  const std::size_t count = places_.size();
  if (doubled_) {
    for (std::size_t i = 0; i < count / 2; ++i) output[2 * i] = output[2 * i + 1] = source[i];
    if (count % 2 != 0) output[count - 1] = source[count / 2];
    return;
  }
  const auto copy_places = [&](std::size_t begin, std::size_t end) {
    if (run_ == 1) {
      for (std::size_t i = begin; i < end; ++i) output[i] = source[places[i]];
    } else {
      for (std::size_t i = begin; i < end; ++i) std::memcpy(output + i * run_, source + places[i], run_);
    }
  };
  copy_places(0, stretch_.begin);
  std::memcpy(output + stretch_.begin * run_, source + places[stretch_.begin], (stretch_.end - stretch_.begin) * run_);
  copy_places(stretch_.end, count);
}

}  // namespace dmlcpu
