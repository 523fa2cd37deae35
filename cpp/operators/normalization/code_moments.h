// The mean and the deviation of codes by their moments.
//
// Zero points cancel out. Of n codes q the sums S1 of q and S2 of q^2 are exact, and so is n^2 times their variance,
// n * S2 - S1^2. In float64, each operation rounded once:
//
//   variance = (n * S2 - S1^2) / (n * n);    factor = scale / sqrt(scale * scale * variance + epsilon)
//   mean = S1 / n
//
// Equal codes are their mean, and the factor is 0 then, unless it is infinite or no number: a small epsilon would make
// it so large that the rounding of mean * factor to float32 were more than a code.
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
  const std::uint64_t spread = squares - moments.sum * moments.sum;
  const double variance = static_cast<double>(spread) / (length * length);
  const double factor = scale / std::sqrt(scale * scale * variance + epsilon);
  return {static_cast<double>(moments.sum) / length, spread == 0 && std::isfinite(factor) ? 0.0 : factor};
}

}  // namespace dmlcpu
