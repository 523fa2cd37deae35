// What kernels know of the bits of floats, where they add integers to them.
// Included inside the unnamed namespace of a kernel file.

// The bits of the float 2^23, and with t added to them those of 2^23 + t, 0 <= t < 2^23.
constexpr std::int32_t kBitsOf2To23 = 0x4b000000;
