#include "operators/convolution/convolution_choice.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <stdexcept>

#include "operators/convolution/product/product_plan.h"
#include "operators/convolution/staged_convolution.h"
#include "operators/product_rate.h"
#include "operators/sizes.h"

namespace dmlcpu {
namespace {

bool always(const ConvolutionGeometry&, const ExecutionTarget&) { return true; }

// Which tensors are brought into channels that are neighbours, where they are not.
Staging neither(const ConvolutionGeometry&, const ExecutionTarget&) { return {.input = false, .output = false}; }
Staging both(const ConvolutionGeometry& geometry, const ExecutionTarget&) {
  return {.input = reads_most(geometry), .output = true};
}
// Products read the input of a pointwise convolution, and write any output, in whichever memory they are in; but where
// threads divide the channels of the output, each would transpose the same input.
Staging input_of_product(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  const bool transposes_once = !geometry.pointwise() || (target.num_threads > 1 && divides_channels(geometry));
  return {.input = transposes_once && reads_most(geometry), .output = false};
}

// What the work is estimated by: groups of four taps, or products.
enum class Work : std::uint8_t { taps, products };

struct AlgorithmRow {
  AppliesTo* applies;
  MakeAlgorithm* make;
  Staging (*staging)(const ConvolutionGeometry& geometry, const ExecutionTarget& target);
  Work work;
  // Threads write small parts of the planes that a staged output is transposed back to. Winograd's tasks are whole rows
  // of tiles, or channels.
  bool shares_planes;
};

// The first that applies is taken. A channel of its own for each output channel shares nothing between channels: a
// matrix product would be one column, and a few columns in groups of a few channels.
constexpr AlgorithmRow kAlgorithms[] = {
    {depthwise_volumes_applies, make_depthwise_window_convolution, both, Work::taps, true},
    {depthwise_planes_applies, make_depthwise_planes_convolution, neither, Work::taps, false},
    {depthwise_applies, make_depthwise_convolution, both, Work::taps, true},
    {repeated_planes_applies, make_repeated_planes_convolution, neither, Work::taps, false},
    {repeated_channels_applies, make_repeated_channels_convolution, both, Work::taps, true},
    {grouped_applies, make_grouped_convolution, both, Work::products, true},
    {few_channels_applies, make_few_channels_convolution, neither, Work::products, false},
    {winograd_applies, make_winograd_convolution, both, Work::products, false},
    {planar_product_applies, make_planar_product_convolution, neither, Work::products, false},
    {always, make_product_convolution, input_of_product, Work::products, false},
};

// Throws std::invalid_argument for a convolution of volumes that no algorithm computes.
const AlgorithmRow& row_of(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  if (geometry.of_volumes() && !depthwise_volumes_applies(geometry, target)) {
    throw std::invalid_argument("a convolution of volumes by windows that no kernel has");
  }
  return *std::ranges::find_if(kAlgorithms, [&](const AlgorithmRow& row) { return row.applies(geometry, target); });
}

constexpr double kCyclesPerMicrosecond = 3000;
// Pixels of a thread below which threads share too many of the cache lines at the ends of their parts of each plane.
constexpr std::int64_t kLeastPixelsOfPlane = 256;

struct ThreadChoice {
  double cycles;
  bool shares_planes;
  ExecutionTarget target;
};

ThreadChoice choose_threads(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  constexpr double kCyclesOfOutput = 0.2, kCyclesOfTapGroup = 0.13;
  const AlgorithmRow& row = row_of(geometry, target);
  const auto terms = as_number(geometry.reduction()), channels = as_number(geometry.output_channels);
  const double outputs = as_number(geometry.batch) * as_number(geometry.image_pixels()) * channels;
  const double cycles = row.work == Work::taps
                            ? outputs * (kCyclesOfOutput + kCyclesOfTapGroup * std::ceil(terms / 4.0))
                            : estimated_product_cycles(outputs, terms, channels * terms, target);
  const bool shares_planes = row.shares_planes && geometry.output.c != 1 && geometry.batch == 1;
  double most = cycles / kLeastCyclesOfConvolution;
  if (shares_planes) most = std::min(most, static_cast<double>(geometry.image_pixels() / kLeastPixelsOfPlane));
  return {cycles, shares_planes, with_at_most(most, target)};
}

}  // namespace

std::unique_ptr<ConvolutionAlgorithm> choose_algorithm(const ConvolutionGeometry& geometry,
                                                       const ExecutionTarget& target) {
  const ExecutionTarget chosen = choose_threads(geometry, target).target;
  const AlgorithmRow& row = row_of(geometry, chosen);
  return make_staged_convolution(geometry, row.staging(geometry, chosen), chosen, row.make);
}

std::string threads_that_pay(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  const ThreadChoice choice = choose_threads(geometry, target);
  const bool are_all = choice.target.num_threads == target.num_threads;
  const double microseconds = choice.cycles / kCyclesPerMicrosecond;
  std::ostringstream text;
  text << "at most " << choice.target.num_threads << " of " << target.num_threads
       << (are_all ? ", for work" : " because the work is") << " estimated at " << std::fixed
       << std::setprecision(microseconds < 10 ? 1 : 0) << microseconds << " us";
  if (are_all) return text.str();
  text << ", and less than " << std::setprecision(0) << kLeastCyclesOfConvolution / kCyclesPerMicrosecond
       << " us a thread do not pay";
  if (choice.shares_planes) text << ", nor parts of less than " << kLeastPixelsOfPlane << " pixels of a plane";
  return text.str();
}

}  // namespace dmlcpu
