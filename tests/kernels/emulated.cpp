#include "emulated.h"

#include "kernels/dispatch.h"

// The build renames the namespaces of these kernel files, so that they stand beside the library's own.
namespace dmlcpu::emulated_amx_int8 {
extern const GemmKernels gemm;
}
namespace dmlcpu::emulated_avx512_vbmi {
extern const DepthwisePlanesKernels depthwise_planes;
}
namespace dmlcpu::emulated_avx512_vnni {
extern const DepthwiseWindowKernels depthwise_window;
extern const GemmKernels gemm;
}  // namespace dmlcpu::emulated_avx512_vnni
namespace dmlcpu::emulated_avx_vnni {
extern const FewChannelsKernels few_channels;
extern const GemmKernels gemm;
extern const WinogradKernels winograd;
}  // namespace dmlcpu::emulated_avx_vnni

namespace dmlcpu::test {

namespace {

template <class Kernels>
void add(std::vector<EmulatedKernels>& all, const char* isa, const char* family, const Kernels& kernels,
         const Kernels* KernelTable::* member, void (*check)(Check&)) {
  all.push_back({isa, family, kernel_table(Isa::scalar), check});
  all.back().table.*member = &kernels;
}

}  // namespace

std::vector<EmulatedKernels> emulated_kernels() {
  std::vector<EmulatedKernels> kernels;
#if defined(DMLCPU_EMULATED_AMX_INT8)
  add(kernels, "amx_int8", "gemm", emulated_amx_int8::gemm, &KernelTable::gemm, check_gemm);
#endif
#if defined(DMLCPU_EMULATED_AVX512_VBMI)
  add(kernels, "avx512_vbmi", "depthwise_planes", emulated_avx512_vbmi::depthwise_planes,
      &KernelTable::depthwise_planes, check_depthwise_planes);
#endif
#if defined(DMLCPU_EMULATED_AVX512_VNNI)
  add(kernels, "avx512_vnni", "gemm", emulated_avx512_vnni::gemm, &KernelTable::gemm, check_gemm);
  add(kernels, "avx512_vnni", "depthwise_window", emulated_avx512_vnni::depthwise_window,
      &KernelTable::depthwise_window, check_depthwise_window);
#endif
#if defined(DMLCPU_EMULATED_AVX_VNNI)
  if (unavailable_reason(Isa::avx2).empty()) {
    add(kernels, "avx_vnni", "few_channels", emulated_avx_vnni::few_channels, &KernelTable::few_channels,
        check_few_channels);
    add(kernels, "avx_vnni", "gemm", emulated_avx_vnni::gemm, &KernelTable::gemm, check_gemm);
    add(kernels, "avx_vnni", "winograd", emulated_avx_vnni::winograd, &KernelTable::winograd, check_winograd);
  }
#endif
  return kernels;
}

}  // namespace dmlcpu::test
