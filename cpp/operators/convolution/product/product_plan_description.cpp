// The words of a product plan.
#include <cmath>
#include <sstream>

#include "operators/convolution/product/product_plan.h"
#include "operators/plan_words.h"

namespace dmlcpu {
namespace {

const char* activations(const ConvolutionGeometry& geometry, const ProductCut& cut) {
  if (cut.source.from == ActivationsFrom::input) return "read in place from the input";
  if (cut.source.from == ActivationsFrom::gathered) return "gathered from the input, packed a tile at a time";
  if (cut.source.cells.are_windows) {
    return "read in place from a padded copy of the input, in which each window has its own rows";
  }
  if (cut.source.cells.pieces > 1) {
    return "read in place from a padded copy of the input, the channels of each group in whole steps of the kernel";
  }
  if (cut.source.cells.bytes != geometry.input_channels) {
    return "read in place from a padded copy of the input, its pixels whole steps of the kernel apart";
  }
  return cut.regions.empty() ? "read in place from a padded copy of the input"
                             : "read in place from an unsigned copy of the input";
}

// The taps of an image that are multiplied, in percent.
std::int64_t percent_of_taps(const ConvolutionGeometry& geometry, const ProductCut& cut) {
  if (cut.regions.empty()) return 100;
  std::int64_t taps = 0;
  for (const ProductRegion& region : cut.regions) taps += region.taps() * region.rows.count() * region.columns.count();
  return 100 * taps / (geometry.image_pixels() * static_cast<std::int64_t>(cut.filter.order.segments));
}

std::string reasons(const ProductCut& cut, bool reads_signed, bool leaves_taps_out) {
  std::string text;
  if (cut.source.from == ActivationsFrom::input && cut.source.obstacle != nullptr) {
    text = "in place because what is read behind a pixel is the next one and meets zeros in the filter";
    if (cut.source.gathers_end) text += ", the last gathered";
  } else if (cut.source.from == ActivationsFrom::input) {
    text = std::string("in place because every window's codes are ") + (reads_signed ? "signed" : "unsigned") +
           " neighbours in whole steps of the kernel";
  } else if (cut.source.from == ActivationsFrom::planes) {
    text = std::string("copied because ") + cut.source.obstacle;
  } else {
    text = std::string("gathered because ") + cut.source.obstacle + ", and not copied because " +
           cut.source.obstacle_to_copy;
  }
  if (!cut.regions.empty()) {
    text += std::string("; ") + (leaves_taps_out ? "taps left out" : "not gathered") + " because that saves " +
            std::to_string(std::lround(100.0 * cut.saved_by_regions)) + " % of the time by estimate";
  }
  return text;
}

}  // namespace

std::string describe_product_plan(const ConvolutionGeometry& geometry, const ExecutionTarget& target,
                                  const ProductPlan& plan) {
  const ProductCut& cut = plan.cut;
  const std::int64_t taps = percent_of_taps(geometry, cut);
  std::ostringstream text;
  text << "algorithm: matrix product over an implicit im2col"
       << (geometry.ends_in_sums() ? "" : ", requantized in the same pass")
       << "\nkernel: " << product_kernel_words(target) << "\nactivations: " << activations(geometry, cut)
       << (plan.copies.of_tiles ? ", for a tile at a time" : "")
       << "\nwhy: " << reasons(cut, plan.reads_signed, taps < 100)
       << "\nproduct: " << counted(geometry.reduction() / geometry.joined_groups, "term") << ", padded to "
       << cut.filter.order.k() << "; " << cut.blocks.count << " x " << cut.blocks.channels << " channels in "
       << (geometry.groups == 1 ? "1 group" : "each of " + counted(geometry.groups, "group"));
  if (geometry.joined_groups > 1) {
    text << ", each made of " << geometry.joined_groups
         << " of the operator's, because one's channels are a part of a step of k";
  }
  if (taps < 100) {
    text << "\npadding: taps in it are left out, in "
         << counted(static_cast<std::int64_t>(cut.regions.size()), "region") << " of the output; " << taps
         << " % of the taps remain";
  }
  text << "\ntile: " << (cut.regions.empty() ? "" : "up to ") << counted(cut.tiles.pixels, "output pixel")
       << (cut.regions.empty() && cut.tiles.units.bands(geometry) ? " of whole rows" : "") << ", "
       << tasks_on_threads(cut.tasks(), plan.scratch.participants);
  return text.str();
}

}  // namespace dmlcpu
