// A float convolution as a product of matrices (kernels/float_product): windows of pixels by the filter of a group.
//
//   for each tile of up to 128 pixels and as many output channels as leave each thread several (in parallel):
//     for a block of terms, one after the other:
//       gather the windows' (float_windows.h), where neither pixels nor windows are rows as they lie
//       for each panel of channels: the product of the terms, added to the sums
//     apply the stages to the sums
//     spread the sums over the output, where its channels are no neighbours
//
// Dilated windows of many channels are read tap by tap instead, and taps in the padding are left out:
//
//     for each panel of channels, tap, and row of the output in the tile: the product of the pixels that have the tap
//
// The filter lies in panels (float_filter_panels.h). A few pixels meet all whole panels of a tile at once, which the
// kernel reads side by side.
#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operators/buffer_layout.h"
#include "operators/convolution/floats/float_convolution_algorithm.h"
#include "operators/convolution/floats/float_filter_panels.h"
#include "operators/convolution/floats/float_windows.h"
#include "operators/float_tiles.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "operators/strides/element_rows.h"
#include "operators/strides/transposed_elements.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

// A value of a window that has been gathered serves so many products. Staged sums of a tile take 256 KiB then, half of
// a level-2 cache of 512 KiB.
constexpr std::int64_t kMostTileColumns = 512;
// Each tile reads blocks of the filter of 32 KiB again, for blocks of windows of 8 KiB at least.
constexpr std::int64_t kLeastTilePixels = 16;

// Kernels want several panels of so few rows. All terms, or those of a row of a window that is read in place, are one
// block then, and the filter is read once.
constexpr std::int64_t kFewPixels = 3;
// Where panels are narrow: of a panel 18 KiB at most, which leave room in a level-1 cache for the rows beside them, and
// the terms of 3x3 windows of 32 channels are one block; pixels as many as tiles of six rows of registers have.
constexpr std::int64_t kNarrowPanelTerms = 288, kRegisterRows = 6, kMostRegisterTiles = 21;

// How many of `count` each part has, where parts of at most so many are as equal as multiples of a unit can be.
std::int64_t in_equal_parts(std::int64_t count, std::int64_t most, std::int64_t unit) {
  return divide_up(divide_up(count, divide_up(count, most)), unit) * unit;
}

// Whether taps are multiplied one after the other, each with the pixels of an output row that have it in the image:
// those of dilated windows, of which more lie in the padding. Of fewer channels adding up sums so often costs more, and
// rows of fewer pixels leave tiles of registers empty.
bool taps_lie_in(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t kLeastChannels = 64, kLeastWidth = kRegisterRows;
  return geometry.input.c == 1 && geometry.dilation_width > 1 && geometry.kernel_width > 1 &&
         geometry.group_input_channels() >= kLeastChannels && geometry.output_width >= kLeastWidth;
}

bool has_negative_zero(const float* values, std::int64_t count) {
  bool found = false;
  for (std::int64_t i = 0; i < count; ++i) found |= std::bit_cast<std::uint32_t>(values[i]) == 0x80000000U;
  return found;
}

class FloatProductConvolution final : public FloatConvolutionAlgorithm {
 public:
  FloatProductConvolution(const ConvolutionGeometry& geometry, std::int64_t group_stride, const ExecutionTarget& target)
      : geometry_(geometry),
        target_(target),
        group_stride_(group_stride),
        windows_(geometry),
        panels_(geometry, target.kernels()) {
    if (geometry.pointwise() && geometry.input.c == 1) {
      input_pixel_ = uniform_pixel_stride(geometry.input, geometry.batch, geometry.input_height, geometry.input_width);
    }
    if (input_pixel_) {
      rows_ = Rows::pixels;
    } else if (windows_lie_in(geometry)) {
      rows_ = Rows::windows;
    } else if (taps_lie_in(geometry)) {
      rows_ = Rows::taps;
    }
    if (geometry.output.c == 1) {
      output_pixel_ =
          uniform_pixel_stride(geometry.output, geometry.batch, geometry.output_height, geometry.output_width);
    }
    choose_tiles();
    BufferLayout own;
    windows_at_ = own.take(rows_ == Rows::gathered || rows_ == Rows::taps ? as_size(tile_pixels_ * block_terms_) : 0,
                           sizeof(float));
    sums_at_ = own.take(output_pixel_ ? 0 : as_size(tile_pixels_ * tile_columns_), sizeof(float));
    participant_size_ = own.size();
  }

