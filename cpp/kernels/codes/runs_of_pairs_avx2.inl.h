// How add and multiply walk through the two runs of codes that they make one of.
// Included inside the unnamed namespace of a kernel file.

// Calls make_32(a, b, output) for 32 codes of the run at a time, of which the last may be in buffers.
template <class Run, class Make>
inline __attribute__((always_inline)) void for_each_32(const Run& run, const Make& make_32) noexcept {
  const std::uint8_t *a = run.a, *b = run.b;
  std::uint8_t* output = run.output;
  const std::size_t count = run.count;
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) make_32(a + i, b + i, output + i);
  if (i < count) {
    std::uint8_t last_a[32] = {}, last_b[32] = {}, last_codes[32];
    std::memcpy(last_a, a + i, count - i);
    std::memcpy(last_b, b + i, count - i);
    make_32(last_a, last_b, last_codes);
    std::memcpy(output + i, last_codes, count - i);
  }
}
