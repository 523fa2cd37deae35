// Convolution of {N, H, W, C} memory by windows of 3 x 3 and steps of one pixel, dilated ones too, a quarter of the
// products for some more additions (kernels/winograd): faster than a plain product where products of 8 bits are no more
// than twice as fast as those of 16.
//
//   for each block of rows of tiles, as many as the level-2 cache holds the transforms of, and each group (in
//   parallel):
//     for each part of the group's input channels:
//       transform the block's rows of tiles
//       for each panel of output channels:
//         transform the filter: packed, it has the bytes of its codes
//         for some tiles at a time: multiply, transform back, add to the sums of the parts before, requantize, or copy
//           sums to the output and make floats of them
//
// Threads share nothing but the filter: what one core has transformed would take another long to read. Where there are
// fewer rows than threads, these divide the panels, too, and each transforms the rows for its own; so they do, dividing
// the panels alone, where that is less by the estimate than transforming the whole filter each.
#include <algorithm>
#include <cstring>
#include <sstream>

#include "operators/buffer_layout.h"
#include "operators/convolution/convolution_algorithm.h"
#include "operators/convolution/padded/padded_planes.h"
#include "operators/convolution/padded/padded_row.h"
#include "operators/convolution/product/packed_filter.h"
#include "operators/convolution/winograd/winograd_plan.h"
#include "operators/plan_words.h"
#include "operators/sizes.h"
#include "runtime/thread_pool.h"

namespace dmlcpu {
namespace {

constexpr std::int64_t kOutputs = TileAxis::kOutputs, kInputs = TileAxis::kInputs;
// Tiles that are multiplied before they are transformed back: enough for what is fetched of the filter, whose products
// stay in the level-2 cache.
constexpr std::size_t kTilesAtOnce = 28;
// Channels of pixels that are copied for each group as they follow each other, in less time than a group's of each
// pixel.
constexpr std::int64_t kMostOfWholePixels = 256;
constexpr std::size_t kTaps = 9, kSumsOfTile = kWinogradOutputs * kWinogradOutputs;

// Elements from plane to plane: an odd number of cache lines.
std::size_t plane_stride(std::size_t elements, std::size_t element_bytes) {
  const std::size_t of_line = kAlignment / element_bytes;
  return ((elements + of_line - 1) / of_line | 1) * of_line;
}

class WinogradConvolution final : public ConvolutionAlgorithm {
 public:
  WinogradConvolution(const ConvolutionGeometry& geometry, const ExecutionTarget& target)
      : geometry_(of_one_group(geometry)),
        copied_(geometry.input_channels <= kMostOfWholePixels ? geometry : geometry_),
        padded_channels_(geometry.padded_channels(target.kernels().winograd->nr)),
        target_(target),
        kernels_(*target.kernels().winograd),
        plan_(plan_winograd(geometry, target)),
        channels_(round_up(as_size(geometry_.input_channels), kWinogradChannelGroup)),
        padded_columns_(plan_.across.padded_inputs()),
        filter_(packed_filter(geometry, kernels_.nr, {kTaps, as_size(geometry_.input_channels), channels_}, 0, false)) {
    const std::size_t part = plan_.part_channels;
    BufferLayout own;
    // Kernels transform whole steps of channels, whose last ones are of the next pixel, or behind the last one.
    padded_rows_ = own.take(as_size(kInputs * padded_columns_ * copied_.input_channels) + kWinogradChannels);
    input_planes_ = own.take(kWinogradPlaces * input_plane_stride(part), sizeof(std::int16_t));
    filter_planes_ = own.take(kWinogradPlaces * filter_plane_stride(part), sizeof(std::int16_t));
    products_ = own.take(kWinogradPlaces * products_plane_stride(), sizeof(std::int32_t));
    const std::size_t tiles_of_sums = keeps_sums()              ? plan_.panels_at_once * plan_.block_tiles()
                                      : geometry.ends_in_sums() ? product_tiles()
                                                                : 0;
    sums_ = own.take(tiles_of_sums * kSumsOfTile * kernels_.nr, sizeof(std::int32_t));
    participant_size_ = own.size();
    scratch_size_ = own.size_of(as_size(target.num_threads));
  }