  std::size_t packed_filter_size() const override {
    return as_size(panels_.floats()) * sizeof(float);  // which the operator keeps far below overflow
  }
  void pack_filter(const float* filter, float* packed) const override { panels_.pack(filter, packed); }
  std::vector<std::size_t> packing() const override {
    return {0, as_size(geometry_.groups), as_size(panels_.columns())};
  }

  std::size_t scratch_size() const override { return as_size(participants()) * participant_size_; }
  void run(const FloatConvolutionDispatch& dispatch, std::uint8_t* scratch) const override {
    parallel_for(as_size(tasks()), target_.num_threads, [&](std::size_t task, int slot) noexcept {
      run_tile(dispatch, tile_of(static_cast<std::int64_t>(task)), scratch + as_size(slot) * participant_size_);
    });
  }

  std::string describe() const override {
    return std::string("algorithm: float32 product, ") + kRowWords[static_cast<std::size_t>(rows_)] +
           " by the filter\nkernel: " + kernel_words(target_, "float_product") +
           "\ntile: " + std::to_string(tile_pixels_) + " pixels, " + std::to_string(tile_columns_) + " channels, on " +
           counted(participants(), "thread");
  }

 private:
  // What the rows of the left matrix are: pixels of the input, windows as they lie in it, copies of these, or the
  // pixels of one tap after the other.
  enum class Rows : std::uint8_t { pixels, windows, gathered, taps };
  static constexpr const char* kRowWords[] = {"pixels", "windows in place", "windows gathered", "taps in place"};

  struct Tile {
    std::int64_t pixel, pixels, group, column, columns;
  };
  // Of a window: `runs` of so many terms.
  struct Terms {
    std::int64_t runs, terms;
  };

  bool is_narrow() const { return panels_.columns() < kFloatPanelColumns; }
  // Tap by tap, too, where a sum comes out that may be another.
  bool may_gather() const { return rows_ == Rows::gathered || rows_ == Rows::taps; }
  bool has_few_pixels() const { return pixels() <= kFewPixels; }
  std::int64_t pixels() const { return geometry_.batch * geometry_.image_pixels(); }
  std::int64_t column_tiles() const { return divide_up(geometry_.group_output_channels(), tile_columns_); }
  std::int64_t tasks() const { return divide_up(pixels(), tile_pixels_) * geometry_.groups * column_tiles(); }
  std::int64_t participants() const { return std::min<std::int64_t>(target_.num_threads, tasks()); }

  void choose_tiles();
  Tile tile_of(std::int64_t task) const noexcept;
  Terms terms_from(std::int64_t k) const noexcept;
  void add_products(const FloatConvolutionDispatch& dispatch, const Tile& tile, float* sums, std::int64_t sums_row,
                    float* windows) const noexcept;
  bool add_taps_in_place(const FloatConvolutionDispatch& dispatch, const Tile& tile, float* sums,
                         std::int64_t sums_row) const noexcept;
  void add_tap_in_place(const Tile& tile, std::int64_t tap, FloatProductBlock block) const noexcept;
  void add_products_in_place(const float* input, const Tile& tile, std::int64_t k,
                             FloatProductBlock block) const noexcept;
  void run_tile(const FloatConvolutionDispatch& dispatch, const Tile& tile, std::uint8_t* own) const noexcept;
  void scatter(const float* sums, const Tile& tile, float* output) const noexcept;

  ConvolutionGeometry geometry_;
  ExecutionTarget target_;
  std::int64_t group_stride_;
  FloatWindows windows_;
  FloatFilterPanels panels_;
  std::optional<std::int64_t> input_pixel_, output_pixel_;  // strides, where tensors are rows of a matrix as they lie
  Rows rows_ = Rows::gathered;
  std::int64_t tile_pixels_ = kFloatTileRows, tile_columns_ = kFloatPanelColumns, block_terms_ = kFloatBlockTerms;
  std::size_t windows_at_ = 0, sums_at_ = 0, participant_size_ = 0;
};

