// The normative arithmetic of cast.h in plain C++.
#include "kernels/cast/cast.h"

namespace dmlcpu {
namespace {

#include "kernels/cast/elements.inl.h"

}  // namespace

constinit const CastKernels scalar::cast = kRuns;

}  // namespace dmlcpu
