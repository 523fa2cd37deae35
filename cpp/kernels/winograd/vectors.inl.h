// The kernels of winograd.h on vectors of any width.
// Included inside the unnamed namespace of a kernel file, after transforms.inl.h and what is of its vectors:
//
//   kMr, kNr                   tiles of a product, output channels of a panel: two vectors of sums
//   Vector, Words, Sums        a vector, and as unsigned lanes of 16 and of 32 bits
//   StepWords                  of kWinogradChannels, perhaps fewer than Words
//   widened(codes, Words())    signed codes, each in 16 bits
//   shuffled(bytes, order)     within each 128 bits
//   accumulate(sum, a, b)      adds the products of two pairs of 16 bits to each lane of 32
//   Requantizer                stores pairs of pixels as codes

constexpr std::size_t kLanes = sizeof(Vector) / sizeof(std::int32_t);  // sums of a vector
static_assert(kNr == 2 * kLanes);

template <class Lanes>
inline void transform_tile(const WinogradInputRun& run, const std::uint8_t* codes, std::int16_t* planes) noexcept {
  transform_codes<Lanes>(
      [&](std::size_t row, std::size_t column) noexcept {
        const std::uint8_t* pixel = codes + row * run.row_stride + column * run.pixel_stride;
        return reinterpret_cast<Lanes>(widened(pixel, Lanes()));
      },
      [&](std::size_t row, std::size_t column, Lanes value) noexcept {
        store(planes + (row * 6 + column) * run.plane_stride, value);
      });
}

inline void transform_input(const WinogradInputRun& operands) noexcept {
  constexpr std::size_t kWords = sizeof(Words) / sizeof(std::int16_t);
  const WinogradInputRun run = operands;
  for (std::size_t tile = 0; tile < run.tiles; ++tile) {
    const std::uint8_t* codes = run.codes + tile * kWinogradOutputs * run.pixel_stride;
    std::int16_t* planes = run.planes + tile * run.tile_stride;
    std::size_t channel = 0;
    for (; channel + kWords <= run.channels; channel += kWords) {
      transform_tile<Words>(run, codes + channel, planes + channel);
    }
    if constexpr (kWords > kWinogradChannels) {
      if (channel < run.channels) transform_tile<StepWords>(run, codes + channel, planes + channel);
    }
  }
}

// The windows of kLanes output channels by input channels `first` and first + 1 of four.
template <int first>
inline __attribute__((always_inline)) void transform_pair(const std::uint8_t* filter, std::size_t tap_stride,
                                                          Words zero_points, std::int16_t* planes,
                                                          std::size_t plane_stride) noexcept {
  using SignedWords [[gnu::vector_size(sizeof(Words))]] = std::int16_t;
  // Each code to the upper half of 16 bits, from where an arithmetic shift extends it.
  const __m128i order = _mm_setr_epi8(-1, first, -1, first + 1, -1, first + 4, -1, first + 5, -1, first + 8, -1,
                                      first + 9, -1, first + 12, -1, first + 13);
  transform_window<Words>(
      [&](std::size_t row, std::size_t column) noexcept {
        const Vector codes = load<Vector>(filter + (row * 3 + column) * tap_stride);
        return reinterpret_cast<Words>(reinterpret_cast<SignedWords>(shuffled(codes, order)) >> 8) - zero_points;
      },
      [&](std::size_t row, std::size_t column, Words value) noexcept {
        store(planes + (row * 6 + column) * plane_stride, value);
      });
}

inline void transform_filter(const WinogradFilterRun& run) noexcept {
  for (std::size_t lane = 0; lane < kNr; lane += kLanes) {
    const Sums zero_points = run.zero_point == nullptr ? Sums{} : load<Sums>(run.zero_point + lane);
    const auto pairs = reinterpret_cast<Words>((zero_points & 0xffff) | zero_points << 16);
    for (std::size_t channel = 0; channel < run.channels; channel += 4) {
      const std::uint8_t* filter = run.filter + channel * kNr + lane * 4;
      std::int16_t* planes = run.planes + channel * kNr + lane * 2;
      transform_pair<0>(filter, run.tap_stride, pairs, planes, run.plane_stride);
      transform_pair<2>(filter, run.tap_stride, pairs, planes + 2 * kNr, run.plane_stride);
    }
  }
}

// M of some tiles at one of the 36 places.
template <std::size_t rows>
inline void multiply_rows(const std::int16_t* activations, std::size_t tile_stride, const std::int16_t* filter,
                          std::size_t channels, std::int32_t* products) noexcept {
  Vector acc_i32[rows][2];
#pragma GCC unroll 14
  for (std::size_t row = 0; row < rows; ++row) acc_i32[row][0] = acc_i32[row][1] = Vector{};
  for (std::size_t channel = 0; channel < channels; channel += 2, filter += 2 * kNr) {
    const Vector b0_i16 = load<Vector>(filter), b1_i16 = load<Vector>(filter + kNr);
#pragma GCC unroll 14
    for (std::size_t row = 0; row < rows; ++row) {
      const auto pair = load<std::uint32_t>(activations + row * tile_stride + channel);
      const auto a_i16 = reinterpret_cast<Vector>(Sums{} + pair);
      acc_i32[row][0] = accumulate(acc_i32[row][0], a_i16, b0_i16);
      acc_i32[row][1] = accumulate(acc_i32[row][1], a_i16, b1_i16);
    }
  }
#pragma GCC unroll 14
  for (std::size_t row = 0; row < rows; ++row) {
    store(products + row * kNr, acc_i32[row][0]);
    store(products + row * kNr + kLanes, acc_i32[row][1]);
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

// The sums of a tile, of kLanes channels.
inline void transform_sums(const std::int32_t* products, std::size_t plane_stride, const std::int32_t* begun,
                           std::size_t begun_stride, std::int32_t* sums) noexcept {
  using SignedSums [[gnu::vector_size(sizeof(Sums))]] = std::int32_t;
  transform_products<Sums>(
      [&](std::size_t row, std::size_t column) noexcept {
        return load<Sums>(products + (row * 6 + column) * plane_stride);
      },
      [&](std::size_t row, std::size_t column, Sums value) noexcept {
        const SignedSums sum = reinterpret_cast<SignedSums>(value * kInverseOfNine) >> shift_of(row, column);
        const std::size_t pixel = row * kWinogradOutputs + column;
        store(sums + pixel * kNr, reinterpret_cast<Sums>(sum) + load<Sums>(begun + pixel * begun_stride));
      });
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