// All output channels, so that windows are gathered once; with threads so few that each has several tiles. A block of
// a panel takes 32 KiB (float_tiles.h), so that panels of few columns have more terms of rows that are not copied.
void FloatProductConvolution::choose_tiles() {
  tile_pixels_ = std::min(kFloatTileRows, pixels());
  if (is_narrow()) {
    tile_pixels_ = std::min(in_equal_parts(pixels(), kMostRegisterTiles * kRegisterRows, kRegisterRows), pixels());
  }
  if (rows_ == Rows::taps && geometry_.output_width <= kFloatTileRows) {  // whole rows, as even in height
    const std::int64_t rows = geometry_.batch * geometry_.output_height;
    tile_pixels_ = in_equal_parts(rows, kFloatTileRows / geometry_.output_width, 1) * geometry_.output_width;
  }
  const std::int64_t columns = geometry_.group_output_channels();
  const std::int64_t all = divide_up(columns, kFloatPanelColumns) * kFloatPanelColumns;
  tile_columns_ = may_gather() ? std::min(kMostTileColumns, all) : kFloatPanelColumns;
  const std::int64_t run = geometry_.kernel_width * geometry_.group_input_channels();
  if (is_narrow()) {
    const bool in_runs = rows_ == Rows::windows && run > kNarrowPanelTerms;
    const std::int64_t most = has_few_pixels() ? geometry_.reduction() : kNarrowPanelTerms;
    block_terms_ = in_equal_parts(in_runs ? run : geometry_.reduction(), most, 1);
  } else if (columns < kFloatPanelColumns && !may_gather()) {
    block_terms_ *= kFloatPanelColumns / float_panel_row(columns);
  }
  if (target_.num_threads == 1) return;
  const auto too_few = [&] { return tasks() < static_cast<std::int64_t>(target_.num_threads) * kTasksPerThread; };
  while (too_few() && tile_columns_ > kFloatPanelColumns) {
    tile_columns_ = divide_up(tile_columns_ / 2, kFloatPanelColumns) * kFloatPanelColumns;
  }
  while (too_few() && tile_pixels_ >= 2 * kLeastTilePixels) tile_pixels_ = divide_up(tile_pixels_, 8) * 4;
}

FloatProductConvolution::Tile FloatProductConvolution::tile_of(std::int64_t task) const noexcept {
  const std::int64_t column = task % column_tiles() * tile_columns_;
  const std::int64_t group = task / column_tiles() % geometry_.groups;
  const std::int64_t pixel = task / column_tiles() / geometry_.groups * tile_pixels_;
  return {.pixel = pixel,
          .pixels = std::min(tile_pixels_, pixels() - pixel),
          .group = group,
          .column = column,
          .columns = std::min(tile_columns_, geometry_.group_output_channels() - column)};
}

FloatProductConvolution::Terms FloatProductConvolution::terms_from(std::int64_t k) const noexcept {
  const std::int64_t left = geometry_.reduction() - k;
  if (rows_ != Rows::windows) return {.runs = 1, .terms = std::min(block_terms_, left)};
  const std::int64_t run = geometry_.kernel_width * geometry_.group_input_channels(), done = k % run;
  if (done == 0 && run <= block_terms_) return {.runs = std::min(block_terms_, left) / run, .terms = run};
  return {.runs = 1, .terms = std::min(block_terms_, run - done)};
}

void FloatProductConvolution::run_tile(const FloatConvolutionDispatch& dispatch, const Tile& tile,
                                       std::uint8_t* own) const noexcept {
  const std::int64_t channel = tile.group * geometry_.group_output_channels() + tile.column;
  auto* windows = reinterpret_cast<float*>(own + windows_at_);
  float* sums = output_pixel_ ? dispatch.output + tile.pixel * *output_pixel_ + channel
                              : reinterpret_cast<float*>(own + sums_at_);
  const std::int64_t sums_row = output_pixel_.value_or(tile.columns);
  if (rows_ != Rows::taps || !add_taps_in_place(dispatch, tile, sums, sums_row)) {
    add_products(dispatch, tile, sums, sums_row, windows);
  }
  if (!dispatch.epilogue.empty()) {
    dispatch.epilogue.apply({.values = sums,
                             .pixel_stride = as_size(sums_row),
                             .pixel = as_size(tile.pixel),
                             .pixels = as_size(tile.pixels),
                             .channel = as_size(channel),
                             .channels = as_size(tile.columns)});
  }
  if (!output_pixel_) scatter(sums, tile, dispatch.output + channel * geometry_.output.c);
}