  std::size_t packed_filter_size() const override { return filter_.size(); }
  std::vector<std::size_t> packing() const override { return filter_.numbers(); }
  void pack_filter(const std::uint8_t* filter, std::uint8_t flip, std::uint8_t* packed) const override {
    dmlcpu::pack_filter(geometry_, *target_.kernels().pack, filter_, filter, flip, packed);
  }
  const std::int32_t* filter_sums(const std::uint8_t* packed) const override {
    return reinterpret_cast<const std::int32_t*>(packed + filter_.sums_offset());
  }
  std::size_t channels_at_once() const override { return kernels_.nr; }
  std::size_t arranged_size() const override {
    return padded_channels_ * (sizeof(std::int32_t) + (geometry_.ends_in_sums() ? sizeof(float) : 0));
  }
  ChannelParameters arrange(const ChannelParameters& channels, const std::uint8_t* packed_filter,
                            std::int32_t input_zero_point, std::uint8_t* arranged) const override;
  std::size_t scratch_size() const override { return scratch_size_; }
  void run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const override;
  std::string describe() const override;

 private:
  // Of a group: rows of tiles [first_row, first_row + rows), panels [first_panel, end_panel), input channels
  // [first_channel, first_channel + channels), and the participant's scratch memory.
  struct Task {
    std::int64_t first_row, rows;
    std::size_t first_panel, end_panel;
    std::size_t first_channel, channels;
    std::uint8_t* own;
    std::size_t group;
  };

  // Of a row of tiles over all images: its image, and its first row of outputs and how many it has, as far apart as the
  // dilation.
  struct RowPlace {
    std::int64_t image, row, rows;
  };
  RowPlace place_of(std::int64_t tile_row) const {
    const TileAxis::Place place = plan_.down.place(tile_row % plan_.down.tiles());
    return {tile_row / plan_.down.tiles(), place.first, std::min(kOutputs, place.outputs)};
  }
  // Whether the sums of some channels wait for the next ones.
  bool keeps_sums() const { return channels_ > kWinogradMostChannelsOfAnyFilter; }
  std::size_t product_tiles() const { return std::min(kTilesAtOnce, plan_.block_tiles()); }
  std::size_t input_plane_stride(std::size_t channels) const {
    return plane_stride(plan_.block_tiles() * channels, sizeof(std::int16_t));
  }
  std::size_t filter_plane_stride(std::size_t channels) const {
    return plane_stride(channels * kernels_.nr, sizeof(std::int16_t));
  }
  std::size_t products_plane_stride() const {
    return plane_stride(product_tiles() * kernels_.nr, sizeof(std::int32_t));
  }
  void run_task(const ConvolutionDispatch& dispatch, Task task) const noexcept;
  void transform_row(const ConvolutionDispatch& dispatch, const Task& task, std::int64_t row) const noexcept;
  void run_panel(const ConvolutionDispatch& dispatch, const Task& task, std::size_t panel) const noexcept;
  void clear_missing_channels(const Task& task, std::int16_t* filter) const noexcept;
  void finish(const ConvolutionDispatch& dispatch, const Task& task, std::size_t panel, std::size_t first_tile,
              std::size_t end_tile) const noexcept;
  ConvolutionDispatch of_group(const ConvolutionDispatch& dispatch, std::size_t group) const noexcept;
  void store_sums(const ConvolutionDispatch& dispatch, const WinogradOutputRun& run,
                  std::size_t first_channel) const noexcept;
  void apply_epilogue(const ConvolutionDispatch& dispatch, const Task& task) const noexcept;

