#include "operators/matrix/matrix_product.h"

#include <sstream>

#include "operators/plan_words.h"
#include "operators/product_rate.h"
#include "runtime/cpu_features.h"

namespace dmlcpu {
namespace {

// Rows up to which a b that is not owned is streamed: more of them pay for packing it, sooner if it stays in the
// level-2 cache once packed.
constexpr std::int64_t kMostStreamedRows = 256, kMostStreamedRowsOfSmall = 32;

bool streams(const MatrixProductDesc& desc, const ExecutionTarget& target) {
  const MatrixGeometry& geometry = desc.geometry;
  const PanelSizes panels(geometry, *target.kernels().gemm);
  const bool is_small = panels.columns() <= cache_sizes().level_2 / panels.k_padded;
  return !desc.b_owned && geometry.products() == geometry.matrices() &&
         geometry.m <= (is_small ? kMostStreamedRowsOfSmall : kMostStreamedRows);
}

ExecutionTarget with_threads_that_pay(const MatrixGeometry& geometry, const ExecutionTarget& target) {
  const auto rows = static_cast<double>(geometry.m), columns = static_cast<double>(geometry.n);
  const auto terms = static_cast<double>(geometry.k);
  const double cycles = estimated_product_cycles(static_cast<double>(geometry.products()) * rows * columns, terms,
                                                 static_cast<double>(geometry.matrices()) * terms * columns, target);
  return with_at_most(cycles / kLeastCyclesOfProduct, target);
}

}  // namespace

std::unique_ptr<MatrixProduct> make_matrix_product(const MatrixProductDesc& desc, const ExecutionTarget& target) {
  return streams(desc, target) ? make_streamed_matrix_product(desc, target) : make_packed_matrix_product(desc, target);
}

MatrixProduct::MatrixProduct(const MatrixProductDesc& desc, const ExecutionTarget& target)
    : desc_(desc),
      geometry_(desc_.geometry),
      offered_threads_(target.num_threads),
      target_(with_threads_that_pay(geometry_, target)),
      gemm_(*target.kernels().gemm),
      pack_(*target.kernels().pack),
      panels_(geometry_, gemm_) {}

void MatrixProduct::find_column_terms(const MatrixParameters& parameters, const std::int32_t* sums, std::int64_t first,
                                      std::int64_t count, std::uint32_t factor, std::int32_t* terms) const noexcept {
  const auto k = static_cast<std::uint32_t>(geometry_.k);
  for (std::int64_t column = 0; column < count; ++column) {
    std::uint32_t sum = static_cast<std::uint32_t>(sums[column]);
    if (parameters.b_zero_point != nullptr) {
      sum -= k * static_cast<std::uint32_t>(parameters.b_zero_point[first + column]);
    }
    terms[column] = static_cast<std::int32_t>(factor * sum);
  }
}

std::string MatrixProduct::describe() const {
  const Words way = words();
  std::ostringstream text;
  text << "algorithm: matrix product, " << way.algorithm << "\nkernel: " << product_kernel_words(target_)
       << "\na: " << (way.a_in_place ? "read in place" : "packed a tile at a time") << "\nwhy: b " << way.reason_for_b
       << "; a " << way.reason_for_a << "\nproducts: " << geometry_.products() << " of " << geometry_.m << " x "
       << geometry_.k << " x " << geometry_.n << ", k padded to " << panels_.k_padded << "\nresults: "
       << (rescales()            ? "rescaled from sums in cache by " + kernel_words(target_, "rescale")
           : desc_.ends_in_codes ? "requantized in the same pass"
                                 : "sums, written by the product")
       << "\ntile: " << way.tile << "\nthreads: " << way.participants << " of " << offered_threads_ << ", for "
       << counted(way.tasks, "task");
  return text.str();
}

}  // namespace dmlcpu