void FloatProductConvolution::add_products(const FloatConvolutionDispatch& dispatch, const Tile& tile, float* sums,
                                           std::int64_t sums_row, float* windows) const noexcept {
  const std::int64_t terms_of_window = geometry_.reduction();
  const float* input = dispatch.input + tile.group * group_stride_;
  const float* filter = dispatch.filter + tile.group * panels_.group_floats() + tile.column * terms_of_window;
  const std::int64_t channel = tile.group * geometry_.group_output_channels() + tile.column;
  for (std::int64_t k = 0; k < terms_of_window;) {
    const Terms terms = terms_from(k);
    if (may_gather()) windows_.gather(input, tile.pixel, tile.pixels, k, terms.terms, windows);
    const std::int64_t whole = tile.columns / panels_.columns() * panels_.columns();
    for (std::int64_t column = 0, columns = 0; column < tile.columns; column += columns) {
      columns = std::min(panels_.columns(), tile.columns - column);
      const std::int64_t row = float_panel_row(columns);
      if (is_narrow() && has_few_pixels()) columns = std::max(whole - column, columns);
      FloatProductBlock block = {.a = input_pixel_ ? input + tile.pixel * *input_pixel_ + k : windows,
                                 .a_row_stride = as_size(input_pixel_.value_or(terms.terms)),
                                 .runs = as_size(terms.runs),
                                 .b = filter + column * terms_of_window + k * row,
                                 .b_row_stride = as_size(row),
                                 .m = as_size(tile.pixels),
                                 .k = as_size(terms.terms),
                                 .n = as_size(columns),
                                 .sums = sums + column,
                                 .sums_row_stride = as_size(sums_row),
                                 .begins = k == 0,
                                 .bias = dispatch.bias == nullptr ? nullptr : dispatch.bias + channel + column,
                                 .b_panel_stride = as_size(panels_.columns() * terms_of_window)};
      rows_ == Rows::windows ? add_products_in_place(input, tile, k, block)
                             : target_.kernels().float_product->accumulate(block);
    }
    k += terms.runs * terms.terms;
  }
}

// Taps in the padding are left out. Their terms are 0 times an element of the filter, if that is finite a zero, which
// changes no sum but one that is -0: from there on the sum with the term is +0 as long as all terms are zeros, and the
// same otherwise. So results that are not -0 are those with all taps. Returns whether they are such.
bool FloatProductConvolution::add_taps_in_place(const FloatConvolutionDispatch& dispatch, const Tile& tile, float* sums,
                                                std::int64_t sums_row) const noexcept {
  if (!panels_.are_finite(dispatch.filter)) return false;
  const std::int64_t channels = geometry_.group_input_channels(), terms_of_window = geometry_.reduction();
  const std::int64_t most = in_equal_parts(channels, is_narrow() ? kNarrowPanelTerms : kFloatBlockTerms, 1);
  const float* input = dispatch.input + tile.group * group_stride_;
  const float* filter = dispatch.filter + tile.group * panels_.group_floats() + tile.column * terms_of_window;
  const float* bias = dispatch.bias;
  if (bias != nullptr) bias += tile.group * geometry_.group_output_channels() + tile.column;
  for (std::int64_t pixel = 0; pixel < tile.pixels; ++pixel) {
    float* row = sums + pixel * sums_row;
    bias == nullptr ? std::fill_n(row, tile.columns, 0.0F) : std::copy_n(bias, tile.columns, row);
  }
  for (std::int64_t column = 0; column < tile.columns; column += panels_.columns()) {
    const std::int64_t columns = std::min(panels_.columns(), tile.columns - column), row = float_panel_row(columns);
    for (std::int64_t k = 0, terms = 0; k < terms_of_window; k += terms) {
      terms = std::min(most, channels - k % channels);
      const FloatProductBlock block = {.a = input + k % channels,
                                       .a_row_stride = as_size(geometry_.stride_width * geometry_.input.w),
                                       .b = filter + column * terms_of_window + k * row,
                                       .b_row_stride = as_size(row),
                                       .m = 0,
                                       .k = as_size(terms),
                                       .n = as_size(columns),
                                       .sums = sums + column,
                                       .sums_row_stride = as_size(sums_row),
                                       .begins = false};
      add_tap_in_place(tile, k / channels, block);
    }
  }
  bool is_same = true;
  for (std::int64_t pixel = 0; pixel < tile.pixels; ++pixel) {
    is_same &= !has_negative_zero(sums + pixel * sums_row, tile.columns);
  }
  return is_same;
}

