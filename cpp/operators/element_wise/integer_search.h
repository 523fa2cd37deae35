// The search for integers that make the same codes as floats do of all 65536 pairs (kernels/add, kernels/multiply).
//
// The integer t of a pair goes by 2^23 + t, a multiplier and an addend to its code. How the scales give t's factors and
// the multiplier is each operator's own; offset and addend are found here, and all pairs are tried.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

namespace dmlcpu {

// What the kernels ask of multipliers, and of codes before saturation: these are at most 2^15 - 128 in magnitude if the
// numbers that zero points are added to are at most this.
inline constexpr float kLeastMultiplier = 0x1p-15F;
inline constexpr double kMostBeforeZeroPoint = 32768.0 - 128.0 - 256.0;
// t and 2^23 + t are integers of 24 bits.
inline constexpr std::int64_t kPlaces = 1 << 23;

// Whether a search makes sense, for any operand or output.
template <class Operand>
bool is_positive_scale(const Operand& operand) {
  return std::isnormal(operand.scale) && operand.scale > 0.0F;
}

// Where t is at the zero points of both inputs without an offset, and the offsets that leave it within 0..2^23 - 1 for
// all pairs.
struct OffsetRange {
  std::int64_t at_zero_points, least, most;
};

// Sets offset and addend. At the zero points of the inputs the product of 2^23 + t and the multiplier should be a whole
// number, which the addend takes out. As t is whole as well, it is beside one by up to half of the multiplier. The
// offset may move t to some hundred of such places, though: it is the one where the distance is nearest to the bias.
template <class Integers>
bool place_zero(Integers& integers, const OffsetRange& offsets, float output_zero_point, double bias) {
  constexpr double kMostTried = 256.0;
  const std::int64_t lowest = kPlaces + offsets.at_zero_points + offsets.least;
  const std::int64_t highest = kPlaces + offsets.at_zero_points + offsets.most;
  const auto multiplier = static_cast<double>(integers.multiplier);
  const double first = std::ceil(static_cast<double>(lowest) * multiplier), inverse = 1.0 / multiplier;
  double least_distance = std::numeric_limits<double>::infinity();
  for (double whole = first; whole < first + kMostTried; ++whole) {
    const auto place = static_cast<std::int64_t>(whole * inverse + 0.5);
    if (place > highest) break;
    const double distance = std::abs(static_cast<double>(place) * multiplier - whole - bias);
    if (place < lowest || distance >= least_distance) continue;
    least_distance = distance;
    integers.offset = static_cast<std::int32_t>(place - kPlaces - offsets.at_zero_points);
    integers.addend = static_cast<float>(0x1.8p23 + static_cast<double>(output_zero_point) - whole);
  }
  return std::isfinite(least_distance);
}

// The codes of all pairs.
class AllPairs {
 public:
  static constexpr std::size_t kCount = 65536;

  AllPairs() : codes_(2 * kCount) {
    for (std::size_t pair = 0; pair < kCount; ++pair) {
      codes_[pair] = static_cast<std::uint8_t>(pair & 255);
      codes_[kCount + pair] = static_cast<std::uint8_t>(pair >> 8);
    }
  }

  template <class Run>
  void run(void (*function)(const Run&) noexcept, Run run, std::size_t first, std::size_t count,
           std::uint8_t* output) const {
    run.a = codes_.data() + first;
    run.b = codes_.data() + kCount + first;
    run.output = output;
    run.count = count;
    function(run);
  }

 private:
  std::vector<std::uint8_t> codes_;
};

// The first integers that make the same codes as the parameters of the run, of up to 20 beside those given, of which
// offset and addend are still open. Each is tried by the time of 65536 codes at most.
template <class Kernels, class Run, class Integers>
std::optional<Integers> first_of_the_same_codes(const Kernels& kernels, const Run& parameters, const Integers& given,
                                                const OffsetRange& offsets) {
  const AllPairs pairs;
  std::vector<std::uint8_t> expected(AllPairs::kCount);
  pairs.run(kernels.run, parameters, 0, AllPairs::kCount, expected.data());
  const auto make_the_same = [&](const Integers& integers) {
    Run run = parameters;
    run.integers = integers;
    std::array<std::uint8_t, 4096> codes;
    for (std::size_t first = 0; first < AllPairs::kCount; first += codes.size()) {
      pairs.run(kernels.run_integers, run, first, codes.size(), codes.data());
      if (std::memcmp(codes.data(), expected.data() + first, codes.size()) != 0) return false;
    }
    return true;
  };
  // Neighbours, as float32 arithmetic is off by as much: so many floats from the multiplier, so many biases of codes.
  // In the order in which they serve most of what those before do not, of 4000 parameters of sums drawn at random.
  struct Nudge {
    int multiplier_steps, biases;
  };
  constexpr double kBias = 0x1p-18;
  constexpr Nudge kNudges[] = {{0, 0},   {1, 0},   {-1, 0}, {-1, 4}, {2, -7}, {0, -1}, {0, 2},
                               {2, 0},   {-1, -2}, {-3, 6}, {3, -9}, {-2, 6}, {-3, 0}, {2, -11},
                               {-2, 10}, {1, 1},   {1, -2}, {3, -3}, {-3, 9}, {-2, 7}};
  for (const Nudge& nudge : kNudges) {
    Integers integers = given;
    const std::int32_t bits = std::bit_cast<std::int32_t>(integers.multiplier) + nudge.multiplier_steps;
    integers.multiplier = std::bit_cast<float>(bits);
    if (integers.multiplier < kLeastMultiplier) continue;
    if (!place_zero(integers, offsets, parameters.output_parameters.zero_point, nudge.biases * kBias)) continue;
    if (make_the_same(integers)) return integers;
  }
  return std::nullopt;
}

}  // namespace dmlcpu
