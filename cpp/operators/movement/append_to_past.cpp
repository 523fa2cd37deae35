// APPEND_TO_PAST: tensors past {N, heads, P, elements}, appended {N, heads, S, elements}, past sequence lengths (INT32,
// {N}), output {N, heads, T, elements}, as GroupQueryAttention keeps keys and values. Of graphs alone.
//
//   output    0 .. length - 1       rows of the past
//             length .. length + S - 1   those appended
//             the rest              zeros
//
// A length is of an image; one that is not of 0 .. min(P, T - S) throws std::out_of_range at a dispatch before anything
// is written. The array may change under the hands of a dispatch: what is read later is brought into this range.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "operators/operator.h"
#include "operators/sizes.h"
#include "operators/strides/staging.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

enum Tensor : std::size_t { kPast, kAppended, kLengths, kOutput };
enum Axis : std::size_t { kImage, kHead, kRow, kElement };

class AppendToPast final : public CompiledOperator {
 public:
  AppendToPast(OperatorDesc&& operator_desc, ExecutionTarget execution_target)
      : CompiledOperator(std::move(operator_desc), execution_target),
        past_(desc().tensor(kPast)),
        appended_(desc().tensor(kAppended)),
        lengths_(desc().tensor(kLengths)),
        output_(desc().tensor(kOutput)) {
    for (const TensorLayout* layout : {&past_, &appended_, &output_}) {
      if (layout->rank != kElement + 1 || layout->type != output_.type || is_four_bits(layout->type)) {
        refuse("past, appended and output have four axes and one data type of whole bytes");
      }
      for (const Axis axis : {kImage, kHead, kElement}) {
        if (layout->sizes[axis] != output_.sizes[axis]) refuse("sizes differ, and not of the rows alone");
      }
    }
    if (lengths_.rank != 1 || lengths_.sizes[0] != output_.sizes[kImage]) refuse("a length for each image is needed");
    if (appended_.sizes[kRow] > output_.sizes[kRow]) refuse("the output has no place for what is appended");
  }

  std::string describe() const override {
    return "algorithm: rows of up to " + std::to_string(past_.sizes[kRow]) + " before, then of " +
           std::to_string(appended_.sizes[kRow]) + ", then zeros";
  }

 protected:
  void run(const TensorPointers& tensors) const override {
    for (std::int64_t image = 0; image < output_.sizes[kImage]; ++image) {
      const std::int64_t length = length_of(tensors, image);
      if (length < 0 || length > most_rows()) {
        throw std::out_of_range("got a past of " + std::to_string(length) + " rows, expected 0 to " +
                                std::to_string(most_rows()));
      }
    }
    const std::int64_t heads = output_.sizes[kHead];
    parallel_for(as_size(output_.sizes[kImage] * heads), target().num_threads, [&](std::size_t task, int) noexcept {
      const auto index = static_cast<std::int64_t>(task);
      append(tensors, index / heads, index % heads);
    });
  }

 private:
  std::int64_t most_rows() const { return std::min(past_.sizes[kRow], output_.sizes[kRow] - appended_.sizes[kRow]); }

  std::int64_t length_of(const TensorPointers& tensors, std::int64_t image) const {
    return *(static_cast<const volatile std::int32_t*>(tensors[kLengths]) + image * lengths_.strides[0]);
  }

  [[noreturn]] void refuse(const char* why) const { throw std::invalid_argument(desc().type + ": " + why); }

  void append(const TensorPointers& tensors, std::int64_t image, std::int64_t head) const noexcept {
    const std::int64_t rows = output_.sizes[kRow], more = appended_.sizes[kRow];
    const std::int64_t length = std::clamp<std::int64_t>(length_of(tensors, image), 0, most_rows());
    const auto begin = [&](const TensorLayout& layout, void* tensor) {
      return element(tensor, layout.type, image * layout.strides[kImage] + head * layout.strides[kHead]);
    };
    void* const output = begin(output_, tensors[kOutput]);
    copy_rows(past_, begin(past_, tensors[kPast]), output, 0, length);
    copy_rows(appended_, begin(appended_, tensors[kAppended]), output, length, more);
    clear_rows(output, length + more, rows);
  }

  // Whether rows of a tensor, all of the output's length, are one after the other without gaps.
  bool is_one_run_of(const TensorLayout& rows) const noexcept {
    return rows.strides[kElement] == 1 && rows.strides[kRow] == output_.sizes[kElement];
  }

  // count rows from the first on to rows of the output.
  void copy_rows(const TensorLayout& from, const void* input, void* output, std::int64_t first,
                 std::int64_t count) const noexcept {
    const std::int64_t elements = output_.sizes[kElement];
    const std::size_t bytes = element_size(output_.type);
    if (is_one_run_of(from) && is_one_run_of(output_) && count != 0) {
      std::memcpy(element(output, output_.type, first * elements), input, as_size(count * elements) * bytes);
      return;
    }
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t i = 0; i < elements; ++i) {
        std::memcpy(place(output, first + row, i),
                    element(input, from.type, row * from.strides[kRow] + i * from.strides[kElement]), bytes);
      }
    }
  }

  void clear_rows(void* output, std::int64_t first, std::int64_t end) const noexcept {
    const std::int64_t elements = output_.sizes[kElement];
    const std::size_t bytes = element_size(output_.type);
    if (is_one_run_of(output_)) {
      std::memset(place(output, first, 0), 0, as_size((end - first) * elements) * bytes);
      return;
    }
    for (std::int64_t row = first; row < end; ++row) {
      for (std::int64_t i = 0; i < elements; ++i) std::memset(place(output, row, i), 0, bytes);
    }
  }

  void* place(void* output, std::int64_t row, std::int64_t i) const noexcept {
    return element(output, output_.type, row * output_.strides[kRow] + i * output_.strides[kElement]);
  }

  TensorLayout past_, appended_, lengths_, output_;
};

}  // namespace

std::unique_ptr<CompiledOperator> compile_append_to_past(OperatorDesc desc, ExecutionTarget target) {
  return std::make_unique<AppendToPast>(std::move(desc), target);
}

}  // namespace dmlcpu
