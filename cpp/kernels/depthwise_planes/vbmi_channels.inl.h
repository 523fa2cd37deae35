// What kernels of planes read of four channels, and how their sums become codes.
// Included inside the unnamed namespace of a kernel file, behind codes/avx512_vnni.inl.h.

// The bytes of a load that may be read.
inline __mmask64 readable_mask(const std::uint8_t* from, const DepthwisePlanesRun& run) noexcept {
  const std::ptrdiff_t before = run.readable - from, left = run.readable_end - from;
  if (before >= 64 || left <= 0) return 0;
  const __mmask64 until_end = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
  return before > 0 ? until_end & (~__mmask64{0} << before) : until_end;
}

// Whether filters have no zero points, and no conversion of scaled sums overflows.
inline bool is_plain_run(const DepthwisePlanesRun& run) noexcept {
  if (run.filter_zero_point != nullptr) return false;
  for (std::size_t channel = 0; channel < run.channels; channel += 16) {
    const __mmask16 mask = lane_mask(run.channels - channel);
    if ((below_1(_mm512_maskz_loadu_ps(mask, run.multiplier + channel)) & mask) != mask) return false;
  }
  return true;
}

constexpr std::int32_t kNoZeroPoints[kPlaneChannels] = {};

// Four neighbouring channels, or a single one four times, whose step is 0 then.
struct PlaneChannels {
  const std::uint8_t* input;
  const std::int8_t* filter;
  const std::int32_t* offset;
  const float* multiplier;
  const std::int32_t* filter_zero_point;  // zeros where the run has none
  std::uint8_t* output;
  std::ptrdiff_t step, last_plane;

  PlaneChannels() noexcept = default;
  PlaneChannels(const DepthwisePlanesRun& run, std::size_t channel, std::size_t count) noexcept
      : input(run.input + static_cast<std::ptrdiff_t>(channel) * run.input_plane_step),
        filter(run.filter + channel * run.rows * plane_groups(run.columns) * 4),
        offset(run.offset + channel),
        multiplier(run.multiplier + channel),
        filter_zero_point(run.filter_zero_point == nullptr ? kNoZeroPoints : run.filter_zero_point + channel),
        output(run.output + static_cast<std::ptrdiff_t>(channel) * run.output_plane_step),
        step(count > 1 ? 1 : 0),
        last_plane(static_cast<std::ptrdiff_t>(count - 1) * run.input_plane_step) {}

  // Whether these are four, of which all that a block loads may be read.
  bool are_readable(const DepthwisePlanesRun& run, const PlaneBlock& block) const noexcept {
    const auto last_row = static_cast<std::ptrdiff_t>((block.steps - 1) * run.row_stride + run.rows - 1);
    const std::ptrdiff_t to_end = last_plane + last_row * run.row_step + static_cast<std::ptrdiff_t>(kPlaneBytes);
    const std::uint8_t* const first = input + block.first;
    return step == 1 && first >= run.readable && run.readable_end - first >= to_end;
  }
};

// The channels of a run from the first one on, four at a time. The last four of a run may have some of those before
// them once more; a run of fewer has single ones.
struct PlaneTile {
  std::size_t size = 0;
  PlaneChannels channels[kPlaneTileChannels / kPlaneChannels];

  PlaneTile(const DepthwisePlanesRun& run, std::size_t first) noexcept {
    const std::size_t left = run.channels - first,
                      end = first + (left < kPlaneTileChannels ? left : kPlaneTileChannels);
    if (run.channels < kPlaneChannels) {
      for (; first < end; ++first) channels[size++] = PlaneChannels(run, first, 1);
      return;
    }
    for (; first < end; first += kPlaneChannels) {
      const std::size_t last = run.channels - kPlaneChannels;
      channels[size++] = PlaneChannels(run, first < last ? first : last, kPlaneChannels);
    }
  }

  // The planes between the first ones and the last ones are readable where these are.
  bool is_readable(const DepthwisePlanesRun& run, const PlaneBlock& block) const noexcept {
    return channels[0].are_readable(run, block) && channels[size - 1].are_readable(run, block);
  }
};

