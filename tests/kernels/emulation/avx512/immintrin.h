// Stands in for the compiler's <immintrin.h> where kernels of AVX-512 and AMX are built for machines that may lack
// them: in plain C++, what the kernels in tests/kernels/emulated.cpp take of them. A load or store of whole vectors
// that must be aligned and is not ends the program.
#pragma once

#include <emmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../tiles.h"

// NOLINTBEGIN: names are those of the compiler.
template <std::size_t size, class Kind>
struct alignas(size) EmulatedVector {
  std::uint8_t bytes[size];
};
using __m512i = EmulatedVector<64, int>;
using __m512 = EmulatedVector<64, float>;
using __m256i = EmulatedVector<32, int>;
using __mmask16 = std::uint16_t;
using __mmask32 = std::uint32_t;
using __mmask64 = std::uint64_t;

enum { _CMP_LT_OQ = 17, _CMP_LE_OQ = 18, _CMP_NLT_UQ = 21, _CMP_GE_OQ = 29 };

// Kernels that call these are compiled without optimization (CMakeLists.txt), under which nothing is inlined but by
// force: each of these is a call, and a loop.
#pragma GCC push_options
#pragma GCC optimize("O2")
namespace {

template <class Element, class Vector>
[[gnu::always_inline]] inline Element element_of(const Vector& vector, std::size_t i) {
  Element element;
  std::memcpy(&element, reinterpret_cast<const char*>(&vector) + i * sizeof(Element), sizeof(Element));
  return element;
}

// A vector of what value_of makes of the number of each element.
template <class Vector, class Element, class ValueOf>
[[gnu::always_inline]] inline Vector vector_of(ValueOf value_of) {
  Vector vector;
  for (std::size_t i = 0; i < sizeof(Vector) / sizeof(Element); ++i) {
    const auto element = static_cast<Element>(value_of(i));
    std::memcpy(reinterpret_cast<char*>(&vector) + i * sizeof(Element), &element, sizeof(Element));
  }
  return vector;
}

// A function of two vectors, element by element.
#define EMULATED_BINARY(name, Vector, Element, value)                                     \
  [[maybe_unused]] inline Vector name(const Vector& a, const Vector& b) {                 \
    return vector_of<Vector, Element>([&](std::size_t i) __attribute__((always_inline)) { \
      const auto x = element_of<Element>(a, i), y = element_of<Element>(b, i);            \
      return value;                                                                       \
    });                                                                                   \
  }
EMULATED_BINARY(_mm512_add_epi32, __m512i, std::uint32_t, x + y)
EMULATED_BINARY(_mm512_add_epi64, __m512i, std::uint64_t, x + y)
EMULATED_BINARY(_mm512_sub_epi32, __m512i, std::uint32_t, x - y)
EMULATED_BINARY(_mm512_mullo_epi32, __m512i, std::uint32_t, x* y)
EMULATED_BINARY(_mm512_and_si512, __m512i, std::uint64_t, x& y)
EMULATED_BINARY(_mm512_xor_si512, __m512i, std::uint64_t, x ^ y)
EMULATED_BINARY(_mm512_max_epi32, __m512i, std::int32_t, std::max(x, y))
EMULATED_BINARY(_mm512_max_epu32, __m512i, std::uint32_t, std::max(x, y))
EMULATED_BINARY(_mm512_min_epu32, __m512i, std::uint32_t, std::min(x, y))
EMULATED_BINARY(_mm512_adds_epi16, __m512i, std::int16_t, std::clamp(x + y, -32768, 32767))
EMULATED_BINARY(_mm512_add_ps, __m512, float, x + y)
EMULATED_BINARY(_mm512_mul_ps, __m512, float, x* y)
EMULATED_BINARY(_mm512_div_ps, __m512, float, x / y)
EMULATED_BINARY(_mm512_min_ps, __m512, float, x < y ? x : y)
#undef EMULATED_BINARY

// The same within 128 bits: an element of the result is made of its number there, and of both operands from the first
// byte of these 128 bits on.
#define EMULATED_QUARTERS(name, Element, value)                                                   \
  [[maybe_unused]] inline __m512i name(const __m512i& a, const __m512i& b) {                      \
    constexpr std::size_t count = 16 / sizeof(Element);                                           \
    return vector_of<__m512i, Element>([&](std::size_t position) __attribute__((always_inline)) { \
      const std::size_t i = position % count, quarter = position / count * 16;                    \
      const std::uint8_t *of_a = a.bytes + quarter, *of_b = b.bytes + quarter;                    \
      return value;                                                                               \
    });                                                                                           \
  }
#define EMULATED_UNPACK(Element, from) element_of<Element>(*(i % 2 == 0 ? of_a : of_b), (from) + i / 2)
#define EMULATED_PACK(Wide, low, high) \
  std::clamp<Wide>(element_of<Wide>(*(i < count / 2 ? of_a : of_b), i % (count / 2)), low, high)
EMULATED_QUARTERS(_mm512_unpacklo_epi8, std::uint8_t, EMULATED_UNPACK(std::uint8_t, 0))
EMULATED_QUARTERS(_mm512_unpackhi_epi8, std::uint8_t, EMULATED_UNPACK(std::uint8_t, count / 2))
EMULATED_QUARTERS(_mm512_unpacklo_epi16, std::uint16_t, EMULATED_UNPACK(std::uint16_t, 0))
EMULATED_QUARTERS(_mm512_unpackhi_epi16, std::uint16_t, EMULATED_UNPACK(std::uint16_t, count / 2))
EMULATED_QUARTERS(_mm512_packs_epi32, std::int16_t, EMULATED_PACK(std::int32_t, -32768, 32767))
EMULATED_QUARTERS(_mm512_packs_epi16, std::int8_t, EMULATED_PACK(std::int16_t, -128, 127))
EMULATED_QUARTERS(_mm512_packus_epi16, std::uint8_t, EMULATED_PACK(std::int16_t, 0, 255))
#undef EMULATED_PACK
#undef EMULATED_UNPACK
#undef EMULATED_QUARTERS

[[maybe_unused]] inline __m512i _mm512_set1_epi32(std::int32_t value) {
  return vector_of<__m512i, std::int32_t>([&](std::size_t) __attribute__((always_inline)) { return value; });
}
[[maybe_unused]] inline __m512i _mm512_set1_epi64(long long value) {
  return vector_of<__m512i, long long>([&](std::size_t) __attribute__((always_inline)) { return value; });
}
[[maybe_unused]] inline __m512i _mm512_set1_epi16(short value) {
  return vector_of<__m512i, short>([&](std::size_t) __attribute__((always_inline)) { return value; });
}
[[maybe_unused]] inline __m512i _mm512_set1_epi8(char value) {
  return vector_of<__m512i, char>([&](std::size_t) __attribute__((always_inline)) { return value; });
}
[[maybe_unused]] inline __m512 _mm512_set1_ps(float value) {
  return vector_of<__m512, float>([&](std::size_t) __attribute__((always_inline)) { return value; });
}
template <class... Integers>
__m512i _mm512_setr_epi32(Integers... integers) {
  const std::int32_t values[16] = {integers...};
  return vector_of<__m512i, std::int32_t>([&](std::size_t i) __attribute__((always_inline)) { return values[i]; });
}
[[maybe_unused]] inline __m512i _mm512_setzero_si512() { return {}; }
[[maybe_unused]] inline __m512 _mm512_setzero_ps() { return {}; }

// Memory.
template <class Vector>
Vector emulated_load(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}
[[maybe_unused]] inline void emulated_require_line(const void* address) {
  emulated_require(reinterpret_cast<std::uintptr_t>(address) % 64 == 0, "whole lines are aligned");
}
// The elements of a mask; others are neither read nor written.
template <class Vector, class Element, class Mask>
Vector emulated_load(Mask mask, const void* from) {
  Vector vector = {};
  for (std::size_t i = 0; i < sizeof(Vector) / sizeof(Element); ++i) {
    const std::size_t at = i * sizeof(Element);
    if (mask >> i & 1) std::memcpy(vector.bytes + at, static_cast<const char*>(from) + at, sizeof(Element));
  }
  return vector;
}
template <class Element, class Mask, class Vector>
void emulated_store(void* to, Mask mask, const Vector& vector) {
  for (std::size_t i = 0; i < sizeof(Vector) / sizeof(Element); ++i) {
    const auto element = element_of<Element>(vector, i);
    if (mask >> i & 1) std::memcpy(static_cast<char*>(to) + i * sizeof(Element), &element, sizeof(Element));
  }
}
[[maybe_unused]] inline __m512i _mm512_loadu_si512(const void* from) { return emulated_load<__m512i>(from); }
[[maybe_unused]] inline __m512 _mm512_loadu_ps(const void* from) { return emulated_load<__m512>(from); }
[[maybe_unused]] inline __m256i _mm256_loadu_si256(const __m256i* from) { return emulated_load<__m256i>(from); }
[[maybe_unused]] inline __m512i _mm512_load_si512(const void* from) {
  emulated_require_line(from);
  return emulated_load<__m512i>(from);
}
[[maybe_unused]] inline __m512i _mm512_maskz_loadu_epi32(__mmask16 mask, const void* from) {
  return emulated_load<__m512i, std::int32_t>(mask, from);
}
[[maybe_unused]] inline __m512 _mm512_maskz_loadu_ps(__mmask16 mask, const void* from) {
  return emulated_load<__m512, float>(mask, from);
}
[[maybe_unused]] inline __m512i _mm512_maskz_loadu_epi8(__mmask64 mask, const void* from) {
  return emulated_load<__m512i, std::int8_t>(mask, from);
}
[[maybe_unused]] inline __m256i _mm256_maskz_loadu_epi8(__mmask32 mask, const void* from) {
  return emulated_load<__m256i, std::int8_t>(mask, from);
}
[[maybe_unused]] inline void _mm512_storeu_si512(void* to, const __m512i& vector) { std::memcpy(to, &vector, 64); }
[[maybe_unused]] inline void _mm512_storeu_ps(void* to, const __m512& vector) { std::memcpy(to, &vector, 64); }
[[maybe_unused]] inline void _mm512_store_si512(void* to, const __m512i& vector) {
  emulated_require_line(to);
  std::memcpy(to, &vector, 64);
}
[[maybe_unused]] inline void _mm256_storeu_si256(__m256i* to, const __m256i& vector) {
  std::memcpy(static_cast<void*>(to), &vector, 32);
}
[[maybe_unused]] inline void _mm512_mask_storeu_epi32(void* to, __mmask16 mask, const __m512i& vector) {
  emulated_store<std::int32_t>(to, mask, vector);
}
[[maybe_unused]] inline void _mm256_mask_storeu_epi8(void* to, __mmask32 mask, const __m256i& vector) {
  emulated_store<std::int8_t>(to, mask, vector);
}
[[maybe_unused]] inline void _mm_mask_storeu_epi8(void* to, __mmask16 mask, const __m128i& vector) {
  emulated_store<std::int8_t>(to, mask, vector);
}

// Parts of vectors, and vectors as others.
template <class To, class From>
To emulated_part(const From& vector, std::size_t part) {
  To result;
  std::memcpy(&result, vector.bytes + part * sizeof(To), sizeof(To));
  return result;
}
template <class Part>
__m512i emulated_insert(__m512i vector, const Part& part, std::size_t at) {
  std::memcpy(vector.bytes + at * sizeof(Part), &part, sizeof(Part));
  return vector;
}
[[maybe_unused]] inline __m512i _mm512_castps_si512(const __m512& vector) { return emulated_part<__m512i>(vector, 0); }
[[maybe_unused]] inline __m256i _mm512_castsi512_si256(const __m512i& vector) {
  return emulated_part<__m256i>(vector, 0);
}
[[maybe_unused]] inline __m128i _mm512_castsi512_si128(const __m512i& vector) {
  return emulated_part<__m128i>(vector, 0);
}
[[maybe_unused]] inline __m512i _mm512_castsi256_si512(const __m256i& part) { return emulated_insert({}, part, 0); }
[[maybe_unused]] inline __m512i _mm512_castsi128_si512(const __m128i& part) { return emulated_insert({}, part, 0); }
[[maybe_unused]] inline __m256i _mm512_extracti64x4_epi64(const __m512i& vector, int part) {
  return emulated_part<__m256i>(vector, static_cast<std::size_t>(part));
}
[[maybe_unused]] inline __m128i _mm512_extracti32x4_epi32(const __m512i& vector, int part) {
  return emulated_part<__m128i>(vector, static_cast<std::size_t>(part));
}
[[maybe_unused]] inline __m512i _mm512_inserti64x4(const __m512i& vector, const __m256i& part, int at) {
  return emulated_insert(vector, part, static_cast<std::size_t>(at));
}
[[maybe_unused]] inline __m512i _mm512_inserti32x4(const __m512i& vector, const __m128i& part, int at) {
  return emulated_insert(vector, part, static_cast<std::size_t>(at));
}

// Lanes moved.
[[maybe_unused]] inline __m512i _mm512_permutexvar_epi32(const __m512i& order, const __m512i& a) {
  return vector_of<__m512i, std::uint32_t>([&](std::size_t i) __attribute__((always_inline)) {
    return element_of<std::uint32_t>(a, element_of<std::uint32_t>(order, i) % 16);
  });
}
[[maybe_unused]] inline __m512i _mm512_mask_permutexvar_epi8(const __m512i& otherwise, __mmask64 mask,
                                                             const __m512i& order, const __m512i& a) {
  return vector_of<__m512i, std::uint8_t>([&](std::size_t i) __attribute__((always_inline)) {
    return (mask >> i & 1) != 0 ? element_of<std::uint8_t>(a, element_of<std::uint8_t>(order, i) % 64U)
                                : element_of<std::uint8_t>(otherwise, i);
  });
}
[[maybe_unused]] inline __m512i _mm512_shuffle_i32x4(const __m512i& a, const __m512i& b, int order) {
  return vector_of<__m512i, std::uint32_t>([&](std::size_t i) __attribute__((always_inline)) {
    const std::size_t quarter = i / 4, from = static_cast<unsigned>(order) >> (2 * quarter) & 3;
    return element_of<std::uint32_t>(quarter < 2 ? a : b, from * 4 + i % 4);
  });
}
[[maybe_unused]] inline __m512i _mm512_mask_blend_epi16(__mmask32 mask, const __m512i& a, const __m512i& b) {
  return vector_of<__m512i, std::uint16_t>([&](std::size_t i) __attribute__((always_inline)) {
    return element_of<std::uint16_t>(mask >> i & 1 ? b : a, i);
  });
}

// Arithmetic of one vector or three.
[[maybe_unused]] inline __m512i _mm512_abs_epi32(const __m512i& a) {
  return vector_of<__m512i, std::uint32_t>([&](std::size_t i) __attribute__((always_inline)) {
    const auto x = element_of<std::uint32_t>(a, i);
    return x >> 31 != 0 ? 0U - x : x;
  });
}
[[maybe_unused]] inline __m512 _mm512_abs_ps(const __m512& a) {
  return vector_of<__m512, std::uint32_t>(
      [&](std::size_t i) __attribute__((always_inline)) { return element_of<std::uint32_t>(a, i) & 0x7fffffffU; });
}
[[maybe_unused]] inline __m512i _mm512_slli_epi32(const __m512i& a, unsigned bits) {
  return vector_of<__m512i, std::uint32_t>(
      [&](std::size_t i) __attribute__((always_inline)) { return element_of<std::uint32_t>(a, i) << bits; });
}
[[maybe_unused]] inline __m512 _mm512_cvtepi32_ps(const __m512i& a) {
  return vector_of<__m512, float>(
      [&](std::size_t i) __attribute__((always_inline)) { return static_cast<float>(element_of<std::int32_t>(a, i)); });
}
[[maybe_unused]] inline __m512i _mm512_cvtps_epi32(const __m512& a) {
  return vector_of<__m512i, std::int32_t>([&](std::size_t i) __attribute__((always_inline)) {
    const auto x = element_of<float>(a, i);
    return x >= -0x1p31F && x < 0x1p31F ? static_cast<std::int32_t>(std::nearbyint(x)) : INT32_MIN;
  });
}
[[maybe_unused]] inline __m128i _mm512_cvtusepi32_epi8(const __m512i& a) {
  return vector_of<__m128i, std::uint8_t>([&](std::size_t i) __attribute__((always_inline)) {
    return std::min<std::uint32_t>(element_of<std::uint32_t>(a, i), 255);
  });
}
[[maybe_unused]] inline __m512 _mm512_fmadd_ps(const __m512& a, const __m512& b, const __m512& c) {
  return vector_of<__m512, float>([&](std::size_t i) __attribute__((always_inline)) {
    return std::fma(element_of<float>(a, i), element_of<float>(b, i), element_of<float>(c, i));
  });
}
[[maybe_unused]] inline __m512 _mm512_fnmadd_ps(const __m512& a, const __m512& b, const __m512& c) {
  return vector_of<__m512, float>([&](std::size_t i) __attribute__((always_inline)) {
    return std::fma(-element_of<float>(a, i), element_of<float>(b, i), element_of<float>(c, i));
  });
}
template <class A, class B>
__m512i emulated_dot_product(const __m512i& sums, const __m512i& a, const __m512i& b) {
  return vector_of<__m512i, std::uint32_t>([&](std::size_t i) __attribute__((always_inline)) {
    auto sum = element_of<std::uint32_t>(sums, i);
    for (std::size_t k = i * 4 / sizeof(A); k < (i + 1) * 4 / sizeof(A); ++k) {
      sum += static_cast<std::uint32_t>(element_of<A>(a, k) * element_of<B>(b, k));
    }
    return sum;
  });
}
[[maybe_unused]] inline __m512i _mm512_dpbusd_epi32(const __m512i& sums, const __m512i& a, const __m512i& b) {
  return emulated_dot_product<std::uint8_t, std::int8_t>(sums, a, b);
}
[[maybe_unused]] inline __m512i _mm512_dpwssd_epi32(const __m512i& sums, const __m512i& a, const __m512i& b) {
  return emulated_dot_product<std::int16_t, std::int16_t>(sums, a, b);
}
[[maybe_unused]] inline std::uint32_t _mm512_reduce_max_epu32(const __m512i& a) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < 16; ++i) most = std::max(most, element_of<std::uint32_t>(a, i));
  return most;
}

