// The normative arithmetic of float_functions.h in plain C++.
#include <cstring>

#include "kernels/float_functions/float_functions.h"

namespace dmlcpu {
namespace {

#include "kernels/lanes/scalar.inl.h"
// after the lanes
#include "kernels/lanes/functions.inl.h"
// after the functions
#include "kernels/lanes/trigonometry.inl.h"
// after both
#include "kernels/float_functions/runs.inl.h"

}  // namespace

constinit const FloatFunctionKernels scalar::float_functions = kRuns;

}  // namespace dmlcpu
