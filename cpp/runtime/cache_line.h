#pragma once

#include <cstddef>

namespace dmlcpu {

// Bytes of a line of the caches, which two threads had better not both write to.
inline constexpr std::size_t kCacheLine = 64;

}  // namespace dmlcpu