// The same pointer, of which compilers do not know that it is, so that they broadcast what it points at anew in each
// step: kept from one step to the next, broadcasts move what is needed more out of the registers.
template <class Element>
__attribute__((always_inline)) inline const Element* read_anew(const Element* pointer) noexcept {
  asm volatile("" : "+r"(pointer));
  return pointer;
}

// What a run has in vectors.
struct PlaneVectors {
  __m512i padding_u8x64, input_flip_u8x64, zero_point_i16x32, flip_u8x64;

  explicit PlaneVectors(const DepthwisePlanesRun& run) noexcept
      : padding_u8x64(_mm512_set1_epi8(static_cast<char>(run.padding))),
        input_flip_u8x64(_mm512_set1_epi8(static_cast<char>(run.input_flip))),
        zero_point_i16x32(_mm512_set1_epi16(static_cast<short>(run.output_zero_point))),
        flip_u8x64(_mm512_set1_epi8(static_cast<char>(run.flip))) {}
};

// How bytes are loaded: where all of a load may be read, as they are or flipped; where not, by a mask, and flipped, if
// by 0. Few blocks are masked, and each way is code that compiles for seconds.
enum class Loads : std::uint8_t { as_they_are, flipped, masked };

inline Loads loads_of(const DepthwisePlanesRun& run, bool are_readable) noexcept {
  return !are_readable ? Loads::masked : run.input_flip == 0 ? Loads::as_they_are : Loads::flipped;
}

template <Loads loads>
__attribute__((always_inline)) inline __m512i load_bytes(const std::uint8_t* from, const DepthwisePlanesRun& run,
                                                         const PlaneVectors& vectors) noexcept {
  const __m512i bytes_u8x64 =
      loads == Loads::masked ? _mm512_maskz_loadu_epi8(readable_mask(from, run), from) : _mm512_loadu_si512(from);
  return loads != Loads::as_they_are ? _mm512_xor_si512(bytes_u8x64, vectors.input_flip_u8x64) : bytes_u8x64;
}

// A filter that adds the codes of a group's columns.
inline __m512i ones_of(std::size_t columns, std::size_t group) noexcept {
  const std::size_t left = columns - 4 * group;
  return _mm512_set1_epi32(left >= 4 ? 0x01010101 : (1 << 8 * left) / 255);
}

// The codes of four channels' sums, 16 lanes of each.
template <bool is_within_range>
__attribute__((always_inline)) inline __m512i codes_of(const __m512i* sums_i32x16, const float* multiplier,
                                                       std::ptrdiff_t channel_step, __m512i zero_point_i16x32,
                                                       __m512i flip_u8x64) noexcept {
  __m512i rounded_i32x16[kPlaneChannels];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 multiplier_f32x16 = _mm512_set1_ps(multiplier[i * channel_step]);
    const __m512 scaled_f32x16 = _mm512_mul_ps(_mm512_cvtepi32_ps(sums_i32x16[i]), multiplier_f32x16);
    rounded_i32x16[i] = _mm512_cvtps_epi32(is_within_range ? scaled_f32x16 : bounded(scaled_f32x16));
  }
  return _mm512_xor_si512(
      saturate_in_order(rounded_i32x16[0], rounded_i32x16[1], rounded_i32x16[2], rounded_i32x16[3], zero_point_i16x32),
      flip_u8x64);
}

// Stores 16 lanes, or the masked ones, to each of four planes.
template <bool has_mask>
__attribute__((always_inline)) inline void store_codes(std::uint8_t* output, std::ptrdiff_t plane_step, __mmask16 mask,
                                                       __m512i codes_u8x64) noexcept {
  const auto store_quarter = [&](std::ptrdiff_t number, __m128i quarter_u8x16) __attribute__((always_inline)) {
    std::uint8_t* const to = output + number * plane_step;
    if constexpr (has_mask) {
      _mm_mask_storeu_epi8(to, mask, quarter_u8x16);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), quarter_u8x16);
    }
  };
  store_quarter(0, _mm512_castsi512_si128(codes_u8x64));
  store_quarter(1, _mm512_extracti32x4_epi32(codes_u8x64, 1));
  store_quarter(2, _mm512_extracti32x4_epi32(codes_u8x64, 2));
  store_quarter(3, _mm512_extracti32x4_epi32(codes_u8x64, 3));
}
