#include "emulated.h"

#include "kernels/dispatch.h"

// The build renames the namespaces of these kernel files, so that they stand beside the library's own.
namespace dmlcpu::emulated_amx_int8 {
extern const GemmKernels gemm;
}
namespace dmlcpu::emulated_avx512_vnni {
extern const DepthwiseWindowKernels depthwise_window;
extern const GemmKernels gemm;
}  // namespace dmlcpu::emulated_avx512_vnni
namespace dmlcpu::emulated_avx_vnni {
extern const GemmKernels gemm;
extern const WinogradKernels winograd;
}  // namespace dmlcpu::emulated_avx_vnni

namespace dmlcpu::test {

std::vector<EmulatedKernels> emulated_kernels() {
  std::vector<EmulatedKernels> kernels;
#if defined(DMLCPU_EMULATED_KERNELS)
  const auto add_gemm = [&](const char* isa, const GemmKernels& gemm) {
    kernels.push_back({isa, "gemm", kernel_table(Isa::scalar), check_gemm});
    kernels.back().table.gemm = &gemm;
  };
  add_gemm("amx_int8", emulated_amx_int8::gemm);
  add_gemm("avx512_vnni", emulated_avx512_vnni::gemm);
  if (unavailable_reason(Isa::avx2).empty()) {
    add_gemm("avx_vnni", emulated_avx_vnni::gemm);
    kernels.push_back({"avx_vnni", "winograd", kernel_table(Isa::scalar), check_winograd});
    kernels.back().table.winograd = &emulated_avx_vnni::winograd;
  }
  kernels.push_back({"avx512_vnni", "depthwise_window", kernel_table(Isa::scalar), check_depthwise_window});
  kernels.back().table.depthwise_window = &emulated_avx512_vnni::depthwise_window;
#endif
  return kernels;
}

}  // namespace dmlcpu::test
