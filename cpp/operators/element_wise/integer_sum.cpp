#include "operators/element_wise/integer_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "operators/element_wise/integer_search.h"

namespace dmlcpu {
namespace {

// Of both factors together: t (kernels/add/add.h) takes up 5/8 of its range, the offset may be anywhere in the rest.
constexpr std::int64_t kMostFactors = 20480;

struct Fraction {
  std::int64_t numerator, denominator;
};

// The closest one to a positive number, of integers whose sum is at most so much: the last convergent of the continued
// fraction, or the last one between it and the next.
Fraction closest_fraction(double number, std::int64_t most_sum) {
  Fraction before = {0, 1}, last = {1, 0};
  for (double rest = number;;) {
    const double whole = std::floor(rest);
    const std::int64_t most = (most_sum - before.numerator - before.denominator) / (last.numerator + last.denominator);
    const bool is_beyond = whole > static_cast<double>(most);
    const std::int64_t steps = is_beyond ? most : static_cast<std::int64_t>(whole);
    const Fraction next = {before.numerator + steps * last.numerator, before.denominator + steps * last.denominator};
    if (is_beyond) {
      const auto distance = [&](const Fraction& fraction) {
        return std::abs(static_cast<double>(fraction.numerator) / static_cast<double>(fraction.denominator) - number);
      };
      return last.denominator == 0 || (steps != 0 && distance(next) < distance(last)) ? next : last;
    }
    before = last;
    last = next;
    const double fraction = rest - whole;
    if (fraction < 0x1p-30) return last;
    rest = 1.0 / fraction;
  }
}

// The factors and the multiplier of parameters; both are positive.
std::optional<IntegerSum> factors_of(const AddOperand& a, const AddOperand& b, const AddOperand& output) {
  if (!is_positive_scale(a) || !is_positive_scale(b) || !is_positive_scale(output)) return std::nullopt;
  const double a_step = static_cast<double>(a.scale) / static_cast<double>(output.scale);
  const double b_step = static_cast<double>(b.scale) / static_cast<double>(output.scale);
  if (255.0 * (a_step + b_step) > kMostBeforeZeroPoint) return std::nullopt;
  // The multiplier is about the sum of the steps by that of the factors.
  const std::int64_t most_sum =
      std::min(kMostFactors, static_cast<std::int64_t>((a_step + b_step) / static_cast<double>(kLeastMultiplier)));
  const double ratio = static_cast<double>(a.scale) / static_cast<double>(b.scale);
  if (std::max(ratio, 1.0 / ratio) >= static_cast<double>(most_sum)) return std::nullopt;

  const Fraction factors = closest_fraction(ratio, most_sum);
  // A power of two leaves multipliers exact where the steps are: sums at ties then are the same as well.
  const auto most_multiple = static_cast<std::uint64_t>(most_sum / (factors.numerator + factors.denominator));
  const auto multiple = static_cast<std::int64_t>(std::bit_floor(most_multiple));
  const std::int64_t a_factor = multiple * factors.numerator, b_factor = multiple * factors.denominator;
  const double multiplier =
      a_factor > b_factor ? a_step / static_cast<double>(a_factor) : b_step / static_cast<double>(b_factor);
  return IntegerSum{.a_factor = static_cast<std::int16_t>(a_factor),
                    .b_factor = static_cast<std::int16_t>(b_factor),
                    .offset = 0,
                    .multiplier = static_cast<float>(multiplier),
                    .addend = 0.0F};
}

}  // namespace

std::optional<IntegerSum> find_integers(const AddKernels& kernels, const AddRun& parameters) {
  const AddOperand &a = parameters.a_parameters, &b = parameters.b_parameters;
  const std::optional<IntegerSum> factors = factors_of(a, b, parameters.output_parameters);
  if (!factors) return std::nullopt;
  const std::int64_t a_factor = factors->a_factor, b_factor = factors->b_factor;
  const std::int64_t at_zero_points =
      a_factor * static_cast<std::int64_t>(a.zero_point) + b_factor * static_cast<std::int64_t>(b.zero_point);
  const std::int64_t most_offset = kPlaces - 1 - 255 * (a_factor + b_factor);
  return first_of_the_same_codes(kernels, parameters, *factors,
                                 {.at_zero_points = at_zero_points, .least = 0, .most = most_offset});
}

}  // namespace dmlcpu
