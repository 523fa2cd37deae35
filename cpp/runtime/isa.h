// The instruction sets that have kernels, worst to best. One spelling everywhere: file stem, namespace, CMake key,
// Python string and test id.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace dmlcpu {

enum class Isa : unsigned char { scalar, avx2, avx_vnni, avx512_vnni, amx_int8 };

inline constexpr std::array<std::string_view, 5> kIsaNames = {"scalar", "avx2", "avx_vnni", "avx512_vnni", "amx_int8"};
inline constexpr std::size_t kIsaCount = kIsaNames.size();

constexpr std::string_view isa_name(Isa isa) { return kIsaNames[static_cast<std::size_t>(isa)]; }

constexpr std::optional<Isa> isa_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kIsaCount; ++i) {
    if (kIsaNames[i] == name) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

}  // namespace dmlcpu