// Comparisons.
[[maybe_unused]] inline bool emulated_compare(float x, float y, int predicate) {
  switch (predicate) {
    case _CMP_LT_OQ:
      return x < y;
    case _CMP_LE_OQ:
      return x <= y;
    case _CMP_NLT_UQ:
      return !(x < y);
    case _CMP_GE_OQ:
      return x >= y;
    default:
      std::abort();
  }
}
[[maybe_unused]] inline __mmask16 _mm512_cmp_ps_mask(const __m512& a, const __m512& b, int predicate) {
  unsigned mask = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    mask |= unsigned{emulated_compare(element_of<float>(a, i), element_of<float>(b, i), predicate)} << i;
  }
  return static_cast<__mmask16>(mask);
}
[[maybe_unused]] inline __mmask16 _mm512_mask_cmp_ps_mask(__mmask16 mask, const __m512& a, const __m512& b,
                                                          int predicate) {
  return static_cast<__mmask16>(mask & _mm512_cmp_ps_mask(a, b, predicate));
}
[[maybe_unused]] inline __mmask16 _mm512_cmpneq_epi32_mask(const __m512i& a, const __m512i& b) {
  unsigned mask = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    mask |= unsigned{element_of<std::uint32_t>(a, i) != element_of<std::uint32_t>(b, i)} << i;
  }
  return static_cast<__mmask16>(mask);
}

}  // namespace
#pragma GCC pop_options
// NOLINTEND