  ConvolutionGeometry geometry_;  // of a group
  ConvolutionGeometry copied_;    // of all channels that are copied together, of one group or of all
  std::size_t padded_channels_;
  ExecutionTarget target_;
  const WinogradKernels& kernels_;
  WinogradPlan plan_;
  std::size_t channels_;  // input channels, up to a whole group of the kernels
  std::int64_t padded_columns_;
  PackedFilter filter_;
  // Within a participant's part of the scratch memory, and of all.
  std::size_t padded_rows_, input_planes_, filter_planes_, products_, sums_, participant_size_, scratch_size_;
};

// Activations are signed here, 128 less than the dispatch has them, and filters have their zero points taken off: sums
// of products lack 128 times those of the differences.
ChannelParameters WinogradConvolution::arrange(const ChannelParameters& channels, const std::uint8_t* packed_filter,
                                               std::int32_t, std::uint8_t* arranged) const {
  const std::int32_t* sums = filter_sums(packed_filter);
  const std::size_t count = filter_.output_channels;
  const auto terms = static_cast<std::uint32_t>(geometry_.reduction());
  auto* offset = reinterpret_cast<std::int32_t*>(arranged);
  for (std::size_t c = 0; c < count; ++c) {
    const std::int32_t zero_point = channels.filter_zero_point == nullptr ? 0 : channels.filter_zero_point[c];
    const std::uint32_t differences =
        static_cast<std::uint32_t>(sums[c]) - terms * static_cast<std::uint32_t>(zero_point);
    offset[c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(channels.offset[c]) + 128 * differences);
  }
  std::fill(offset + count, offset + padded_channels_, 0);
  const float* multiplier = channels.multiplier;
  if (geometry_.ends_in_sums()) {
    auto* none = reinterpret_cast<float*>(offset + padded_channels_);  // kernels read them in any case
    std::fill_n(none, padded_channels_, 0.0F);
    multiplier = none;
  }
  return {.offset = offset, .multiplier = multiplier, .filter_zero_point = channels.filter_zero_point};
}

void WinogradConvolution::run(const ConvolutionDispatch& dispatch, std::uint8_t* scratch) const {
  const std::size_t parts = plan_.panel_groups(), of_block = filter_.groups * parts;
  parallel_for(as_size(plan_.blocks()) * of_block, target_.num_threads, [&](std::size_t task, int slot) noexcept {
    const std::int64_t row = static_cast<std::int64_t>(task / of_block) * plan_.rows_at_once;
    const std::size_t group = task % of_block / parts, panel = task % parts * plan_.panels_at_once;
    run_task(of_group(dispatch, group), {.first_row = row,
                                         .rows = std::min(plan_.rows_at_once, plan_.rows - row),
                                         .first_panel = panel,
                                         .end_panel = std::min(panel + plan_.panels_at_once, plan_.panels),
                                         .first_channel = 0,
                                         .channels = 0,
                                         .own = scratch + as_size(slot) * participant_size_,
                                         .group = group});
  });
}

// What begins at the first channel of a group: all but the input, and what makes floats of sums.
ConvolutionDispatch WinogradConvolution::of_group(const ConvolutionDispatch& dispatch,
                                                  std::size_t group) const noexcept {
  const std::size_t channel = group * as_size(geometry_.output_channels);
  ConvolutionDispatch part = dispatch;
  part.filter += group * filter_.operand_size;
  part.channels.offset += channel;
  part.channels.multiplier += channel;
  if (part.channels.filter_zero_point != nullptr) part.channels.filter_zero_point += channel;
  part.output += channel * as_size(geometry_.output_bytes);
  return part;
}

void WinogradConvolution::run_task(const ConvolutionDispatch& dispatch, Task task) const noexcept {
  const std::size_t part = channels_of_part(channels_, dispatch.channels.filter_zero_point != nullptr);
  for (; task.first_channel < channels_; task.first_channel += part) {
    task.channels = std::min(part, channels_ - task.first_channel);
    for (std::int64_t row = 0; row < task.rows; ++row) transform_row(dispatch, task, row);
    for (std::size_t panel = task.first_panel; panel < task.end_panel; ++panel) run_panel(dispatch, task, panel);
  }
  if (dispatch.epilogue != nullptr) apply_epilogue(dispatch, task);
}

// A row of tiles of the task, from a padded copy of its six rows.
void WinogradConvolution::transform_row(const ConvolutionDispatch& dispatch, const Task& task,
                                        std::int64_t row) const noexcept {
  const std::size_t channel = task.group * channels_, of_copy = copied_.groups > 1 ? channel : 0;
  const ActivationSource source = {.data = dispatch.source.data + (channel - of_copy),
                                   .flip = static_cast<std::uint8_t>(dispatch.source.flip ^ 0x80),
                                   .zero_point = static_cast<std::uint8_t>(dispatch.source.zero_point ^ 0x80)};
  const RowPlace place = place_of(task.first_row + row);
  const std::size_t pixel_bytes = as_size(copied_.input_channels), row_bytes = as_size(padded_columns_) * pixel_bytes;
  std::uint8_t* padded = task.own + padded_rows_;
  for (std::int64_t i = 0; i < kInputs; ++i) {
    pack_padded_row(copied_, *target_.kernels().pack, source, place.image, place.row + i * plan_.down.dilation, 0,
                    padded_columns_, padded + as_size(i) * row_bytes);
  }
  const std::size_t transformed = round_up(task.channels, kWinogradChannels);
  auto* planes = reinterpret_cast<std::int16_t*>(task.own + input_planes_);
  const std::int64_t tiles = plan_.across.tiles();
  for (std::int64_t tile = 0; tile < tiles;) {
    const TileAxis::Place phase = plan_.across.place(tile);
    kernels_.transform_input({.codes = padded + as_size(phase.first) * pixel_bytes + of_copy + task.first_channel,
                              .pixel_stride = as_size(plan_.across.dilation) * pixel_bytes,
                              .row_stride = row_bytes,
                              .tiles = as_size(phase.tiles),
                              .channels = transformed,
                              .planes = planes + as_size(row * tiles + tile) * transformed,
                              .plane_stride = input_plane_stride(transformed),
                              .tile_stride = transformed});
    tile += phase.tiles;
  }
}

void WinogradConvolution::run_panel(const ConvolutionDispatch& dispatch, const Task& task,
                                    std::size_t panel) const noexcept {
  const std::size_t nr = kernels_.nr, tiles = as_size(task.rows * plan_.across.tiles());
  const std::size_t transformed = round_up(task.channels, kWinogradChannels);
  const auto* activations = reinterpret_cast<const std::int16_t*>(task.own + input_planes_);
  auto* filter = reinterpret_cast<std::int16_t*>(task.own + filter_planes_);
  const std::int32_t* zero_points = dispatch.channels.filter_zero_point;
  kernels_.transform_filter({.filter = dispatch.filter + (panel * kTaps * channels_ + task.first_channel) * nr,
                             .tap_stride = channels_ * nr,
                             .channels = task.channels,
                             .zero_point = zero_points == nullptr ? nullptr : zero_points + panel * nr,
                             .planes = filter,
                             .plane_stride = filter_plane_stride(task.channels)});
  if (zero_points != nullptr) clear_missing_channels(task, filter);
  for (std::size_t tile = 0; tile < tiles; tile += product_tiles()) {
    const std::size_t end = std::min(tile + product_tiles(), tiles);
    kernels_.multiply({.activations = activations + tile * transformed,
                       .activations_plane_stride = input_plane_stride(transformed),
                       .activations_tile_stride = transformed,
                       .filter = filter,
                       .filter_plane_stride = filter_plane_stride(task.channels),
                       .tiles = end - tile,
                       .channels = task.channels,
                       .products = reinterpret_cast<std::int32_t*>(task.own + products_),
                       .products_plane_stride = products_plane_stride()});
    finish(dispatch, task, panel, tile, end);
  }
}

// Channels that only the packed filter has meet codes of the next pixel: their zeros may not become zero points.
void WinogradConvolution::clear_missing_channels(const Task& task, std::int16_t* filter) const noexcept {
  const std::size_t inputs = as_size(geometry_.input_channels), nr = kernels_.nr;
  for (std::size_t place = 0; place < kWinogradPlaces; ++place) {
    std::int16_t* plane = filter + place * filter_plane_stride(task.channels);
    for (std::size_t channel = inputs - std::min(inputs, task.first_channel); channel < task.channels; ++channel) {
      std::int16_t* of_pair = plane + channel / 2 * nr * 2 + channel % 2;
      for (std::size_t output = 0; output < nr; ++output) of_pair[output * 2] = 0;
    }
  }
}

// The outputs of a panel's tiles, cut at the ends of phases and of rows of tiles.
void WinogradConvolution::finish(const ConvolutionDispatch& dispatch, const Task& task, std::size_t panel,
                                 std::size_t first_tile, std::size_t end_tile) const noexcept {
  const std::size_t nr = kernels_.nr, row_tiles = as_size(plan_.across.tiles());
  const bool first = task.first_channel == 0, last = task.first_channel + task.channels == channels_;
  const bool ends_in_sums = last && geometry_.ends_in_sums();
  const auto* products = reinterpret_cast<const std::int32_t*>(task.own + products_);
  auto* sums = reinterpret_cast<std::int32_t*>(task.own + sums_);
  if (keeps_sums()) sums += ((panel - task.first_panel) * plan_.block_tiles() + first_tile) * kSumsOfTile * nr;
  const PlaneStrides& strides = geometry_.output;
  for (std::size_t tile = first_tile; tile < end_tile;) {
    const RowPlace place = place_of(task.first_row + static_cast<std::int64_t>(tile / row_tiles));
    const TileAxis::Place phase = plan_.across.place(static_cast<std::int64_t>(tile % row_tiles));
    const std::size_t count = std::min(as_size(phase.tiles), end_tile - tile);
    std::int32_t* of_run = sums + (tile - first_tile) * kSumsOfTile * nr;
    const std::int64_t element = place.image * strides.n + place.row * strides.h + phase.first * strides.w +
                                 static_cast<std::int64_t>(panel * nr);
    const WinogradOutputRun run = {.products = products + (tile - first_tile) * nr,
                                   .plane_stride = products_plane_stride(),
                                   .tiles = count,
                                   .before = first ? nullptr : of_run,
                                   .offset = dispatch.channels.offset + panel * nr,
                                   .after = last && !ends_in_sums ? nullptr : of_run,
                                   .multiplier = dispatch.channels.multiplier + panel * nr,
                                   .output_zero_point = dispatch.output_zero_point,
                                   .flip = dispatch.output_flip,
                                   .rows = as_size(place.rows),
                                   .columns = std::min(count * kWinogradOutputs, as_size(phase.outputs)),
                                   .channels = std::min(nr, as_size(geometry_.output_channels) - panel * nr),
                                   .output = dispatch.output + element * geometry_.output_bytes,
                                   .pixel_stride = as_size(plan_.across.dilation * strides.w),
                                   .row_stride = as_size(plan_.down.dilation * strides.h)};
    kernels_.transform_output(run);
    if (ends_in_sums) store_sums(dispatch, run, task.group * as_size(geometry_.output_channels) + panel * nr);
    tile += count;
  }
}

// What the kernel has left, to where it would have written codes.
void WinogradConvolution::store_sums(const ConvolutionDispatch& dispatch, const WinogradOutputRun& run,
                                     std::size_t first_channel) const noexcept {
  constexpr std::size_t kBytes = sizeof(std::int32_t);
  for (std::size_t row = 0; row < run.rows; ++row) {
    for (std::size_t column = 0; column < run.columns; ++column) {
      const std::size_t tile = column / kWinogradOutputs;
      const std::size_t place = (tile * kWinogradOutputs + row) * kWinogradOutputs + column % kWinogradOutputs;
      std::memcpy(run.output + (row * run.row_stride + column * run.pixel_stride) * kBytes,
                  run.after + place * kernels_.nr, run.channels * kBytes);
    }
  }
  if (dispatch.to_floats == nullptr) return;
  dispatch.to_floats->apply({.sums = run.output,
                             .runs = run.rows,
                             .run_stride = run.row_stride,
                             .pixels = run.columns,
                             .pixel_stride = run.pixel_stride,
                             .first_channel = first_channel,
                             .channels = run.channels});
}

void WinogradConvolution::apply_epilogue(const ConvolutionDispatch& dispatch, const Task& task) const noexcept {
  const auto all = as_size(geometry_.output_channels), first = task.first_panel * kernels_.nr;
  const std::size_t channels = std::min(task.end_panel * kernels_.nr, all) - first;
  for (std::int64_t tile_row = task.first_row; tile_row < task.first_row + task.rows; ++tile_row) {
    const RowPlace place = place_of(tile_row);
    for (std::int64_t i = 0; i < place.rows; ++i) {
      const std::int64_t row = place.row + i * plan_.down.dilation;
      dispatch.epilogue->apply(dispatch.output + place.image * geometry_.output.n + row * geometry_.output.h + first,
                               as_size(geometry_.output_width), as_size(geometry_.output.w), channels);
    }
  }
}

std::string WinogradConvolution::describe() const {
  std::ostringstream text;
  text << "algorithm: Winograd's, F(4x4, 3x3), in integers of 16 bits"
       << (geometry_.ends_in_sums() ? "" : ", requantized in the same pass") << "\n"
       << "kernel: " << kernel_words(target_, "winograd") << ", tiles of " << kernels_.mr << " x " << kernels_.nr
       << "\nwhy: a quarter of the products, by estimate in less time with its transforms\n"
       << "block: " << counted(plan_.rows_at_once, "row") << " of " << counted(plan_.across.tiles(), "tile") << " by "
       << counted(static_cast<std::int64_t>(plan_.panels_at_once), "panel") << ", of " << plan_.panels
       << ", input channels up to " << plan_.part_channels << " at a time";
  if (filter_.groups > 1) text << ", of each of " << filter_.groups << " groups";
  return text.str();
}

}  // namespace

bool winograd_applies(const ConvolutionGeometry& geometry, const ExecutionTarget& target) {
  // Groups of few channels would gain by the estimate, but not beside products of filters of small codes, which are up
  // to twice as fast (kernels/gemm/gemm.h).
  constexpr std::size_t kLeastOfGroups = 24;
  const std::size_t channels = as_size(geometry.group_input_channels());
  const bool has_channels =
      geometry.groups == 1 || (channels % kWinogradChannelGroup == 0 && channels >= kLeastOfGroups);
  const bool is_window = geometry.kernel_height == 3 && geometry.kernel_width == 3 && geometry.stride_height == 1 &&
                         geometry.stride_width == 1;
  return is_window && has_channels && PaddedPlanes::holds(geometry) && winograd_pays(geometry, target);
}

std::unique_ptr<ConvolutionAlgorithm> make_winograd_convolution(const ConvolutionGeometry& geometry,
                                                                const ExecutionTarget& target) {
  return std::make_unique<WinogradConvolution>(geometry, target);
}

}  // namespace dmlcpu
