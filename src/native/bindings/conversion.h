// What all bindings share: Python's buffers as bytes, owned memory as arrays, names as text.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>
#include <string_view>
#include <vector>

#include "columns.h"

namespace nb = nanobind;

namespace bushel {

using namespace nb::literals;

// Any object with a buffer: bytes, mmap, memoryview, array. It is held, so neither moved nor freed, while this lives.
class View {
 public:
  explicit View(nb::handle object, int flags = PyBUF_SIMPLE) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~View() { PyBuffer_Release(&view_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  Bytes bytes() const { return {static_cast<const std::uint8_t*>(view_.buf), static_cast<std::size_t>(view_.len)}; }
  const Py_buffer& raw() const { return view_; }

 private:
  Py_buffer view_{};
};

// Works without the interpreter's lock; Ctrl-C ends the work within a few milliseconds.
class Nogil {
 public:
  Nogil();
  ~Nogil();
  Nogil(const Nogil&) = delete;
  Nogil& operator=(const Nogil&) = delete;

 private:
  nb::gil_scoped_release release_;
};

using Extents = nb::ndarray<const std::uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Offsets = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;  // of an index
using Lengths = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Int64s = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline std::span<const Extent> span_of(const Extents& extents) {
  static_assert(sizeof(Extent) == 2 * sizeof(std::uint64_t));
  return {reinterpret_cast<const Extent*>(extents.data()), extents.shape(0)};
}

// The first `count` values of a buffer, all if it is not given.
template <typename T>
nb::object to_array(Buffer&& buffer, std::size_t count = SIZE_MAX) {
  if (!buffer.data()) return nb::none();
  count = std::min(count, buffer.size() / sizeof(T));
  auto* owned = new Buffer(std::move(buffer));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Buffer*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {count}, owner));
}

template <typename T>
nb::object copy_to_array(const std::vector<T>& values, std::initializer_list<std::size_t> shape) {
  auto* owned = new Buffer(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(owned->data(), values.data(), owned->size());
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Buffer*>(p); });
  using Element = std::conditional_t<std::is_same_v<T, Extent>, std::uint64_t, T>;
  return nb::cast(nb::ndarray<nb::numpy, Element>(owned->data(), shape, owner));
}

// The same without a copy.
template <typename T>
nb::object move_to_array(std::vector<T>&& values, std::initializer_list<std::size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape, owner));
}

// Names that are not UTF-8 keep their bytes as Python's surrogates.
nb::object to_str(std::string_view text);
std::string from_str(nb::handle text);
nb::object to_bytes(Bytes bytes);

// (row, fault, column) of each.
nb::list to_list(const std::vector<RowFault>& faults);

// From (name, is a feature list, kind) of each.
std::vector<Name> names_of(nb::sequence names);
nb::dict to_dict(Column&& column);

// The rows of a bytes column, whose offsets must be in order and within `data`.
std::vector<Bytes> rows_of(const Int64s& offsets, Bytes data);

}  // namespace bushel
