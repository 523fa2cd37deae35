#include "operators/element_wise/integer_product.h"

#include <algorithm>
#include <cstdint>

#include "operators/element_wise/integer_search.h"

namespace dmlcpu {

std::optional<IntegerProduct> find_integers(const MultiplyKernels& kernels, const MultiplyRun& parameters) {
  const MultiplyOperand &a = parameters.a_parameters, &b = parameters.b_parameters;
  const MultiplyOperand& output = parameters.output_parameters;
  if (!is_positive_scale(a) || !is_positive_scale(b) || !is_positive_scale(output)) return std::nullopt;
  const double multiplier =
      static_cast<double>(a.scale) * static_cast<double>(b.scale) / static_cast<double>(output.scale);
  constexpr double kMostProduct = 255.0 * 255.0;
  if (multiplier * kMostProduct > kMostBeforeZeroPoint || multiplier < static_cast<double>(kLeastMultiplier)) {
    return std::nullopt;
  }

  // Products at the ends of both ranges of codes: the least and the most are among them.
  const auto a_least = -static_cast<std::int64_t>(a.zero_point), a_most = a_least + 255;
  const auto b_least = -static_cast<std::int64_t>(b.zero_point), b_most = b_least + 255;
  const auto [least, most] = std::minmax({a_least * b_least, a_least * b_most, a_most * b_least, a_most * b_most});
  const IntegerProduct integers = {.offset = 0, .multiplier = static_cast<float>(multiplier), .addend = 0.0F};
  return first_of_the_same_codes(kernels, parameters, integers,
                                 {.at_zero_points = 0, .least = -least, .most = kPlaces - 1 - most});
}

}  // namespace dmlcpu
