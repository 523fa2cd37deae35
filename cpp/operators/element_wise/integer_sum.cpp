#include "operators/element_wise/integer_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "runtime/fork_count.h"

namespace dmlcpu {
namespace {

// Of both factors together: t (kernels/add/add.h) takes up 5/8 of its range, the offset may be anywhere in the rest.
constexpr std::int64_t kMostFactors = 20480;
// Codes before saturation are below 2^15 in magnitude: 255 times the steps, the zero point and roundings.
constexpr double kMostSteps = 127.0;
constexpr float kLeastMultiplier = 0x1p-15F;
constexpr std::size_t kPairs = 65536;

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

// The codes of all pairs.
class AllPairs {
 public:
  AllPairs() : codes_(2 * kPairs) {
    for (std::size_t pair = 0; pair < kPairs; ++pair) {
      codes_[pair] = static_cast<std::uint8_t>(pair & 255);
      codes_[kPairs + pair] = static_cast<std::uint8_t>(pair >> 8);
    }
  }

  void add(AddFunction function, AddRun run, std::size_t first, std::size_t count, std::uint8_t* output) const {
    run.a = codes_.data() + first;
    run.b = codes_.data() + kPairs + first;
    run.output = output;
    run.count = count;
    function(run);
  }

 private:
  std::vector<std::uint8_t> codes_;
};

bool is_positive_scale(const AddOperand& operand) { return std::isnormal(operand.scale) && operand.scale > 0.0F; }

// The factors and the multiplier of parameters; both are positive.
std::optional<IntegerSum> factors_of(const AddOperand& a, const AddOperand& b, const AddOperand& output) {
  if (!is_positive_scale(a) || !is_positive_scale(b) || !is_positive_scale(output)) return std::nullopt;
  const double a_step = static_cast<double>(a.scale) / static_cast<double>(output.scale);
  const double b_step = static_cast<double>(b.scale) / static_cast<double>(output.scale);
  if (a_step + b_step > kMostSteps) return std::nullopt;
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

// Sets offset and addend. At the zero points of the inputs the product of 2^23 + t and the multiplier should be a whole
// number, which the addend takes out. As t is whole as well, it is beside one by up to half of the multiplier. The
// offset may move t to some hundred of such places, though: it is the one where the distance is nearest to the bias.
bool place_zero(IntegerSum& integers, const AddRun& parameters, double bias) {
  constexpr double kMostTried = 256.0;
  const auto zero_point = [](const AddOperand& operand) { return static_cast<std::int64_t>(operand.zero_point); };
  const std::int64_t a_factor = integers.a_factor, b_factor = integers.b_factor;
  const std::int64_t lowest =
      (1 << 23) + a_factor * zero_point(parameters.a_parameters) + b_factor * zero_point(parameters.b_parameters);
  const std::int64_t most_offset = (1 << 23) - 1 - 255 * (a_factor + b_factor);
  const auto multiplier = static_cast<double>(integers.multiplier);
  const double first = std::ceil(static_cast<double>(lowest) * multiplier), inverse = 1.0 / multiplier;
  double least_distance = std::numeric_limits<double>::infinity();
  for (double whole = first; whole < first + kMostTried; ++whole) {
    const auto place = static_cast<std::int64_t>(whole * inverse + 0.5);
    if (place - lowest > most_offset) break;
    const double distance = std::abs(static_cast<double>(place) * multiplier - whole - bias);
    if (place < lowest || distance >= least_distance) continue;
    least_distance = distance;
    integers.offset = static_cast<std::int32_t>(place - lowest);
    integers.addend =
        static_cast<float>(0x1.8p23 + static_cast<double>(parameters.output_parameters.zero_point) - whole);
  }
  return std::isfinite(least_distance);
}

}  // namespace

std::optional<IntegerSum> find_integer_sum(const AddKernels& kernels, const AddRun& parameters) {
  const std::optional<IntegerSum> factors =
      factors_of(parameters.a_parameters, parameters.b_parameters, parameters.output_parameters);
  if (!factors) return std::nullopt;

  const AllPairs pairs;
  std::vector<std::uint8_t> expected(kPairs);
  pairs.add(kernels.run, parameters, 0, kPairs, expected.data());
  const auto make_the_same = [&](const IntegerSum& integers) {
    AddRun run = parameters;
    run.integers = integers;
    std::array<std::uint8_t, 4096> codes;
    for (std::size_t first = 0; first < kPairs; first += codes.size()) {
      pairs.add(kernels.run_integers, run, first, codes.size(), codes.data());
      if (std::memcmp(codes.data(), expected.data() + first, codes.size()) != 0) return false;
    }
    return true;
  };
  // Neighbours, as float32 arithmetic is off by as much: so many floats from the multiplier, so many biases of codes.
  // In the order in which they serve most of what those before do not, of 4000 parameters drawn at random.
  struct Nudge {
    int multiplier_steps, biases;
  };
  constexpr double kBias = 0x1p-18;
  constexpr Nudge kNudges[] = {{0, 0},   {1, 0},   {-1, 0}, {-1, 4}, {2, -7}, {0, -1}, {0, 2},
                               {2, 0},   {-1, -2}, {-3, 6}, {3, -9}, {-2, 6}, {-3, 0}, {2, -11},
                               {-2, 10}, {1, 1},   {1, -2}, {3, -3}, {-3, 9}, {-2, 7}};
  for (const Nudge& nudge : kNudges) {
    IntegerSum integers = *factors;
    const std::int32_t bits = std::bit_cast<std::int32_t>(integers.multiplier) + nudge.multiplier_steps;
    integers.multiplier = std::bit_cast<float>(bits);
    if (integers.multiplier < kLeastMultiplier || !place_zero(integers, parameters, nudge.biases * kBias)) continue;
    if (make_the_same(integers)) return integers;
  }
  return std::nullopt;
}

bool IntegerSums::are_same(const Parameters& parameters, const AddRun& run) {
  const auto is_same = [](const AddOperand& one, const AddOperand& other) {
    return one.scale == other.scale && one.zero_point == other.zero_point && one.flip == other.flip;
  };
  return is_same(parameters.a, run.a_parameters) && is_same(parameters.b, run.b_parameters) &&
         is_same(parameters.output, run.output_parameters);
}

bool IntegerSums::try_hold() noexcept {
  return lock_.try_hold([this]() noexcept { forget(); });
}

void IntegerSums::forget() noexcept {
  comes_again_ = has_looked_ = false;
  looking_.reset();
  added_ = 0;
  found_.reset();
}

const char* IntegerSums::words() {
  constexpr const char* kInFloats = "in floats, until parameters have come again";
  if (!try_hold()) return kInFloats;
  const char* const words = found_        ? "in integers, which make the same codes of all pairs"
                            : has_looked_ ? "in floats, as integers make other codes of some pairs"
                                          : kInFloats;
  lock_.release();
  return words;
}

AddFunction IntegerSums::function_for(AddRun& run, std::size_t count) {
  constexpr std::size_t kLeastAdded = 4 * kPairs;
  if (!try_hold()) return kernels_.run;
  if (!are_same(last_, run)) {
    last_ = {run.a_parameters, run.b_parameters, run.output_parameters};
    forget();
  }
  added_ = std::min(added_ + count, kLeastAdded);
  const bool looks = comes_again_ && looking_ != fork_count() && !has_looked_ && added_ == kLeastAdded;
  if (looks) looking_ = fork_count();
  comes_again_ = true;
  std::optional<IntegerSum> integers = found_;
  lock_.release();

  if (looks) {
    try {
      integers = find_integer_sum(kernels_, run);
    } catch (const std::bad_alloc&) {  // floats need no memory
      return kernels_.run;
    }
    if (try_hold()) {
      if (are_same(last_, run)) {
        found_ = integers;
        has_looked_ = true;
      }
      lock_.release();
    }
  }
  if (!integers) return kernels_.run;
  run.integers = *integers;
  return kernels_.run_integers;
}

}  // namespace dmlcpu
