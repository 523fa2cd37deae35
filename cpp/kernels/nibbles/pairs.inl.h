// The elements of nibbles/nibbles.h a pair at a time: all of them, or what whole vectors leave over.
// Included inside the unnamed namespace of a kernel file.

inline std::uint8_t saturated(std::uint8_t code) noexcept { return code < 15 ? code : 15; }

inline void unpack_pairs(const std::uint8_t* input, std::size_t count, std::uint8_t flip,
                         std::uint8_t* output) noexcept {
  for (std::size_t i = 0; i < count / 2; ++i) {
    output[2 * i] = static_cast<std::uint8_t>((input[i] & 15) ^ flip);
    output[2 * i + 1] = static_cast<std::uint8_t>((input[i] >> 4) ^ flip);
  }
  if (count % 2 != 0) output[count - 1] = static_cast<std::uint8_t>((input[count / 2] & 15) ^ flip);
}

inline void pack_pairs(const std::uint8_t* input, std::size_t count, std::uint8_t flip, std::uint8_t* output) noexcept {
  const std::uint8_t flip_both = static_cast<std::uint8_t>(flip | flip << 4);
  for (std::size_t i = 0; i < count / 2; ++i) {
    const int both = saturated(input[2 * i]) | saturated(input[2 * i + 1]) << 4;
    output[i] = static_cast<std::uint8_t>(both ^ flip_both);
  }
  if (count % 2 != 0) {
    const int low = saturated(input[count - 1]) ^ flip;
    output[count / 2] = static_cast<std::uint8_t>((output[count / 2] & 0xf0) | low);
  }
}
