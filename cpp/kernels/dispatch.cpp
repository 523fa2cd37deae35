#include "kernels/dispatch.h"

#include <array>

#include "runtime/cpu_features.h"

#if defined(__AVX__)
#error "dispatch.cpp is compiled for the baseline: it runs before the CPU has been asked"
#endif

namespace dmlcpu {
namespace {

// THE table: rows worst to best, in the order of enum Isa. A cell that borrows a lower row's kernel says so. A cell
// left out does not compile (-Werror=missing-field-initializers).
constexpr std::array<KernelTable, kIsaCount> kTable = {{
    {.isa = Isa::scalar,
     .gemm = &scalar::gemm,
     .depthwise = &scalar::depthwise,
     .pack = &scalar::pack,
     .nibbles = &scalar::nibbles,
     .quantize = &scalar::quantize,
     .dequantize = &scalar::dequantize,
     .add = &scalar::add,
     .multiply = &scalar::multiply,
     .range = &scalar::range,
     .table = &scalar::table,
     .table_with_vbmi = &scalar::table},
#if defined(DMLCPU_X86_KERNELS)
    {.isa = Isa::avx2,
     .gemm = &avx2::gemm,
     .depthwise = &avx2::depthwise,
     .pack = &avx2::pack,
     .nibbles = &avx2::nibbles,
     .quantize = &avx2::quantize,
     .dequantize = &avx2::dequantize,
     .add = &avx2::add,
     .multiply = &avx2::multiply,
     .range = &avx2::range,
     .table = &avx2::table,
     .table_with_vbmi = &avx2::table},
    {.isa = Isa::avx_vnni,
     .gemm = &avx_vnni::gemm,
     .depthwise = &avx2::depthwise,
     .pack = &avx2::pack,
     .nibbles = &avx2::nibbles,
     .quantize = &avx2::quantize,
     .dequantize = &avx2::dequantize,
     .add = &avx2::add,
     .multiply = &avx2::multiply,
     .range = &avx2::range,
     .table = &avx2::table,
     .table_with_vbmi = &avx2::table},
    {.isa = Isa::avx512_vnni,
     .gemm = &avx512_vnni::gemm,
     .depthwise = &avx512_vnni::depthwise,
     .pack = &avx512_vnni::pack,
     .nibbles = &avx512_vnni::nibbles,
     .quantize = &avx512_vnni::quantize,
     .dequantize = &avx512_vnni::dequantize,
     .add = &avx512_vnni::add,
     .multiply = &avx512_vnni::multiply,
     .range = &avx512_vnni::range,
     .table = &avx512_vnni::table,
     .table_with_vbmi = &avx512_vbmi::table},
    {.isa = Isa::amx_int8,
     .gemm = &amx_int8::gemm,
     .depthwise = &avx512_vnni::depthwise,
     .pack = &avx512_vnni::pack,
     .nibbles = &avx512_vnni::nibbles,
     .quantize = &avx512_vnni::quantize,
     .dequantize = &avx512_vnni::dequantize,
     .add = &avx512_vnni::add,
     .multiply = &avx512_vnni::multiply,
     .range = &avx512_vnni::range,
     .table = &avx512_vnni::table,
     .table_with_vbmi = &avx512_vbmi::table},
#endif
}};

std::array<std::string, kIsaCount> find_reasons() {
  std::array<std::string, kIsaCount> reasons;
  for (std::size_t i = 0; i < kIsaCount; ++i) {
    reasons[i] = kTable[i].gemm == nullptr ? "this build has no kernels for it" : missing_feature(static_cast<Isa>(i));
  }
  return reasons;
}

}  // namespace

const KernelTable& kernel_table(Isa isa) noexcept { return kTable[static_cast<std::size_t>(isa)]; }

const std::string& unavailable_reason(Isa isa) {
  static const std::array<std::string, kIsaCount> reasons = find_reasons();
  return reasons[static_cast<std::size_t>(isa)];
}

std::vector<KernelOrigin> kernel_origins(Isa isa) {
  const KernelTable& row = kernel_table(isa);
  const auto origin = [&](const char* family, auto column) {
    for (const KernelTable& lower : kTable) {
      if (lower.*column == row.*column) return KernelOrigin{family, lower.isa};
    }
    return KernelOrigin{family, isa};
  };
  return {origin("gemm", &KernelTable::gemm),         origin("depthwise", &KernelTable::depthwise),
          origin("pack", &KernelTable::pack),         origin("nibbles", &KernelTable::nibbles),
          origin("quantize", &KernelTable::quantize), origin("dequantize", &KernelTable::dequantize),
          origin("add", &KernelTable::add),           origin("multiply", &KernelTable::multiply),
          origin("range", &KernelTable::range),       origin("table", &KernelTable::table)};
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (std::size_t i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    if (unavailable_reason(isa).empty()) isas.push_back(isa);
  }
  return isas;
}

}  // namespace dmlcpu
