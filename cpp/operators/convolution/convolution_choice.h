// Which algorithm computes a quantized convolution, and with how many threads: all that is decided of it before one of
// the files of algorithms plans the rest.
#pragma once

#include <memory>
#include <string>

#include "operators/convolution/convolution_algorithm.h"

namespace dmlcpu {

// The first algorithm of the table that applies, for the threads of the target that pay.
std::unique_ptr<ConvolutionAlgorithm> choose_algorithm(const ConvolutionGeometry& geometry,
                                                       const ExecutionTarget& target);

// How many threads pay, and why, in words.
std::string threads_that_pay(const ConvolutionGeometry& geometry, const ExecutionTarget& target);

}  // namespace dmlcpu
