// The packed way of a matrix product: b is packed whole, once or some matrices at a time, and shared by all tiles.
#include <algorithm>
#include <cstring>

#include "operators/buffer_layout.h"
#include "operators/matrix/matrix_product.h"
#include "operators/matrix/matrix_results.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/cache_line.h"
#include "runtime/cpu_features.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// Whether the rows that a tile of the kernel reads side by side lie in one set of the level-1 cache, and are more than
// its ways: each would be fetched again for each step of k. Sets repeat with pages, ways are at least 8.
bool share_a_cache_set(std::int64_t row_stride, std::int64_t rows) {
  constexpr std::int64_t kPage = 4096, kWays = 8;
  return row_stride != 0 && row_stride % kPage == 0 && rows > kWays;
}

class PackedMatrixProduct final : public MatrixProduct {
 public:
  PackedMatrixProduct(const MatrixProductDesc& desc, const ExecutionTarget& target)
      : MatrixProduct(desc, target),
        rescales_(desc.rows_vary || desc.ends_in_floats),
        shares_sets_(share_a_cache_set(geometry_.a.row, std::min(geometry_.m, static_cast<std::int64_t>(gemm_.mr)))),
        a_in_place_(!geometry_.gathers_a() && (desc.a_flip == 0 || gemm_.multiplies_signed) &&
                    as_size(geometry_.k) == panels_.k_padded && !shares_sets_),
        packed_b_(geometry_, desc.b_flip, desc.b_owned, target_.kernels()),
        results_(desc_, pack_),
        tiles_(choose_tiles()),
        scratch_(lay_out_scratch()) {}

  bool rescales() const override { return rescales_; }
  bool a_is_signed() const override { return a_in_place_ && desc_.a_flip != 0; }
  const PackedMatrices* packed_b() const override { return &packed_b_; }
  std::size_t scratch_size() const override { return scratch_.size; }
  void run(const MatrixDispatch& dispatch, std::uint8_t* scratch) const override;

 private:
  // Rows of a tile, parts that its columns are divided into, and columns of one product.
  struct Tiles {
    std::int64_t rows, of_product, splits, block_columns;
    std::int64_t matrices_at_once;  // that are packed
    std::int64_t participants;
  };
  // Offsets into the scratch buffer, then into a participant's part of it.
  struct Scratch {
    std::size_t packed, ones, zeros, terms, participants, size;
    std::size_t left, activation_sums, sums, participant_size;
    std::size_t left_stride;  // from a row of a packed tile to the next
  };
  // A matrix of b, packed, with its terms of columns.
  struct Right {
    const std::uint8_t* matrix;
    const std::int32_t* offset;      // what the product begins with
    const std::int32_t* column_sum;  // for rescaling; null where all zero points of a are in the offset
  };

  bool is_bound_by_writing() const;
  Tiles choose_tiles() const;
  Scratch lay_out_scratch();
  std::int64_t tasks_of_product() const { return tiles_.of_product * tiles_.splits; }
  MatrixRegion tile(std::int64_t product, std::int64_t task) const noexcept;
  std::uint32_t column_factor(const MatrixDispatch& dispatch) const noexcept;
  void prepare_matrices(const MatrixDispatch& dispatch, std::int64_t first, std::int64_t count,
                        std::uint8_t* scratch) const;
  void run_tile(const MatrixDispatch& dispatch, const Right& right, const MatrixRegion& tile,
                std::uint8_t* own) const noexcept;
  Words words() const override;
  std::string reason_for_a() const;
  std::string reason_for_b() const;

  // shares_sets_: rows of a evict each other from the caches.
  bool rescales_, shares_sets_, a_in_place_;
  PackedMatrices packed_b_;
  MatrixResults results_;
  Tiles tiles_;
  Scratch scratch_;
};

// Whether sums, which no core's cache holds, take about as long to write as to compute. Each row of a tile is a stream
// of lines in pages of its own then, of which prefetchers follow some dozens.
bool PackedMatrixProduct::is_bound_by_writing() const {
  constexpr double kFewCycles = 8.0;  // of a sum's products
  const double sums = as_number(geometry_.m) * as_number(geometry_.n);
  return results_.are_direct() && !rescales_ && desc_.output_bytes == sizeof(std::int32_t) &&
         !gemm_.loads_rows_as_tiles && sums * sizeof(std::int32_t) > static_cast<double>(cache_sizes().level_2 / 2) &&
         as_number(geometry_.k) < kFewCycles * gemm_.products_per_cycle;
}

