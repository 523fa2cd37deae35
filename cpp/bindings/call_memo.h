// The calls of a function that have been made: one with arguments of the same types, shapes and places in memory needs
// no second check, and no Python but its own frame.
#pragma once

#include <pybind11/numpy.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bindings/call_signature.h"

namespace dmlcpu {

// What is known of one of them.
struct KnownCall;

class CallMemo {
 public:
  using Types = CallSignature::Types;

  // As of signatures.
  CallMemo(Types constant_types, Types opaque_bases)
      : constant_types_(std::move(constant_types)), opaque_bases_(std::move(opaque_bases)) {}

  // By tensor, the number of the argument that it comes from, or none, and the array that it became, or None.
  using Bindings = std::vector<std::pair<std::optional<std::size_t>, pybind11::object>>;

  // What the function returns, or None if no such call is known, or an output's memory may meet another tensor's.
  pybind11::object recall(const pybind11::tuple& positional, const pybind11::dict& named) const;

  // The signature of a call, which is to be remembered if it is made. None if its arguments are more than a signature
  // can tell, or at its first time: many calls never come again, as with numbers that are computed.
  pybind11::object sign(const pybind11::tuple& positional, const pybind11::dict& named);

  // Remembers a call that has been made, if its arguments are what they were when they were signed, and all that it did
  // follows from that.
  //
  // results: the outputs, as the function returned them.
  void remember(const pybind11::bytes& signed_before, const pybind11::tuple& positional, const pybind11::dict& named,
                const pybind11::object& compiled, const Bindings& bound, const pybind11::tuple& results,
                pybind11::object result_type);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view bytes) const { return std::hash<std::string_view>()(bytes); }
  };
  using Calls = std::unordered_map<std::string, std::shared_ptr<const KnownCall>, Hash, std::equal_to<>>;

  // Numbers are part of signatures: a program may bring new ones for ever.
  static constexpr std::size_t kMostCalls = 1024, kMostSeen = 1 << 14;

  bool seen_before(std::string_view signature);
  std::shared_ptr<const KnownCall> find(std::string_view signature) const;
  void insert(std::string_view signature, std::shared_ptr<const KnownCall> call);

  Types constant_types_, opaque_bases_;
  mutable std::mutex mutex_;
  Calls calls_;
  std::unordered_set<std::size_t> seen_;
};

}  // namespace dmlcpu
