#include "bindings/conversion.h"

#include <unistd.h>

#include "pause.h"
#if defined(__linux__)
#include <sys/syscall.h>
#else
#include <pthread.h>
#endif

namespace bushel {

namespace {

// Python handles signals only in its main thread, so only that thread asks: others would wait for the lock in vain.
bool is_main_thread() {
#if defined(__linux__)
  return syscall(SYS_gettid) == getpid();
#else
  return pthread_main_np() != 0;
#endif
}

void answer_signals() {
  if (!is_main_thread()) return;
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

Nogil::Nogil() { on_pause = answer_signals; }
Nogil::~Nogil() { on_pause = nullptr; }

nb::object to_str(std::string_view text) {
  PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

std::string from_str(nb::handle text) {
  PyObject* encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (!encoded) throw nb::python_error();
  const nb::object owner = nb::steal(encoded);
  return {PyBytes_AsString(encoded), static_cast<std::size_t>(PyBytes_Size(encoded))};
}

nb::object to_bytes(Bytes bytes) { return nb::bytes(bytes.data(), bytes.size()); }

nb::list to_list(const std::vector<RowFault>& faults) {
  nb::list list;
  for (const RowFault& fault : faults)
    list.append(nb::make_tuple(fault.row, static_cast<int>(fault.fault), fault.column));
  return list;
}

std::vector<Name> names_of(nb::sequence names) {
  std::vector<Name> result;
  for (const nb::handle name : names)
    result.push_back({from_str(name[0]), nb::cast<bool>(name[1]), static_cast<Kind>(nb::cast<int>(name[2]))});
  return result;
}

nb::dict to_dict(Column&& column) {
  nb::dict out;
  out["kind"] = static_cast<int>(column.kind);
  out["rows"] = column.rows;
  out["uniform"] = column.uniform;
  out["width"] = column.width;
  const bool is_float = column.kind == Kind::floats;
  out["numbers"] =
      is_float ? to_array<float>(std::move(column.numbers)) : to_array<std::int64_t>(std::move(column.numbers));
  out["splits"] = to_array<std::int64_t>(std::move(column.splits));
  out["ends"] = to_array<std::int64_t>(std::move(column.ends));
  out["data"] = to_array<std::uint8_t>(std::move(column.data));
  out["present"] = to_array<bool>(std::move(column.present));
  out["step_splits"] = to_array<std::int64_t>(std::move(column.step_splits));
  return out;
}

std::vector<Bytes> rows_of(const Int64s& offsets, Bytes data) {
  std::vector<Bytes> rows;
  for (std::size_t i = 0; i + 1 < offsets.shape(0); ++i) {
    const std::int64_t begin = offsets.data()[i], end = offsets.data()[i + 1];
    if (begin < 0 || end < begin || static_cast<std::size_t>(end) > data.size())
      throw nb::value_error("offsets must be in order and within the data");
    rows.push_back(data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }
  return rows;
}

}  // namespace bushel
