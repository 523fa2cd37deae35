// Copies of runs of bytes, all of one length that is not known when compiled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dmlcpu {

// Of kBytes to twice as many: the first ones and the last ones, of which some may be the same.
template <std::size_t kBytes, class Function>
void with_copy_of_ends(std::size_t bytes, const Function& function) {
  const std::size_t last = bytes - kBytes;
  if (last == 0) {
    return function([](const std::uint8_t* input, std::uint8_t* output) { std::memcpy(output, input, kBytes); });
  }
  function([last](const std::uint8_t* input, std::uint8_t* output) {
    std::memcpy(output, input, kBytes);
    std::memcpy(output + last, input + last, kBytes);
  });
}

// Calls function with a copy(input, output) of so many bytes, at least one, that do not overlap. Short ones are a move
// or two, where a call that copies any number of bytes takes four times as long.
template <class Function>
void with_copy_of(std::size_t bytes, const Function& function) {
  if (bytes > 64) {
    return function([bytes](const std::uint8_t* input, std::uint8_t* output) { std::memcpy(output, input, bytes); });
  }
  if (bytes >= 32) return with_copy_of_ends<32>(bytes, function);
  if (bytes >= 16) return with_copy_of_ends<16>(bytes, function);
  if (bytes >= 8) return with_copy_of_ends<8>(bytes, function);
  if (bytes >= 4) return with_copy_of_ends<4>(bytes, function);
  bytes >= 2 ? with_copy_of_ends<2>(bytes, function) : with_copy_of_ends<1>(bytes, function);
}

}  // namespace dmlcpu