PackedMatrixProduct::Tiles PackedMatrixProduct::choose_tiles() const {
  constexpr std::int64_t kMostTileRows = 256, kFewStreams = 24, kTileBytes = 1 << 17;
  const auto level_2 = static_cast<std::int64_t>(cache_sizes().level_2);
  const std::int64_t least = static_cast<std::int64_t>(gemm_.mr), products = geometry_.products();
  std::int64_t rows =
      std::min(kMostTileRows, std::max(level_2 / 4 * 3 / static_cast<std::int64_t>(panels_.k_padded), least));
  if (is_bound_by_writing()) rows = std::min(rows, divide_up(kFewStreams, least) * least);
  rows = divide_up(geometry_.m, divide_up(geometry_.m, rows));
  std::int64_t splits = 1;
  if (target_.num_threads > 1) {  // columns are divided first: rows of a are fewer bytes than panels of b
    const std::int64_t wanted = target_.num_threads * kTasksPerThread;
    splits = std::clamp<std::int64_t>(wanted / (products * divide_up(geometry_.m, rows)), 1, panels_.count);
    const std::int64_t parts = divide_up(wanted, products * splits);
    rows = std::min(rows, std::max(divide_up(geometry_.m, parts), std::min(least, geometry_.m)));
  }
  const std::int64_t tiles = divide_up(geometry_.m, rows), panel = static_cast<std::int64_t>(panels_.nr);
  std::int64_t block_columns = static_cast<std::int64_t>(panels_.columns());
  if (rescales_ || !results_.are_direct()) {  // sums or codes wait in a cache
    block_columns = std::clamp(kTileBytes / 4 / rows / panel * panel, panel, block_columns);
  }
  const std::int64_t fitting = std::max<std::int64_t>(level_2 / 2 / packed_b_.matrix_bytes(), 1);
  return {.rows = rows,
          .of_product = tiles,
          .splits = splits,
          .block_columns = block_columns,
          .matrices_at_once = desc_.b_owned ? geometry_.matrices() : std::min(fitting, geometry_.matrices()),
          .participants = std::min<std::int64_t>(target_.num_threads, products * tiles * splits)};
}

PackedMatrixProduct::Scratch PackedMatrixProduct::lay_out_scratch() {
  Scratch scratch{};
  const std::size_t rows = as_size(tiles_.rows), elements = as_size(tiles_.rows * tiles_.block_columns);
  const bool evicts =
      share_a_cache_set(static_cast<std::int64_t>(panels_.k_padded), static_cast<std::int64_t>(gemm_.mr));
  scratch.left_stride = panels_.k_padded + (evicts ? kCacheLine : 0);
  BufferLayout own;
  scratch.left = own.take(a_in_place_ ? 0 : rows, scratch.left_stride);
  scratch.activation_sums = own.take(rows, sizeof(std::int32_t));
  scratch.sums = own.take(rescales_ ? elements : 0, sizeof(std::int32_t));
  results_.take(own, elements);
  scratch.participant_size = own.size();

  BufferLayout all;
  scratch.packed = all.take(desc_.b_owned ? 0 : as_size(tiles_.matrices_at_once), as_size(packed_b_.matrix_bytes()));
  scratch.ones = all.take(desc_.b_owned ? 0 : panels_.k_padded);
  scratch.zeros = all.take(rescales_ ? panels_.columns() : 0, sizeof(std::int32_t));
  scratch.terms = all.take(as_size(tiles_.matrices_at_once) * panels_.columns(), sizeof(std::int32_t));
  scratch.participants = all.take(as_size(tiles_.participants), scratch.participant_size);
  scratch.size = all.size();
  return scratch;
}

// Of the terms of columns: where one zero point of a holds for all rows, they are what it adds to every row.
std::uint32_t PackedMatrixProduct::column_factor(const MatrixDispatch& dispatch) const noexcept {
  if (desc_.rows_vary) return 1U;
  const std::int32_t* zero_point = dispatch.parameters.a_zero_point;
  return zero_point == nullptr ? 0U : 0U - static_cast<std::uint32_t>(zero_point[0]);
}

