// The mean and the deviation of codes by their moments.
//
// Zero points cancel out. Of n codes q the sums S1 of q and S2 of q^2 are exact, and so is n^2 times their variance,
// n * S2 - S1^2. In float64, each operation rounded once:
//
//   variance = (n * S2 - S1^2) / (n * n);    factor = scale / sqrt(scale * scale * variance + epsilon)
//   mean = S1 / n
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/layer_normalization/layer_normalization.h"

namespace dmlcpu {

// Up to here n * S2 and S1^2 are below 2^62.
inline constexpr std::size_t kMostCodes = std::size_t{1} << 23;

struct CodeDistribution {
  double mean;    // of the codes
  double factor;  // of a code less the mean
};

inline CodeDistribution distribution_of(const CodeMoments& moments, std::size_t count, double scale,
                                        double epsilon) noexcept {
  const auto length = static_cast<double>(count);
  const std::uint64_t squares = static_cast<std::uint64_t>(count) * moments.sum_of_squares;
  const double variance = static_cast<double>(squares - moments.sum * moments.sum) / (length * length);
  return {static_cast<double>(moments.sum) / length, scale / std::sqrt(scale * scale * variance + epsilon)};
}

}  // namespace dmlcpu
