// The words of a matrix product's plan.
#include <sstream>

#include "operators/matrix/matrix_product.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"

namespace dmlcpu {

std::string MatrixProduct::reason_for_b() const {
  if (desc_.b_owned) return "packed whole because b is owned";
  if (streams_) {
    return "streamed because b is not owned, and " + counted(geometry_.m, "row") +
           " would not make up for packing it whole";
  }
  if (geometry_.products() != geometry_.matrices()) return "packed whole because several products have one b";
  return "packed whole because " + counted(geometry_.m, "row") + " of a use it";
}

std::string MatrixProduct::reason_for_a() const {
  if (streams_) return "packed because products take a block of its terms at a time";
  if (a_in_place_) {
    return std::string("in place because its codes are ") + (a_is_signed() ? "signed" : "unsigned") +
           " neighbours in whole steps of the kernel";
  }
  if (desc_.a_flip != 0 && !gemm_.multiplies_signed) return "packed because INT8 codes become unsigned";
  if (geometry_.a.column != 1) return "packed because codes of a row are not neighbours";
  if (shares_sets_) return "packed because its rows are whole pages apart and evict each other from the cache";
  return "packed because its rows are no whole steps of the kernel";
}

std::string MatrixProduct::describe() const {
  std::ostringstream text;
  text << "algorithm: matrix product, "
       << (streams_                ? "b packed a block at a time and used up in cache"
           : desc_.b_owned         ? "b packed once"
           : matrices_at_once_ > 1 ? "b packed at each dispatch, several matrices at a time"
                                   : "b packed at each dispatch")
       << "\nkernel: " << product_kernel_words(target_)
       << "\na: " << (a_in_place_ ? "read in place" : "packed a tile at a time") << "\nwhy: b " << reason_for_b()
       << "; a " << reason_for_a() << "\nproducts: " << geometry_.products() << " of " << geometry_.m << " x "
       << geometry_.k << " x " << geometry_.n << ", k padded to " << k_padded_ << "\nresults: "
       << (rescales_             ? "rescaled from sums in cache by " + kernel_words(target_, "rescale")
           : desc_.ends_in_codes ? "requantized in the same pass"
                                 : "sums, written by the product")
       << "\ntile: ";
  if (streams_) {
    text << counted(block_columns_, "column") << ", packed " << packed_columns_ << " by " << counted(block_k_, "term")
         << " at a time";
  } else {
    text << counted(tile_rows_, "row") << ", " << counted(splits_, "part") << " of the columns, blocks of "
         << block_columns_;
  }
  const std::int64_t tasks = streams_ ? geometry_.matrices() * divide_up(geometry_.n, block_columns_)
                                      : geometry_.products() * tiles_of_product_ * splits_;
  text << "\nthreads: " << participants_ << " of " << offered_threads_ << ", for " << counted(tasks, "task");
  return text.str();
}

}  // namespace dmlcpu
