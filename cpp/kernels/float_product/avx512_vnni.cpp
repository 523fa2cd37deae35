// float_product.h for AVX-512: tiles of 4 rows and up to 64 columns, or of one row and up to 128, so that many steps
// are under way at once. Bound by the fused units where b comes from a level-1 cache.
#include <immintrin.h>

#include "kernels/float_product/float_product.h"

#ifndef __AVX512VNNI__
#error "compile with AVX512-VNNI"
#endif

namespace dmlcpu {
namespace {

#include "kernels/masked_floats/avx512_vnni.inl.h"

constexpr std::size_t kVectors = 4, kRowVectors = 8;

#include "kernels/float_product/tiles.inl.h"

}  // namespace

constinit const FloatProductKernels avx512_vnni::float_product = {.accumulate = accumulate};

}  // namespace dmlcpu
