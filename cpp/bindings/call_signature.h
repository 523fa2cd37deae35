// What tells a call of a function on arrays from others.
#pragma once

#include <pybind11/numpy.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dmlcpu {

// The arguments of a call, positional ones first; of a list what is in it now.
inline constexpr std::size_t kMostArguments = 24;
struct Arguments {
  std::array<PyObject*, kMostArguments> objects;
  std::array<pybind11::object, kMostArguments> snapshots;
  std::size_t count = 0;

  void add(PyObject* object);
};

// Everything that the checks of a call depend on: of arrays all but the elements, of numbers the values.
class CallSignature {
 public:
  using Types = std::vector<pybind11::object>;

  // constant_types: objects of these count as the same only if they are the same.
  // opaque_bases: views of objects of these are nothing plain, since not their memory tells what they stand for.
  CallSignature(const Types& constant_types, const Types& opaque_bases)
      : constant_types_(constant_types), opaque_bases_(opaque_bases) {}

  // False if there are too many arguments, or one is nothing plain: then the signature tells too little.
  bool take(const pybind11::tuple& positional, const pybind11::dict& named, Arguments& arguments);

  bool is_constant(PyObject* object) const;

  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(words_.data()), count_ * sizeof(std::uint64_t)};
  }

 private:
  enum class Kind : std::uint64_t { none, array, scalar, boolean, integer, real, sequence, constant };

  bool put(Kind kind) { return put(static_cast<std::uint64_t>(kind)); }
  bool put(std::uint64_t word);
  bool put_name(PyObject* name);
  bool put_object(PyObject* object);
  bool put_integer(PyObject* object);
  bool is_opaque(PyObject* array) const;
  bool put_array(const pybind11::array& array);

  const Types& constant_types_;
  const Types& opaque_bases_;
  std::array<std::uint64_t, 512> words_;
  std::size_t count_ = 0;
};

}  // namespace dmlcpu
