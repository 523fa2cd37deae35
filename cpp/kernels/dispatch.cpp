#include "kernels/dispatch.h"

#include <array>
#include <cstddef>

#include "runtime/cpu_features.h"

#if defined(__AVX__)
#error "dispatch.cpp is compiled for the baseline: it runs before the CPU has been asked"
#endif

namespace dmlcpu {
namespace {

using Rows = std::array<KernelTable, kIsaCount>;

// THE table: kTable has its rows, worst to best, in the order of enum Isa. A cell that borrows a lower row's kernel
// says so, and one without a kernel is null. A cell left out does not compile (-Werror=missing-field-initializers).
constexpr KernelTable kScalar = {
    .isa = Isa::scalar,
    .small_products = Isa::scalar,
    .gemm = &scalar::gemm,
    .depthwise = &scalar::depthwise,
    .depthwise_window = &scalar::depthwise_window,
    .depthwise_planes = &scalar::depthwise_planes,
    .grouped = &scalar::grouped,
    .few_channels = &scalar::few_channels,
    .winograd = &scalar::winograd,
    .pack = &scalar::pack,
    .nibbles = &scalar::nibbles,
    .quantize = &scalar::quantize,
    .dequantize = &scalar::dequantize,
    .dequantized_product = &scalar::dequantized_product,
    .block_product = &scalar::block_product,
    .add = &scalar::add,
    .multiply = &scalar::multiply,
    .range = &scalar::range,
    .max_pool = &scalar::max_pool,
    .table = &scalar::table,
    .rescale = &scalar::rescale,
    .float_product = &scalar::float_product,
    .float_depthwise = &scalar::float_depthwise,
    .pool = &scalar::pool,
    .float_pool = &scalar::float_pool,
    .float_functions = &scalar::float_functions,
    .cast = &scalar::cast,
    .resample = &scalar::resample,
    .interpolate = &scalar::interpolate,
    .overlap = &scalar::overlap,
    .softmax = &scalar::softmax,
    .softmax_rows = nullptr,
    .layer_normalization = &scalar::layer_normalization,
};

#if defined(DMLCPU_X86_KERNELS)
constexpr KernelTable kAvx2 = {
    .isa = Isa::avx2,
    .small_products = Isa::avx2,
    .gemm = &avx2::gemm,
    .depthwise = &avx2::depthwise,
    .depthwise_window = &avx2::depthwise_window,
    .depthwise_planes = nullptr,
    .grouped = &avx2::grouped,
    .few_channels = &avx2::few_channels,
    .winograd = &avx2::winograd,
    .pack = &avx2::pack,
    .nibbles = &avx2::nibbles,
    .quantize = &avx2::quantize,
    .dequantize = &avx2::dequantize,
    .dequantized_product = &avx2::dequantized_product,
    .block_product = &avx2::block_product,
    .add = &avx2::add,
    .multiply = &avx2::multiply,
    .range = &avx2::range,
    .max_pool = &avx2::max_pool,
    .table = &avx2::table,
    .rescale = &avx2::rescale,
    .float_product = &avx2::float_product,
    .float_depthwise = &avx2::float_depthwise,
    .pool = &avx2::pool,
    .float_pool = &avx2::float_pool,
    .float_functions = &avx2::float_functions,
    .cast = &avx2::cast,
    .resample = &avx2::resample,
    .interpolate = &avx2::interpolate,
    .overlap = &avx2::overlap,
    .softmax = &avx2::softmax,
    .softmax_rows = nullptr,
    .layer_normalization = &avx2::layer_normalization,
};

constexpr KernelTable kAvx512Vnni = {
    .isa = Isa::avx512_vnni,
    .small_products = Isa::avx512_vnni,
    .gemm = &avx512_vnni::gemm,
    .depthwise = &avx512_vnni::depthwise,
    .depthwise_window = &avx512_vnni::depthwise_window,
    .depthwise_planes = nullptr,
    .grouped = &avx512_vnni::grouped,
    .few_channels = &avx512_vnni::few_channels,
    .winograd = &avx512_vnni::winograd,
    .pack = &avx512_vnni::pack,
    .nibbles = &avx512_vnni::nibbles,
    .quantize = &avx512_vnni::quantize,
    .dequantize = &avx512_vnni::dequantize,
    .dequantized_product = &avx512_vnni::dequantized_product,
    .block_product = &avx512_vnni::block_product,
    .add = &avx512_vnni::add,
    .multiply = &avx512_vnni::multiply,
    .range = &avx512_vnni::range,
    .max_pool = &avx512_vnni::max_pool,
    .table = &avx512_vnni::table,
    .rescale = &avx512_vnni::rescale,
    .float_product = &avx512_vnni::float_product,
    .float_depthwise = &avx512_vnni::float_depthwise,
    .pool = &avx512_vnni::pool,
    .float_pool = &avx512_vnni::float_pool,
    .float_functions = &avx512_vnni::float_functions,
    .cast = &avx512_vnni::cast,
    .resample = &avx512_vnni::resample,
    .interpolate = &avx512_vnni::interpolate,
    .overlap = &avx512_vnni::overlap,
    .softmax = &avx512_vnni::softmax,
    .softmax_rows = nullptr,
    .layer_normalization = &avx512_vnni::layer_normalization,
};

// A row that borrows every kernel but these.
constexpr KernelTable with_products(KernelTable row, Isa isa, Isa small_products, const GemmKernels* gemm,
                                    const WinogradKernels* winograd, const FewChannelsKernels* few_channels) {
  row.isa = isa;
  row.small_products = small_products;
  row.gemm = gemm;
  row.winograd = winograd;
  row.few_channels = few_channels;
  return row;
}

// The rows, from that of AVX512_VNNI.
constexpr Rows rows_with(const KernelTable& avx512_vnni_row) {
  return {{
      kScalar,
      kAvx2,
      with_products(kAvx2, Isa::avx_vnni, Isa::avx_vnni, &avx_vnni::gemm, &avx_vnni::winograd, &avx_vnni::few_channels),
      avx512_vnni_row,
      with_products(avx512_vnni_row, Isa::amx_int8, Isa::avx512_vnni, &amx_int8::gemm, &avx512_vnni::winograd, nullptr),
  }};
}

constexpr Rows kTable = rows_with(kAvx512Vnni);

// On CPUs with AVX512_VBMI besides. As AVX512_VNNI without it is found in two generations of CPUs only, that is no
// instruction set of its own here.
constexpr KernelTable with_vbmi(KernelTable row) {
  row.depthwise_planes = &avx512_vbmi::depthwise_planes;
  row.table = &avx512_vbmi::table;
  row.softmax_rows = &avx512_vbmi::softmax_rows;
  return row;
}
constexpr Rows kTableWithVbmi = rows_with(with_vbmi(kAvx512Vnni));
#else
constexpr Rows kTable = {{kScalar}}, kTableWithVbmi = kTable;
#endif

std::array<std::string, kIsaCount> find_reasons() {
  std::array<std::string, kIsaCount> reasons;
  for (std::size_t i = 0; i < kIsaCount; ++i) {
    reasons[i] = kTable[i].gemm == nullptr ? "this build has no kernels for it" : missing_feature(static_cast<Isa>(i));
  }
  return reasons;
}

}  // namespace

const KernelTable& kernel_table(Isa isa) noexcept {
  return (has_avx512_vbmi() ? kTableWithVbmi : kTable)[static_cast<std::size_t>(isa)];
}

const KernelTable& kernel_table_without_vbmi(Isa isa) noexcept { return kTable[static_cast<std::size_t>(isa)]; }

const std::string& unavailable_reason(Isa isa) {
  static const std::array<std::string, kIsaCount> reasons = find_reasons();
  return reasons[static_cast<std::size_t>(isa)];
}

std::vector<KernelOrigin> kernel_origins(Isa isa) {
  // The columns of the table, each a pointer, behind the row's names: one more needs a line here.
  constexpr std::size_t kColumns = 31;
  static_assert(sizeof(KernelTable) == offsetof(KernelTable, gemm) + kColumns * sizeof(void*));
  const KernelTable& row = kernel_table(isa);
  std::vector<KernelOrigin> origins;
  const auto append = [&](const char* family, auto column) {
    if (row.*column == nullptr) return;
    for (const KernelTable& lower : kTable) {
      if (lower.*column == row.*column) return origins.push_back({family, isa_name(lower.isa)});
    }
  };
  append("gemm", &KernelTable::gemm);
  append("depthwise", &KernelTable::depthwise);
  append("depthwise_window", &KernelTable::depthwise_window);
  append("pack", &KernelTable::pack);
  append("nibbles", &KernelTable::nibbles);
  append("quantize", &KernelTable::quantize);
  append("dequantize", &KernelTable::dequantize);
  append("dequantized_product", &KernelTable::dequantized_product);
  append("block_product", &KernelTable::block_product);
  append("add", &KernelTable::add);
  append("multiply", &KernelTable::multiply);
  append("range", &KernelTable::range);
  append("max_pool", &KernelTable::max_pool);
  const auto append_vbmi = [&](const char* family, auto column) {
    const bool is_vbmi = row.*column != kTable[static_cast<std::size_t>(isa)].*column;
    is_vbmi ? origins.push_back({family, "avx512_vbmi"}) : append(family, column);
  };
  append_vbmi("depthwise_planes", &KernelTable::depthwise_planes);
  append_vbmi("softmax_rows", &KernelTable::softmax_rows);
  append_vbmi("table", &KernelTable::table);
  append("rescale", &KernelTable::rescale);
  append("float_product", &KernelTable::float_product);
  append("float_depthwise", &KernelTable::float_depthwise);
  append("pool", &KernelTable::pool);
  append("float_pool", &KernelTable::float_pool);
  append("float_functions", &KernelTable::float_functions);
  append("cast", &KernelTable::cast);
  append("resample", &KernelTable::resample);
  append("interpolate", &KernelTable::interpolate);
  append("overlap", &KernelTable::overlap);
  append("softmax", &KernelTable::softmax);
  append("layer_normalization", &KernelTable::layer_normalization);
  append("grouped", &KernelTable::grouped);
  append("few_channels", &KernelTable::few_channels);
  append("winograd", &KernelTable::winograd);
  return origins;
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
