// std::bad_alloc that says how much memory was asked for, and what for.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace dmlcpu {

class OutOfMemory final : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message) : message_(std::make_shared<const std::string>(std::move(message))) {}
  explicit OutOfMemory(std::size_t bytes) : OutOfMemory(std::to_string(bytes) + " bytes of memory are not available") {}
  const char* what() const noexcept override { return message_->c_str(); }

 private:
  std::shared_ptr<const std::string> message_;  // copies of an exception must not throw
};

// Returns function(), or lets a std::bad_alloc of it say whose it was.
template <class Function>
decltype(auto) with_memory_for(const std::string& name, const Function& function) {
  try {
    return function();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(name + ": " + error.what());
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(name + ": memory is not available, or sizes are beyond any memory");
  }
}

}  // namespace dmlcpu