// Block has all but the pixels, a being those of an input that begins at the first one of the tensor.
void FloatProductConvolution::add_tap_in_place(const Tile& tile, std::int64_t tap,
                                               FloatProductBlock block) const noexcept {
  const std::int64_t row = tap / geometry_.kernel_width * geometry_.dilation_height - geometry_.padding_top;
  const std::int64_t column = tap % geometry_.kernel_width * geometry_.dilation_width - geometry_.padding_left;
  const float* input = block.a;
  float* sums = block.sums;
  for_each_pixel_run(geometry_, tile.pixel, tile.pixels, [&](std::int64_t offset, const PixelRun& run) {
    const std::int64_t y = run.row * geometry_.stride_height + row;
    const std::int64_t x = run.column * geometry_.stride_width + column;
    const IndexRange inside = indices_inside(x, geometry_.stride_width, geometry_.input_width, run.count);
    if (y < 0 || y >= geometry_.input_height || inside.count() == 0) return;
    block.a = input + run.n * geometry_.input.n + y * geometry_.input.h +
              (x + inside.begin * geometry_.stride_width) * geometry_.input.w;
    block.m = as_size(inside.count());
    block.sums = sums + as_size(offset + inside.begin) * block.sums_row_stride;
    target_.kernels().float_product->accumulate(block);
  });
}

// Of the terms from k on of windows in the input; block has all but where these are.
void FloatProductConvolution::add_products_in_place(const float* input, const Tile& tile, std::int64_t k,
                                                    FloatProductBlock block) const noexcept {
  const std::int64_t run_terms = geometry_.kernel_width * geometry_.group_input_channels();
  input += k / run_terms * geometry_.dilation_height * geometry_.input.h + k % run_terms;
  float* sums = block.sums;
  block.a_row_stride = as_size(geometry_.stride_width * geometry_.input.w);
  block.a_run_stride = as_size(geometry_.dilation_height * geometry_.input.h);
  for_each_pixel_run(geometry_, tile.pixel, tile.pixels, [&](std::int64_t offset, const PixelRun& run) {
    block.a = input + run.n * geometry_.input.n + run.row * geometry_.stride_height * geometry_.input.h +
              run.column * geometry_.stride_width * geometry_.input.w;
    block.m = as_size(run.count);
    block.sums = sums + as_size(offset) * block.sums_row_stride;
    target_.kernels().float_product->accumulate(block);
  });
}

void FloatProductConvolution::scatter(const float* sums, const Tile& tile, float* output) const noexcept {
  for_each_pixel_run(geometry_, tile.pixel, tile.pixels, [&](std::int64_t offset, const PixelRun& run) {
    scatter_pixels(*target_.kernels().pack, sums + offset * tile.columns, run.count, tile.columns, sizeof(float),
                   output + run.n * geometry_.output.n + run.row * geometry_.output.h + run.column * geometry_.output.w,
                   geometry_.output.w, geometry_.output.c);
  });
}

}  // namespace

std::unique_ptr<FloatConvolutionAlgorithm> make_float_product_convolution(const ConvolutionGeometry& geometry,
                                                                          std::int64_t group_stride,
                                                                          const ExecutionTarget& target) {
  return std::make_unique<FloatProductConvolution>(geometry, group_stride, target);
}

}  // namespace dmlcpu
