// float_product.h for AVX2 with FMA: tiles of 4 rows and up to 16 columns, or of one row and up to 64, so that eight
// steps are under way at once.
#include <immintrin.h>

#include "kernels/float_product/float_product.h"

#ifndef __FMA__
#error "compile with AVX2 and FMA"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx2.inl.h"

constexpr std::size_t kVectors = 2, kRowVectors = 8;

#include "kernels/float_product/tiles.inl.h"

}  // namespace

constinit const FloatProductKernels avx2::float_product = {.accumulate = accumulate};

}  // namespace dmlcpu
