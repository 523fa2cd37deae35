// The rows of block_product.h, on the vectors of an instruction set.
// Included inside the unnamed namespace of a kernel file, behind the lanes of kernels/lanes, its steps and
//
//   store_codes(whole, codes)    kLanes integers of -127..127 as bytes

// Above it float32 holds integers only: what is added to it is rounded to the nearest, half to even.
constexpr float kRounding = 0x1.8p23f;

// What bounds the elements of a block: NaN if one is not finite.
inline float largest_magnitude(const float* values, std::size_t count) noexcept {
  Floats largest_of[kVectors], zero_or_nan[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) largest_of[v] = zero_or_nan[v] = spread(0.0f);
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) noexcept {
    const Floats x = lanes == kLanes ? load(values + i) : load_first(values + i, lanes, 0.0f);
    largest_of[v] = larger(magnitude(x), largest_of[v]);
    zero_or_nan[v] = fused(x, spread(0.0f), zero_or_nan[v]);
  });
  for (std::size_t v = 1; v < kVectors; ++v) largest_of[0] = larger(largest_of[v], largest_of[0]);
  return largest(largest_of[0]) + folded(zero_or_nan);
}

// Returns the sum of the codes.
inline std::int32_t write_codes(const float* values, std::size_t count, float inverse, std::int8_t* codes) noexcept {
  Floats sum[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) sum[v] = spread(0.0f);
  for_each_vector(count, [&](std::size_t i, std::size_t v, std::size_t lanes) noexcept {
    const Floats x = lanes == kLanes ? load(values + i) : load_first(values + i, lanes, 0.0f);
    const Floats whole = (x * spread(inverse) + spread(kRounding)) - spread(kRounding);
    sum[v] = sum[v] + whole;
    store_codes(whole, codes + i);
  });
  return static_cast<std::int32_t>(folded(sum));
}

void quantize(const BlockRow& row) noexcept {
  for (std::size_t first = 0, block = 0; first < row.k; first += row.block, ++block) {
    const std::size_t count = row.k - first < row.block ? row.k - first : row.block;
    std::int8_t* codes = row.codes + first;
    for (std::size_t i = count / kStep * kStep; i < row.block; ++i) codes[i] = 0;
    const float most = largest_magnitude(row.a + first, count);
    row.scale[block] = most / 127.0f;
    std::int32_t sum = 0;
    if (most >= 0x1p-120f) {
      sum = write_codes(row.a + first, count, 127.0f / most, codes);
    } else {  // or NaN
      for (std::size_t i = 0; i < count; ++i) codes[i] = 0;
    }
    row.negative_sum[block] = -sum & 0xffff;
  }
}
