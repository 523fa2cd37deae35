#include "emulated.h"

#include "kernels/dispatch.h"

// The build renames the namespaces of these kernel files, so that they stand beside the library's own.
namespace dmlcpu::emulated_amx_int8 {
extern const GemmKernels gemm;
}
namespace dmlcpu::emulated_avx_vnni {
extern const GemmKernels gemm;
}

namespace dmlcpu::test {

std::vector<EmulatedGemm> emulated_gemms() {
  std::vector<EmulatedGemm> gemms;
#if defined(DMLCPU_EMULATED_KERNELS)
  if (unavailable_reason(Isa::avx512_vnni).empty()) gemms.push_back({"amx_int8", &emulated_amx_int8::gemm});
  if (unavailable_reason(Isa::avx2).empty()) gemms.push_back({"avx_vnni", &emulated_avx_vnni::gemm});
#endif
  return gemms;
}

}  // namespace dmlcpu::test
