#include "operators/element_stages.h"

#include <algorithm>
#include <limits>

namespace dmlcpu {
namespace {

// The next stage finds the elements of the one before in a level-1 cache.
constexpr std::size_t kChunkBytes = 8192;

// The operand's elements that belong to those at hand, the first of which has this index.
template <class Element>
const Element* operand(const Element* whole, Element* at_hand, std::size_t first) {
  return whole == nullptr ? at_hand : whole + first;
}

// Elements of one output are those of all its stages, as the graph sees to.
template <class Element>
struct Apply {
  Element* elements;
  std::size_t first, count;

  template <class Function, class Run>
  void operator()(const KernelStage<Function, Run>& stage) const noexcept {
    if constexpr (requires(Run run) { run.output = elements; }) {
      Run run = stage.run;
      if constexpr (requires { run.input; }) {
        run.input = elements;
      } else {
        run.a = operand(run.a, elements, first);
        run.b = operand(run.b, elements, first);
      }
      run.output = elements;
      run.count = count;
      stage.kernel(run);
    }
  }
};

template <class Element>
void apply_stages(std::span<const ElementStage> stages, Element* elements, std::size_t first,
                  std::size_t count) noexcept {
  constexpr std::size_t kChunk = kChunkBytes / sizeof(Element);
  for (std::size_t done = 0; done < count; done += kChunk) {
    const Apply<Element> apply = {elements + done, first + done, std::min(kChunk, count - done)};
    for (const ElementStage& stage : stages) std::visit(apply, stage);
  }
}

bool has_operand(const ElementStage& stage) { return std::holds_alternative<FloatBinaryStage>(stage); }

}  // namespace

void CodesEpilogue::apply(std::uint8_t* codes, std::size_t rows, std::size_t row_stride,
                          std::size_t columns) const noexcept {
  if (row_stride == columns) {
    columns *= rows;
    rows = 1;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    std::uint8_t* of_row = codes + row * row_stride;
    apply_stages(stages_, of_row, static_cast<std::size_t>(of_row - output_), columns);
  }
}

FloatsEpilogue::FloatsEpilogue(std::span<const ElementStage> stages, std::size_t channels)
    : stages_(stages), channels_(channels), has_operands_(std::ranges::any_of(stages, has_operand)) {}

std::optional<FloatBounds> FloatsEpilogue::take_bounds(const FloatFunctionKernels& functions) {
  const auto* stage = stages_.empty() ? nullptr : std::get_if<FloatUnaryStage>(&stages_.front());
  if (stage == nullptr) return std::nullopt;
  const auto is = [&](FloatUnary function) {
    return stage->kernel == functions.unary[static_cast<std::size_t>(function)];
  };
  std::optional<FloatBounds> bounds;
  if (is(FloatUnary::relu)) bounds = {.lower = 0.0F, .upper = std::numeric_limits<float>::infinity()};
  if (is(FloatUnary::clip)) bounds = {.lower = stage->run.alpha, .upper = stage->run.beta};
  if (bounds) stages_ = stages_.subspan(1);
  return bounds;
}

FloatsEpilogue FloatsEpilogue::from(std::size_t pixel) const {
  FloatsEpilogue later = *this;
  later.first_pixel_ += pixel;
  return later;
}

void FloatsEpilogue::apply(const FloatsPart& part) const noexcept {
  const std::size_t first = (first_pixel_ + part.pixel) * channels_ + part.channel;
  if (part.pixel_stride == part.channels && (part.channels == channels_ || !has_operands_)) {
    return apply_stages(stages_, part.values, first, part.pixels * part.channels);
  }
  for (std::size_t p = 0; p < part.pixels; ++p) {
    apply_stages(stages_, part.values + p * part.pixel_stride, first + p * channels_, part.channels);
  }
}

}  // namespace dmlcpu
