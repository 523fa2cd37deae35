// What the kernels of winograd.h do with a panel of output channels, on vectors of any width.
// Included inside the unnamed namespace of a kernel file, after transforms.inl.h and what is of its vectors:
//
//   kNr, kMr, kLanes             output channels of a panel, tiles of a product, sums of a vector
//   zero_point_pairs(values)     of kLanes channels, each twice in 16 bits; zeros where values is null
//   transform_pair<first>(...)   U of kLanes output by two input channels
//   multiply_rows<rows>(...)     M of some tiles at one of the 36 places
//   transform_sums(...)          the sums of a tile, of kLanes channels
//   Requantizer                  stores pairs of pixels as codes

inline void transform_filter(const WinogradFilterRun& run) noexcept {
  for (std::size_t lane = 0; lane < kNr; lane += kLanes) {
    const auto zero_points = zero_point_pairs(run.zero_point == nullptr ? nullptr : run.zero_point + lane);
    for (std::size_t channel = 0; channel < run.channels; channel += 4) {
      const std::uint8_t* filter = run.filter + channel * kNr + lane * 4;
      std::int16_t* planes = run.planes + channel * kNr + lane * 2;
      transform_pair<0>(filter, run.tap_stride, zero_points, planes, run.plane_stride);
      transform_pair<2>(filter, run.tap_stride, zero_points, planes + 2 * kNr, run.plane_stride);
    }
  }
}

struct RowsFunctions {
  void (*of[kMr])(const std::int16_t* activations, std::size_t tile_stride, const std::int16_t* filter,
                  std::size_t channels, std::int32_t* products) noexcept;
};
template <std::size_t... index>
constexpr RowsFunctions rows_functions(std::index_sequence<index...>) noexcept {
  return {{multiply_rows<index + 1>...}};
}
constexpr RowsFunctions kRowsFunctions = rows_functions(std::make_index_sequence<kMr>());

// Tiles in equal parts, none of more than kMr.
inline void multiply(const WinogradProductRun& run) noexcept {
  const std::size_t parts = (run.tiles + kMr - 1) / kMr;
  for (std::size_t place = 0; place < kWinogradPlaces; ++place) {
    const std::int16_t* activations = run.activations + place * run.activations_plane_stride;
    const std::int16_t* filter = run.filter + place * run.filter_plane_stride;
    std::int32_t* products = run.products + place * run.products_plane_stride;
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t first = run.tiles * part / parts, end = run.tiles * (part + 1) / parts;
      kRowsFunctions.of[end - first - 1](activations + first * run.activations_tile_stride, run.activations_tile_stride,
                                         filter, run.channels, products + first * kNr);
    }
  }
}

template <bool within_range>
inline void store_tile(const WinogradOutputRun& run, const Requantizer& of_run, std::size_t first,
                       const std::int32_t* sums) noexcept {
  const Requantizer requantizer = of_run;  // here, lest every store of a byte might change it
  const std::size_t pixel_stride = run.pixel_stride, row_stride = run.row_stride, rows = run.rows;
  std::uint8_t* output = run.output + first * pixel_stride;
  const std::size_t columns = run.columns - first < kWinogradOutputs ? run.columns - first : kWinogradOutputs;
  for (std::size_t row = 0; row < rows; ++row, sums += kWinogradOutputs * kNr, output += row_stride) {
    for (std::size_t column = 0; column < columns; column += 2) {
      const std::size_t second = column + 1 < columns ? column + 1 : column;
      requantizer.store_pair<within_range>(output + column * pixel_stride, output + second * pixel_stride,
                                           sums + column * kNr, sums + second * kNr);
    }
  }
}

inline void transform_output(const WinogradOutputRun& operands) noexcept {
  const WinogradOutputRun run = operands;  // a copy: bytes of output could alias the original
  constexpr std::size_t kSumsOfTile = kWinogradOutputs * kWinogradOutputs * kNr;
  alignas(64) std::int32_t of_tile[kSumsOfTile];
  const Requantizer requantizer(run);
  const bool within_range = requantizer.converts_within_range();
  for (std::size_t tile = 0; tile < run.tiles; ++tile) {
    std::int32_t* sums = run.after == nullptr ? of_tile : run.after + tile * kSumsOfTile;
    const std::int32_t* begun = run.before == nullptr ? run.offset : run.before + tile * kSumsOfTile;
    for (std::size_t lane = 0; lane < kNr; lane += kLanes) {
      transform_sums(run.products + tile * kNr + lane, run.plane_stride, begun + lane, run.before == nullptr ? 0 : kNr,
                     sums + lane);
    }
    if (run.after != nullptr) continue;
    const std::size_t first = tile * kWinogradOutputs;
    within_range ? store_tile<true>(run, requantizer, first, sums) : store_tile<false>(run, requantizer, first, sums);
  }
}
