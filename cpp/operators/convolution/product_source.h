// Where the activations of a product come from: the input as it stands, a padded copy of it, or windows that are
// gathered; and with which kernels it is faster. Chosen by what the input's memory allows and by estimates of cycles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "operators/convolution/product_plan.h"

namespace dmlcpu {

// Pixels of a tile, unless more are read and written in place.
inline constexpr std::int64_t kMostTilePixels = 256;

// Whether no window reaches into the padding.
bool windows_inside(const ConvolutionGeometry& geometry);

// Whether so many images are one flat stretch, of the output and of an input that is read in place.
bool is_uniform(const ConvolutionGeometry& geometry, ActivationsFrom source, std::int64_t images);

// The order of terms that are read in place: kernel rows whose codes are neighbours, or taps where those of a row are
// not.
TermOrder order_in_place(const ConvolutionGeometry& geometry, const GemmKernels& kernels);

// Why the input does not have the segments of windows as whole steps of codes that are neighbours and that products
// read as they are: flip is 0 for these. Null if it has.
const char* obstacle_in_codes(const ConvolutionGeometry& geometry, const TermOrder& order, std::uint8_t flip);

// An estimate of an image's cycles, for windows of k terms that are gathered tap by tap.
double cycles_of_gathering(const ConvolutionGeometry& geometry, const GemmKernels& kernels, double k);

// Sets what a plan says of its activations: their source, with the cells or the padding of segments that it has, what
// keeps products from reading the input or a copy, and the order of terms, with the filter in it.
void choose_source(const ConvolutionGeometry& geometry, const GemmKernels& kernels, std::uint8_t flip,
                   bool input_is_aligned, ProductPlan& plan);

// The target, with the row of kernels whose product is faster by estimate.
ExecutionTarget target_of_products(const ConvolutionGeometry& geometry, ExecutionTarget target);

}  // namespace dmlcpu