// Packs matrices [first, first + count) where they are not, and finds their terms of columns.
void PackedMatrixProduct::prepare_matrices(const MatrixDispatch& dispatch, std::int64_t first, std::int64_t count,
                                           std::uint8_t* scratch) const {
  auto* terms = reinterpret_cast<std::int32_t*>(scratch + scratch_.terms);
  const std::uint32_t factor = column_factor(dispatch);
  if (desc_.b_owned) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t* sums = packed_b_.column_sums(dispatch.b + (first + i) * packed_b_.matrix_bytes());
      find_column_terms(dispatch.parameters, sums, 0, geometry_.n, factor, terms + as_size(i) * panels_.columns());
    }
    return;
  }
  std::memset(scratch + scratch_.ones, 1, panels_.k_padded);
  const std::int64_t parts = packed_b_.parts();
  parallel_for(as_size(count * parts), target_.num_threads, [&](std::size_t task, int) noexcept {
    const auto index = static_cast<std::int64_t>(task);
    const std::int64_t i = index / parts, part = index % parts;
    std::uint8_t* packed = scratch + scratch_.packed + i * packed_b_.matrix_bytes();
    packed_b_.pack_part(dispatch.b, first + i, part, scratch + scratch_.ones, packed);
    const auto [column, columns] = packed_b_.columns_of(part);
    find_column_terms(dispatch.parameters, packed_b_.column_sums(packed) + column, column, columns, factor,
                      terms + as_size(i) * panels_.columns() + column);
  });
}

// The tile of a task of a product.
MatrixRegion PackedMatrixProduct::tile(std::int64_t product, std::int64_t task) const noexcept {
  const std::int64_t first_row = task / tiles_.splits * tiles_.rows, split = task % tiles_.splits;
  const auto panel = static_cast<std::int64_t>(panels_.nr);
  const std::int64_t first_column = panels_.count * split / tiles_.splits * panel;
  const std::int64_t end_column = std::min(panels_.count * (split + 1) / tiles_.splits * panel, geometry_.n);
  return {geometry_.batch_index(product), first_row, std::min(tiles_.rows, geometry_.m - first_row), first_column,
          end_column - first_column};
}

void PackedMatrixProduct::run(const MatrixDispatch& dispatch, std::uint8_t* scratch) const {
  if (rescales_) std::memset(scratch + scratch_.zeros, 0, panels_.columns() * sizeof(std::int32_t));
  const std::int64_t repeats = geometry_.products_of_matrix(), tasks = tasks_of_product();
  for (std::int64_t first = 0; first < geometry_.matrices(); first += tiles_.matrices_at_once) {
    const std::int64_t count = std::min(tiles_.matrices_at_once, geometry_.matrices() - first);
    prepare_matrices(dispatch, first, count, scratch);
    const std::uint8_t* packed =
        desc_.b_owned ? dispatch.b + first * packed_b_.matrix_bytes() : scratch + scratch_.packed;
    const auto* all_terms = reinterpret_cast<const std::int32_t*>(scratch + scratch_.terms);
    const auto* zeros = reinterpret_cast<const std::int32_t*>(scratch + scratch_.zeros);
    parallel_for(as_size(count * repeats * tasks), target_.num_threads, [&](std::size_t task, int slot) noexcept {
      const auto index = static_cast<std::int64_t>(task);
      const std::int64_t product = index / tasks, matrix = product / repeats;
      const std::uint8_t* matrix_of_b = packed + matrix * packed_b_.matrix_bytes();
      const std::int32_t* terms = all_terms + as_size(matrix) * panels_.columns();
      const Right right = desc_.rows_vary ? Right{matrix_of_b, zeros, terms} : Right{matrix_of_b, terms, nullptr};
      run_tile(dispatch, right, tile(first * repeats + product, index % tasks),
               scratch + scratch_.participants + as_size(slot) * scratch_.participant_size);
    });
  }
}

void PackedMatrixProduct::run_tile(const MatrixDispatch& dispatch, const Right& right, const MatrixRegion& tile,
                                   std::uint8_t* own) const noexcept {
  const std::uint8_t* a = dispatch.a + MatrixGeometry::offset(geometry_.a, tile.index);
  const std::uint8_t* left = own + scratch_.left;
  std::size_t row_stride = scratch_.left_stride;
  if (a_in_place_) {
    left = a + tile.first_row * geometry_.a.row;
    row_stride = as_size(geometry_.a.row);
  } else {
    pack_left(pack_, {a, geometry_.a.row, geometry_.a.column, desc_.a_flip},
              {tile.first_row, tile.rows, 0, geometry_.k}, row_stride, own + scratch_.left);
  }
  auto* activation_sums = reinterpret_cast<std::int32_t*>(own + scratch_.activation_sums);
  if (dispatch.parameters.b_zero_point != nullptr) {
    pack_.sum_rows({.a = left,
                    .a_row_stride = row_stride,
                    .a_offsets = &kOnlySegment,
                    .m = as_size(tile.rows),
                    .k = as_size(geometry_.k),
                    .a_is_signed = a_is_signed()},
                   activation_sums);
  }
  for (std::int64_t done = 0; done < tile.columns; done += tiles_.block_columns) {
    MatrixRegion block = tile;
    block.first_column += done;
    block.columns = std::min(tiles_.block_columns, tile.columns - done);
    std::uint8_t* output = results_.output_of(dispatch, block);
    const bool in_place = results_.are_direct() && !rescales_;
    std::uint8_t* results = rescales_ ? own + scratch_.sums : in_place ? output : results_.waiting(own);
    const bool ends_in_sums = rescales_ || !desc_.ends_in_codes;
    const std::size_t column = as_size(block.first_column);
    gemm_.multiply({.a = left,
                    .a_row_stride = row_stride,
                    .b = right.matrix + column * panels_.k_padded,
                    .b_panel_stride = panels_.bytes(),
                    .b_order = packed_b_.order(right.matrix, column / panels_.nr),
                    .b_order_stride = packed_b_.order_stride(),
                    .m = as_size(block.rows),
                    .n = as_size(block.columns),
                    .k = panels_.k_padded,
                    .offset = right.offset + column,
                    .multiplier = ends_in_sums ? nullptr : dispatch.parameters.column_multiplier + column,
                    .filter_zero_point = dispatch.parameters.b_zero_point == nullptr
                                             ? nullptr
                                             : dispatch.parameters.b_zero_point + column,
                    .activation_sum = activation_sums,
                    .output_zero_point = ends_in_sums ? 0.0F : dispatch.parameters.row_output_zero_point[0],
                    .flip = dispatch.output_flip,
                    .output = ends_in_sums ? nullptr : results,
                    .output_row_stride = as_size(in_place ? geometry_.output.row : block.columns),
                    .sums = ends_in_sums ? reinterpret_cast<std::int32_t*>(results) : nullptr,
                    .a_is_signed = a_is_signed()});
    if (rescales_) {
      results_.write_rescaled(dispatch, block, reinterpret_cast<const std::int32_t*>(results),
                              right.column_sum == nullptr ? nullptr : right.column_sum + column, own);
    } else if (!in_place) {
      results_.scatter(results, block, output);
    }
  }
}

MatrixProduct::Words PackedMatrixProduct::words() const {
  return {.algorithm = desc_.b_owned                 ? "b packed once"
                       : tiles_.matrices_at_once > 1 ? "b packed at each dispatch, several matrices at a time"
                                                     : "b packed at each dispatch",
          .reason_for_b = reason_for_b(),
          .reason_for_a = reason_for_a(),
          .tile = counted(tiles_.rows, "row") + ", " + counted(tiles_.splits, "part") + " of the columns, blocks of " +
                  std::to_string(tiles_.block_columns),
          .a_in_place = a_in_place_,
          .participants = tiles_.participants,
          .tasks = geometry_.products() * tasks_of_product()};
}

std::string PackedMatrixProduct::reason_for_b() const {
  if (desc_.b_owned) return "packed whole because b is owned";
  if (geometry_.products() != geometry_.matrices()) return "packed whole because several products have one b";
  return "packed whole because " + counted(geometry_.m, "row") + " of a use it";
}

std::string PackedMatrixProduct::reason_for_a() const {
  if (a_in_place_) {
    return std::string("in place because its codes are ") + (a_is_signed() ? "signed" : "unsigned") +
           " neighbours in whole steps of the kernel";
  }
  if (desc_.a_flip != 0 && !gemm_.multiplies_signed) return "packed because INT8 codes become unsigned";
  if (geometry_.gathers_a()) return "packed because codes of a row are not neighbours";
  if (shares_sets_) return "packed because its rows are whole pages apart and evict each other from the cache";
  return "packed because its rows are no whole steps of the kernel";
}

}  // namespace

std::unique_ptr<MatrixProduct> make_packed_matrix_product(const MatrixProductDesc& desc,
                                                          const ExecutionTarget& target) {
  return std::make_unique<PackedMatrixProduct>(desc, target);
}

}  // namespace dmlcpu
