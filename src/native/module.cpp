// The only file that knows Python: converts, never decides. The GIL is released around all work on data.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>

#include "columns.h"
#include "crc32c.h"
#include "encode.h"
#include "gather.h"
#include "hash.h"
#include "image.h"
#include "jpeg.h"
#include "order.h"
#include "pad.h"
#include "pool.h"
#include "profile.h"
#include "sample.h"
#include "shards.h"
#include "shuffle.h"
#include "sort.h"
#include "survey.h"
#include "terms.h"
#include "threads.h"
#include "wholes.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace bushel {
namespace {

// Any object with a buffer: bytes, mmap, memoryview, array. Held, and so neither moved nor freed, while this lives.
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

using Extents = nb::ndarray<const std::uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

std::span<const Extent> span_of(const Extents& extents) {
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

// Names that are not UTF-8 keep their bytes as Python's own surrogates.
nb::object to_str(std::string_view text) {
  PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

std::string from_str(nb::handle text) {
  PyObject* encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (!encoded) throw nb::python_error();
  const nb::object owner = nb::steal(encoded);
  return {PyBytes_AS_STRING(encoded), static_cast<std::size_t>(PyBytes_GET_SIZE(encoded))};
}

nb::object to_bytes(Bytes bytes) { return nb::bytes(bytes.data(), bytes.size()); }

nb::list to_list(const std::vector<RowFault>& faults) {
  nb::list list;
  for (const RowFault& fault : faults)
    list.append(nb::make_tuple(fault.row, static_cast<int>(fault.fault), fault.column));
  return list;
}

nb::tuple scan_file(nb::handle file, std::uint64_t begin, std::uint64_t max_records, std::uint64_t max_bytes) {
  const View view(file);
  Scan found;
  {
    nb::gil_scoped_release nogil;
    found = scan(view.bytes(), begin, max_records, max_bytes);
  }
  return nb::make_tuple(copy_to_array(found.extents, {found.extents.size(), 2}), static_cast<int>(found.fault),
                        found.end);
}

nb::list verify_records(nb::handle file, const Extents& extents, std::size_t threads) {
  const View view(file);
  std::vector<std::vector<RowFault>> faults(std::max<std::size_t>(threads, 1));
  {
    nb::gil_scoped_release nogil;
    const std::span<const Extent> all = span_of(extents);
    const std::vector<Range> ranges = cut(all.size(), faults.size());
    in_threads(ranges.size(), [&](std::size_t i) {
      for (std::size_t row = ranges[i].begin; row < ranges[i].end; ++row)
        if (const Fault fault = verify(view.bytes(), all[row]); fault != Fault::none)
          faults[i].push_back({row, fault, -1});
    });
    for (std::size_t i = 1; i < faults.size(); ++i)
      faults[0].insert(faults[0].end(), faults[i].begin(), faults[i].end());
  }
  return to_list(faults[0]);
}

std::uint64_t resynchronise_file(nb::handle file, std::uint64_t begin) {
  const View view(file);
  nb::gil_scoped_release nogil;
  return resynchronise(view.bytes(), begin);
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

nb::tuple decode_records(nb::handle file, const Extents& extents, nb::sequence names, bool verify, std::size_t threads,
                         bool note_others) {
  const View view(file);
  const std::vector<Name> wanted = names_of(names);
  Decoded decoded;
  {
    nb::gil_scoped_release nogil;
    decoded = decode(view.bytes(), span_of(extents), wanted, {verify, threads, note_others});
  }
  nb::list columns;
  for (Column& column : decoded.columns) columns.append(to_dict(std::move(column)));
  nb::list others;
  for (const Name& name : decoded.others) others.append(nb::make_tuple(to_str(name.text), name.sequence));
  return nb::make_tuple(columns, to_list(decoded.faults), others);
}

// The views of one column's arrays, held while it is encoded.
template <typename T>
const T* pointer_to(nb::handle array, std::deque<View>& held) {
  if (array.is_none()) return nullptr;
  return reinterpret_cast<const T*>(held.emplace_back(array, PyBUF_C_CONTIGUOUS).bytes().data());
}

// (name, sequence, kind, numbers, ends, data, splits, width, present, step_splits), as checked by columns.py.
ColumnView column_from(nb::handle column, std::deque<View>& held, std::deque<std::string>& names) {
  ColumnView view;
  view.name = names.emplace_back(from_str(column[0]));
  view.sequence = nb::cast<bool>(column[1]);
  view.kind = static_cast<Kind>(nb::cast<int>(column[2]));
  view.ints = pointer_to<std::int64_t>(column[3], held);
  view.floats = reinterpret_cast<const float*>(view.ints);
  view.ends = pointer_to<std::int64_t>(column[4], held);
  view.data = pointer_to<std::uint8_t>(column[5], held);
  view.splits = pointer_to<std::int64_t>(column[6], held);
  view.width = nb::cast<std::size_t>(column[7]);
  view.present = pointer_to<std::uint8_t>(column[8], held);
  view.step_splits = pointer_to<std::int64_t>(column[9], held);
  return view;
}

using Int64s = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// (pieces of framed records, lengths), or the number of the record that is too large.
nb::object encode_columns(nb::sequence columns, std::size_t rows, std::size_t threads, std::optional<Int64s> order) {
  if (order && !std::all_of(order->data(), order->data() + order->shape(0),
                            [&](std::int64_t row) { return row >= 0 && static_cast<std::size_t>(row) < rows; }))
    throw nb::index_error("order names a row that is not there");
  std::deque<View> held;
  std::deque<std::string> names;
  std::vector<ColumnView> views;
  for (const nb::handle column : columns) views.push_back(column_from(column, held, names));
  Encoded encoded;
  {
    nb::gil_scoped_release nogil;
    encoded = encode(std::move(views), order ? order->shape(0) : rows, threads, order ? order->data() : nullptr);
  }
  if (encoded.too_large) return nb::int_(encoded.too_large_row);
  nb::list pieces;
  for (Piece& piece : encoded.pieces) pieces.append(to_array<std::uint8_t>(std::move(piece.memory), piece.size));
  return nb::make_tuple(pieces, to_array<std::uint64_t>(std::move(encoded.lengths)));
}

nb::object frame_data(nb::handle data) {
  const View view(data);
  const Bytes bytes = view.bytes();
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(kHeader + bytes.size() + kFooter));
  if (!made) throw nb::python_error();
  auto* out = reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(made));
  if (!bytes.empty()) std::memcpy(out + kHeader, bytes.data(), bytes.size());
  frame(out, bytes.size());
  return nb::steal(made);
}

// `offsets` must be in order and within `data`, as those of a BytesColumn are.
nb::object hash_column(const Int64s& offsets, nb::handle data, std::uint64_t seed) {
  const View view(data);
  const std::size_t rows = offsets.shape(0) == 0 ? 0 : offsets.shape(0) - 1;
  Buffer hashes(rows * sizeof(std::uint64_t));
  {
    nb::gil_scoped_release nogil;
    for (std::size_t i = 0; i < rows; ++i) {
      const auto begin = static_cast<std::size_t>(offsets.data()[i]),
                 end = static_cast<std::size_t>(offsets.data()[i + 1]);
      hashes.as<std::uint64_t>()[i] = xxh64(view.bytes().subspan(begin, end - begin), seed);
    }
  }
  return to_array<std::uint64_t>(std::move(hashes));
}

nb::object order_of(const nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& keys,
                    std::size_t threads) {
  Buffer order(keys.shape(0) * sizeof(std::int64_t));
  {
    nb::gil_scoped_release nogil;
    sort_order({keys.data(), keys.shape(0)}, threads, order.as<std::int64_t>());
  }
  return to_array<std::int64_t>(std::move(order));
}

// The rows of a bytes column, whose offsets must be in order and within `data`.
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

// (bytes of all files, one behind the other; a fault each). `offsets` and `data` are the paths, below `folder`.
nb::object read_files(nb::bytes folder, const Int64s& offsets, nb::handle data, const Int64s& sizes,
                      std::size_t threads) {
  const View view(data);
  std::vector<std::string_view> paths;
  for (const Bytes row : rows_of(offsets, view.bytes()))
    paths.emplace_back(reinterpret_cast<const char*>(row.data()), row.size());
  if (sizes.shape(0) != paths.size()) throw nb::value_error("sizes must have one number a path");
  const std::string top(folder.c_str(), folder.size());
  std::vector<std::size_t> lengths;
  std::size_t total = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (sizes.data()[i] < 0) throw nb::value_error("sizes must not be negative");
    lengths.push_back(static_cast<std::size_t>(sizes.data()[i]));
    total += lengths.back();
  }
  Buffer out(total), faults(paths.size() * sizeof(std::int32_t));
  {
    nb::gil_scoped_release nogil;
    read_wholes(top, paths, lengths, threads, out.data(), faults.as<std::int32_t>());
  }
  return nb::make_tuple(to_array<std::uint8_t>(std::move(out)), to_array<std::int32_t>(std::move(faults)));
}

// Height, width and channels of each row that is a plain JPEG, one behind the other; zeros of others.
nb::object jpeg_headers(const Int64s& offsets, nb::handle data) {
  const View view(data);
  const std::vector<Bytes> rows = rows_of(offsets, view.bytes());
  Buffer out(rows.size() * 3 * sizeof(std::int64_t));
  {
    nb::gil_scoped_release nogil;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      JpegHeader header;
      if (!read_plain_jpeg(rows[i], header)) header = {};
      static_assert(sizeof header == 3 * sizeof(std::int64_t));
      std::memcpy(out.data() + i * sizeof header, &header, sizeof header);
    }
  }
  return to_array<std::int64_t>(std::move(out));
}

// `which`, `starts` and `lengths` have one number a range: its piece, and where it is in it.
nb::object gather_ranges(nb::sequence pieces, const Int64s& which, const Int64s& starts, const Int64s& lengths) {
  if (which.shape(0) != starts.shape(0) || which.shape(0) != lengths.shape(0))
    throw nb::value_error("which, starts and lengths must be as long as each other");
  std::deque<View> held;
  std::vector<Bytes> views;
  for (const nb::handle piece : pieces) views.push_back(held.emplace_back(piece).bytes());
  Buffer out;
  bool is_within = true;
  {
    nb::gil_scoped_release nogil;
    std::vector<Place> places(which.shape(0));
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      is_within = is_within && lengths.data()[i] >= 0;
      places[i] = {static_cast<std::uint32_t>(which.data()[i]), static_cast<std::uint64_t>(starts.data()[i]),
                   static_cast<std::uint64_t>(lengths.data()[i])};
      size += places[i].length;
    }
    out = Buffer(is_within ? size : 0);
    is_within = is_within && gather(views, places, out.data());
  }
  if (!is_within) throw nb::index_error("a range is not within its piece");
  return to_array<std::uint8_t>(std::move(out));
}

// One Feature as a list of bytes, or as an array; None where it holds nothing.
nb::object to_object(const Feature& feature) {
  if (feature.kind() == Kind::none) return nb::none();
  if (feature.kind() == Kind::bytes) {
    nb::list values;
    feature.for_each_bytes([&](Bytes value) { values.append(to_bytes(value)); });
    return values;
  }
  if (feature.kind() == Kind::floats) {
    std::vector<float> values(feature.count());
    feature.fill(values.data());
    return copy_to_array(values, {values.size()});
  }
  std::vector<std::int64_t> values(feature.count());
  if (!feature.fill(values.data())) return nb::object();
  return copy_to_array(values, {values.size()});
}

// ({name: values}, {name: [values of each step]}), or None if the message is malformed.
nb::object parse_message(nb::handle data) {
  const View view(data);
  Locator locator({}, Locator::Others::add);
  if (!locator.locate(view.bytes())) return nb::none();
  nb::dict features, lists;
  Feature feature;
  bool readable = true;
  const auto take = [&](Slice slice) {
    nb::object values = feature.open(slice, view.bytes()) ? to_object(feature) : nb::object();
    readable = readable && values.is_valid();
    return values;
  };
  for (std::size_t i = 0; i < locator.names().size() && readable; ++i) {
    const Name& name = locator.names()[i];
    const Slice slice = locator.slices()[i];
    if (!name.sequence) {
      nb::object values = take(slice);
      if (readable && !values.is_none()) features[to_str(name.text)] = values;
      continue;
    }
    nb::list steps;
    readable = for_each_step(slice.bytes(),
                             [&](Slice step) {
                               nb::object values = take(step);
                               if (readable) steps.append(values);
                             }) &&
               readable;
    if (readable) lists[to_str(name.text)] = steps;
  }
  if (!readable) return nb::none();
  return nb::make_tuple(features, lists);
}

// Turns Python values into what SampleEncoder takes, and keeps their memory for the time of one sample.
class Values {
 public:
  Values() = default;
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  // False if the value is of a type that is not known here.
  bool add(nb::handle name, nb::handle value);
  std::span<const Value> all() const { return values_; }
  void clear();

 private:
  bool add_one(Value& out, nb::handle value);
  bool add_list(Value& out, nb::handle value);
  bool add_buffer(Value& out, nb::handle value);
  bool take(Value& out, nb::handle value);
  template <typename From, typename To>
  std::span<const To> widen(const Py_buffer& from);

  std::vector<Value> values_;
  std::deque<std::string> names_;
  std::deque<std::vector<std::int64_t>> ints_;
  std::deque<std::vector<double>> doubles_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::uint64_t>> unsigneds_;
  std::deque<std::vector<Bytes>> strings_;
  std::deque<View> views_;
};

void Values::clear() {
  values_.clear();
  names_.clear();
  ints_.clear();
  doubles_.clear();
  floats_.clear();
  unsigneds_.clear();
  strings_.clear();
  views_.clear();
}

// One Python scalar, behind the others of the same value; false if it is of another type than they are.
bool Values::take(Value& out, nb::handle value) {
  PyObject* object = value.ptr();
  const auto form_is = [&](Value::Form form, bool first) {
    if (first) out.form = form;
    return out.form == form;
  };
  const bool first = out.count() == 0;
  if (PyLong_Check(object)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return false;
    if (!form_is(Value::Form::ints, first)) return false;
    ints_.back().push_back(number);
    out.ints = ints_.back();
    return true;
  }
  if (PyFloat_Check(object)) {
    if (!form_is(Value::Form::doubles, first)) return false;
    doubles_.back().push_back(PyFloat_AS_DOUBLE(object));
    out.doubles = doubles_.back();
    return true;
  }
  Bytes text;
  if (PyBytes_Check(object)) {
    text = {reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(object)),
            static_cast<std::size_t>(PyBytes_GET_SIZE(object))};
  } else if (PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    const char* utf8 = PyUnicode_AsUTF8AndSize(object, &size);
    if (!utf8) {
      PyErr_Clear();
      return false;
    }
    text = {reinterpret_cast<const std::uint8_t*>(utf8), static_cast<std::size_t>(size)};
  } else {
    return false;
  }
  if (!form_is(Value::Form::strings, first)) return false;
  strings_.back().push_back(text);
  out.strings = strings_.back();
  return true;
}

bool Values::add_one(Value& out, nb::handle value) {
  ints_.emplace_back();
  doubles_.emplace_back();
  strings_.emplace_back();
  return take(out, value);
}

bool Values::add_list(Value& out, nb::handle value) {
  ints_.emplace_back();
  doubles_.emplace_back();
  strings_.emplace_back();
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(value.ptr());
  PyObject** const objects = PySequence_Fast_ITEMS(value.ptr());
  for (Py_ssize_t i = 0; i < size; ++i)
    if (!take(out, objects[i])) return false;
  out.shape = {size};
  return true;
}

template <typename From, typename To>
std::span<const To> Values::widen(const Py_buffer& from) {
  const std::size_t count = static_cast<std::size_t>(from.len) / sizeof(From);
  if constexpr (std::is_same_v<From, To>) {
    return {static_cast<const To*>(from.buf), count};
  } else {
    std::vector<To>* made = nullptr;
    if constexpr (std::is_same_v<To, std::int64_t>) made = &ints_.emplace_back(count);
    if constexpr (std::is_same_v<To, float>) made = &floats_.emplace_back(count);
    const auto* values = static_cast<const From*>(from.buf);
    for (std::size_t i = 0; i < count; ++i) (*made)[i] = static_cast<To>(values[i]);
    return *made;
  }
}

bool Values::add_buffer(Value& out, nb::handle value) {
  if (!PyObject_CheckBuffer(value.ptr())) return false;
  Py_buffer raw;
  if (PyObject_GetBuffer(value.ptr(), &raw, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    return false;
  }
  PyBuffer_Release(&raw);
  const Py_buffer& view = views_.emplace_back(value, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS).raw();
  const char* format = view.format ? view.format : "B";
  const bool is_swapped = *format == '>' || *format == '!';
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  if (is_swapped || format[0] == 0 || format[1] != 0) return false;
  out.shape.assign(view.shape, view.shape + view.ndim);
  out.form = Value::Form::ints;
  switch (format[0]) {
    case '?':
      out.ints = widen<std::uint8_t, std::int64_t>(view);
      return true;
    case 'b':
      out.ints = widen<std::int8_t, std::int64_t>(view);
      return true;
    case 'B':
      out.ints = widen<std::uint8_t, std::int64_t>(view);
      return true;
    case 'h':
      out.ints = widen<std::int16_t, std::int64_t>(view);
      return true;
    case 'H':
      out.ints = widen<std::uint16_t, std::int64_t>(view);
      return true;
    case 'i':
      out.ints = widen<std::int32_t, std::int64_t>(view);
      return true;
    case 'I':
      out.ints = widen<std::uint32_t, std::int64_t>(view);
      return true;
    case 'l':
    case 'q':
      if (view.itemsize != sizeof(std::int64_t)) return false;
      out.ints = widen<std::int64_t, std::int64_t>(view);
      return true;
    case 'L':
    case 'Q':
      if (view.itemsize != sizeof(std::uint64_t)) return false;
      out.form = Value::Form::unsigneds;
      out.unsigneds = widen<std::uint64_t, std::uint64_t>(view);
      return true;
    case 'f':
      out.form = Value::Form::floats;
      out.floats = widen<float, float>(view);
      return true;
    case 'd':
      out.form = Value::Form::doubles;
      out.doubles = widen<double, double>(view);
      return true;
  }
  return false;
}

bool Values::add(nb::handle name, nb::handle value) {
  Py_ssize_t size = 0;
  Value& out = values_.emplace_back();
  if (!PyUnicode_Check(name.ptr())) return false;
  if (const char* utf8 = PyUnicode_AsUTF8AndSize(name.ptr(), &size)) {
    out.name = {utf8, static_cast<std::size_t>(size)};
  } else {
    PyErr_Clear();
    out.name = names_.emplace_back(from_str(name));
  }
  PyObject* object = value.ptr();
  if (PyBytes_Check(object) || PyUnicode_Check(object) || PyFloat_CheckExact(object) || PyLong_CheckExact(object) ||
      PyBool_Check(object))
    return add_one(out, value);
  if (PyList_Check(object) || PyTuple_Check(object)) return add_list(out, value);
  if (PyByteArray_Check(object) || PyMemoryView_Check(object)) return false;  // bytes, not lists of numbers
  return add_buffer(out, value);
}

class PySampleEncoder {
 public:
  PySampleEncoder() = default;
  PySampleEncoder(const PySampleEncoder&) = delete;
  PySampleEncoder& operator=(const PySampleEncoder&) = delete;

  void add(nb::str name, int kind, nb::sequence shape, bool required) {
    SampleFeature feature;
    feature.name = from_str(name);
    feature.kind = static_cast<Kind>(kind);
    for (const nb::handle size : shape) feature.shape.push_back(nb::cast<std::int64_t>(size));
    feature.required = required;
    encoder_.add(std::move(feature));
  }

  // The framed record; or (refusal, name, place in the value); or (-1, name, 0) for a type not known here.
  nb::object encode(nb::dict sample) {
    struct Clear {
      Values& values;
      ~Clear() { values.clear(); }
    } const clear{values_};
    for (const auto [name, value] : sample)
      if (!values_.add(name, value)) return nb::make_tuple(-1, name, 0);
    SampleEncoder::Result result = encoder_.encode(values_.all());
    if (result.refusal == Refusal::none) {
      const Piece& piece = result.encoded.pieces[0];
      return to_bytes({piece.memory.data(), piece.size});
    }
    const bool missing = result.refusal == Refusal::missing;
    const std::string_view name = missing                 ? encoder_.features()[result.value].name
                                  : values_.all().empty() ? std::string_view()
                                                          : values_.all()[result.value].name;
    return nb::make_tuple(static_cast<int>(result.refusal), to_str(name), result.at);
  }

  // [(name, largest difference, the value it was at)] of features that float32 did not hold exactly.
  nb::list narrowings() const {
    nb::list list;
    for (std::size_t i = 0; i < encoder_.features().size(); ++i)
      if (const Narrowing& narrowing = encoder_.narrowings()[i]; narrowing.largest > 0)
        list.append(nb::make_tuple(to_str(encoder_.features()[i].name), narrowing.largest, narrowing.value));
    return list;
  }

 private:
  SampleEncoder encoder_;
  Values values_;
};

nb::dict to_dict(const FeatureFacts& facts) {
  nb::dict out;
  out["name"] = to_str(facts.name);
  out["sequence"] = facts.sequence;
  out["records"] = facts.records;
  out["kinds"] = nb::make_tuple(facts.kinds[0], facts.kinds[1], facts.kinds[2], facts.kinds[3]);
  out["min_count"] = facts.min_count;
  out["max_count"] = facts.max_count;
  out["values"] = facts.values;
  out["min_steps"] = facts.min_steps;
  out["max_steps"] = facts.max_steps;
  out["wire_bytes"] = facts.wire_bytes;
  out["min_int"] = facts.min_int;
  out["max_int"] = facts.max_int;
  out["min_float"] = facts.min_float;
  out["max_float"] = facts.max_float;
  out["finite"] = facts.finite;
  out["nans"] = facts.nans;
  out["infinities"] = facts.infinities;
  out["min_size"] = facts.min_size;
  out["max_size"] = facts.max_size;
  out["text"] = facts.text;
  nb::list formats;
  for (const std::uint64_t count : facts.formats) formats.append(count);
  out["formats"] = nb::tuple(formats);
  return out;
}

nb::list add_to_survey(Survey& survey, nb::handle file, const Extents& extents, bool verify) {
  const View view(file);
  std::vector<RowFault> faults;
  {
    nb::gil_scoped_release nogil;
    faults = survey.add(view.bytes(), span_of(extents), verify);
  }
  return to_list(faults);
}

nb::dict survey_result(const Survey& survey) {
  nb::list features;
  for (const FeatureFacts& facts : survey.features()) features.append(to_dict(facts));
  nb::dict out;
  out["records"] = survey.records();
  out["with_lists"] = survey.with_lists();
  out["empty"] = survey.empty();
  out["features"] = features;
  return out;
}

nb::object permute(const Int64s& positions, std::uint64_t size, std::uint64_t key) {
  const std::span<const std::int64_t> asked{positions.data(), positions.shape(0)};
  Buffer out(asked.size() * sizeof(std::int64_t));
  bool inside = true;
  {
    nb::gil_scoped_release nogil;
    const std::span<std::int64_t> places{out.as<std::int64_t>(), asked.size()};
    for (std::size_t i = 0; i < asked.size(); ++i) {
      inside = inside && static_cast<std::uint64_t>(asked[i]) < size;
      places[i] = asked[i];
    }
    if (inside) Permutation(size, key).apply(places);
  }
  if (!inside) throw nb::index_error("positions must be at least 0 and below size");
  return to_array<std::int64_t>(std::move(out));
}

// Files mapped behind each other: [(path, size)].
class PyMapping {
 public:
  PyMapping(nb::sequence files, bool own) : mapping_(files_of(files), own) {
    if (mapping_.error() == 0) return;
    const nb::object path = nb::object(files[mapping_.failed()])[0];
    errno = mapping_.error();
    PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path.ptr());
    throw nb::python_error();
  }

  const Mapping& mapping() const { return mapping_; }
  nb::list starts() const {
    nb::list list;
    for (const std::uint64_t start : mapping_.starts()) list.append(start);
    return list;
  }

 private:
  static std::vector<MappedFile> files_of(nb::sequence files) {
    std::vector<MappedFile> list;
    for (const nb::handle file : files) list.push_back({from_str(file[0]), nb::cast<std::uint64_t>(file[1])});
    return list;
  }

  Mapping mapping_;
};

nb::object memory_of(nb::handle self) {
  const Mapping& mapping = nb::cast<PyMapping&>(self).mapping();
  const std::size_t size = mapping.bytes().size();
  if (mapping.is_own())
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(mapping.data(), {size}, self));
  return nb::cast(nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>>(mapping.data(), {size}, self));
}

using Offsets = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Lengths = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The records of mapped shards, by one number over all of them: [(offsets, lengths, start in the mapping)].
class PyShards {
 public:
  PyShards(nb::object mapping, nb::sequence indexes)
      : mapping_(mapping), memory_(nb::cast<PyMapping&>(mapping).mapping().bytes()), places_(take(indexes)) {}

  std::uint64_t records() const { return places_.records(); }

  nb::object extents(const Int64s& rows) const {
    std::vector<Extent> found;
    {
      nb::gil_scoped_release nogil;
      found = find(rows);
    }
    return copy_to_array(found, {found.size(), 2});
  }

  // (columns, faults, seconds it took to have the records in memory)
  nb::tuple decode_rows(const Int64s& rows, nb::sequence names, bool verify) const {
    const std::vector<Name> wanted = names_of(names);
    Decoded decoded;
    double seconds = 0;
    {
      nb::gil_scoped_release nogil;
      const std::vector<Extent> found = find(rows);
      const auto begin = std::chrono::steady_clock::now();
      const volatile std::uint64_t fetched = fetch(memory_, found);
      static_cast<void>(fetched);
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      decoded = decode(memory_, found, wanted, {verify, 1, false});
    }
    nb::list columns;
    for (Column& column : decoded.columns) columns.append(to_dict(std::move(column)));
    return nb::make_tuple(columns, to_list(decoded.faults), seconds);
  }

 private:
  std::vector<ShardIndex> take(nb::sequence indexes) {
    std::vector<ShardIndex> list;
    for (const nb::handle index : indexes) {
      const auto offsets = nb::cast<Offsets>(index[0]);
      const auto lengths = nb::cast<Lengths>(index[1]);
      if (offsets.shape(0) != lengths.shape(0)) throw nb::value_error("offsets and lengths must be of one size");
      list.push_back({offsets.data(), lengths.data(), offsets.shape(0), nb::cast<std::uint64_t>(index[2])});
      offsets_.push_back(offsets);
      lengths_.push_back(lengths);
    }
    return list;
  }

  std::vector<Extent> find(const Int64s& rows) const {
    std::vector<Extent> found(rows.shape(0));
    if (!places_.find({rows.data(), rows.shape(0)}, found.data()))
      throw nb::index_error("rows must be at least 0 and below the number of records");
    return found;
  }

  nb::object mapping_;
  Bytes memory_;
  std::vector<Offsets> offsets_;  // held, not copied
  std::vector<Lengths> lengths_;
  Places places_;
};

// Buffers that are used again while this lives, and when nothing holds their arrays any more.
class PyPool {
 public:
  explicit PyPool(std::size_t most) : shelf_(std::make_shared<Shelf>(most)) {}

  nb::object empty(std::size_t size) const {
    auto* lent = new Lent(shelf_, size);
    nb::capsule owner(lent, [](void* p) noexcept { delete static_cast<Lent*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>(lent->buffer.data(), {size}, owner));
  }

 private:
  std::shared_ptr<Shelf> shelf_;
};

template <typename T>
using Image = nb::ndarray<const T, nb::shape<-1, -1, -1>, nb::c_contig, nb::device::cpu>;

template <typename T>
using Canvas = nb::ndarray<T, nb::shape<-1, -1, -1>, nb::c_contig, nb::device::cpu>;

ImageSize size_of(const auto& image) { return {image.shape(0), image.shape(1), image.shape(2)}; }

void check_sizes(ImageSize from, ImageSize to) {
  for (const ImageSize size : {from, to})
    if (size.height == 0 || size.width == 0 || size.channels == 0)
      throw nb::value_error("images must have at least one pixel");
  if (from.channels != to.channels) throw nb::value_error("images must keep their channels");
}

template <typename In, typename Out>
nb::object resize_image(const Image<In>& image, std::size_t height, std::size_t width, bool antialias, Kernel kernel) {
  const ImageSize from = size_of(image), to{height, width, from.channels};
  check_sizes(from, to);
  // Resized images are mostly copied into a batch and dropped: the next takes the memory while it is in the cache.
  static const auto shelf = std::make_shared<Shelf>(8);
  auto* lent = new Lent(shelf, height * width * from.channels * sizeof(Out));
  nb::capsule owner(lent, [](void* p) noexcept { delete static_cast<Lent*>(p); });
  {
    nb::gil_scoped_release nogil;
    resize(image.data(), from, lent->buffer.as<Out>(), to, antialias, kernel);
  }
  return nb::cast(nb::ndarray<nb::numpy, Out>(lent->buffer.as<Out>(), {height, width, from.channels}, owner));
}

// Straight into the image's place in a batch.
template <typename In, typename Out>
void resize_image_into(const Image<In>& image, const Canvas<Out>& out, bool antialias, Kernel kernel) {
  check_sizes(size_of(image), size_of(out));
  nb::gil_scoped_release nogil;
  resize(image.data(), size_of(image), out.data(), size_of(out), antialias, kernel);
}

Rows rows_of(const View& values, const Int64s& splits, const View& fill) {
  const Rows rows{values.bytes(), fill.bytes().size(), {splits.data(), splits.shape(0)}};
  if (!rows.is_valid()) throw nb::value_error("splits must be in order and within values");
  return rows;
}

// (values, mask), flat. `fill` is one value's bytes.
nb::tuple pad_rows(nb::handle values, const Int64s& splits, std::size_t length, nb::handle fill) {
  const View view(values, PyBUF_C_CONTIGUOUS), filling(fill);
  const Rows rows = rows_of(view, splits, filling);
  Padded padded;
  {
    nb::gil_scoped_release nogil;
    padded = pad(rows, length, filling.bytes().data());
  }
  return nb::make_tuple(to_array<std::uint8_t>(std::move(padded.values)), to_array<bool>(std::move(padded.mask)));
}

// (bin of each row, number of bins)
nb::tuple pack_lengths(const Int64s& lengths, std::int64_t capacity) {
  std::vector<std::int64_t> bin_of;
  std::int64_t bins = 0;
  {
    nb::gil_scoped_release nogil;
    bin_of = pack({lengths.data(), lengths.shape(0)}, capacity, bins);
  }
  return nb::make_tuple(copy_to_array(bin_of, {bin_of.size()}), bins);
}

// (values, segments, positions), flat.
nb::tuple lay_out_rows(nb::handle values, const Int64s& splits, const Int64s& bins, std::size_t count,
                       std::size_t length, nb::handle fill) {
  const View view(values, PyBUF_C_CONTIGUOUS), filling(fill);
  const Rows rows = rows_of(view, splits, filling);
  for (std::size_t i = 0; i < bins.shape(0); ++i)
    if (bins.data()[i] < 0 || static_cast<std::size_t>(bins.data()[i]) >= count)
      throw nb::value_error("bins must be at least 0 and below count");
  if (bins.shape(0) != rows.count()) throw nb::value_error("bins must have one value a row");
  Packed packed;
  {
    nb::gil_scoped_release nogil;
    packed = lay_out(rows, {bins.data(), bins.shape(0)}, count, length, filling.bytes().data());
  }
  return nb::make_tuple(to_array<std::uint8_t>(std::move(packed.values)),
                        to_array<std::int32_t>(std::move(packed.segments)),
                        to_array<std::int32_t>(std::move(packed.positions)));
}

// Rows of text that live as long as the objects given.
class TextView {
 public:
  TextView(const Int64s& offsets, nb::handle data)
      : data_(data, PyBUF_C_CONTIGUOUS), texts_{{offsets.data(), offsets.shape(0)}, data_.bytes()} {
    if (!texts_.is_valid()) throw nb::value_error("offsets must be in order and within data");
  }
  const Texts& texts() const { return texts_; }

 private:
  View data_;
  Texts texts_;
};

Unit unit_named(std::string_view name) {
  if (name == "whitespace") return Unit::whitespace;
  if (name == "word") return Unit::word;
  if (name == "character") return Unit::character;
  if (name == "byte") return Unit::byte;
  throw nb::value_error("unit must be one of whitespace, word, character, byte");
}

TermsOf terms_of(std::string_view unit, std::size_t shortest, std::size_t longest) {
  if (shortest < 1 || longest < shortest) throw nb::value_error("terms must have 1 token or more, the longest most");
  return {unit_named(unit), shortest, longest};
}

Weighing weighing_of(std::string_view norm, bool sublinear, bool binary) {
  if (norm != "none" && norm != "l1" && norm != "l2") throw nb::value_error("norm must be one of none, l1, l2");
  return {norm == "l1" ? Norm::l1 : norm == "l2" ? Norm::l2 : Norm::none, sublinear, binary};
}

// (ids, splits or None, [tokens, unknown, rows cut, tokens cut])
nb::tuple tokenise_texts(const Int64s& offsets, nb::handle data, const std::string& unit, const Vocabulary* vocabulary,
                         std::int64_t length) {
  const TextView view(offsets, data);
  const Unit cut_into = unit_named(unit);
  const std::size_t most = length < 0 ? kAnyLength : static_cast<std::size_t>(length);
  if (most != kAnyLength && most != 0 && view.texts().count() > std::numeric_limits<std::int32_t>::max() / most * 64)
    throw nb::value_error("length must be such that a block of rows fits in memory");
  Tokenised made;
  {
    nb::gil_scoped_release nogil;
    made = tokenise(view.texts(), cut_into, vocabulary, most);
  }
  nb::object splits = made.splits.data() ? to_array<std::int64_t>(std::move(made.splits)) : nb::none();
  nb::object ids = made.ids.data() ? to_array<std::int64_t>(std::move(made.ids)) : copy_to_array<std::int64_t>({}, {0});
  return nb::make_tuple(ids, splits, nb::make_tuple(made.tokens, made.unknown, made.cut_rows, made.cut_tokens));
}

// (data, rows with more than ASCII)
nb::tuple lower_texts(const Int64s& offsets, nb::handle data) {
  const TextView view(offsets, data);
  Lowered made;
  {
    nb::gil_scoped_release nogil;
    made = lower_ascii(view.texts());
  }
  return nb::make_tuple(
      made.data.data() ? to_array<std::uint8_t>(std::move(made.data)) : copy_to_array<std::uint8_t>({}, {0}),
      made.others.data() ? to_array<std::uint8_t>(std::move(made.others)) : copy_to_array<std::uint8_t>({}, {0}));
}

std::size_t find_not_utf8(const Int64s& offsets, nb::handle data) {
  const TextView view(offsets, data);
  nb::gil_scoped_release nogil;
  return first_not_utf8(view.texts());
}

void make_vocabulary(Vocabulary* self, const Int64s& offsets, nb::handle data) {
  const TextView view(offsets, data);
  new (self) Vocabulary(view.texts());
}

void make_counter(TermCounter* self, const std::string& unit, std::size_t shortest, std::size_t longest) {
  new (self) TermCounter(terms_of(unit, shortest, longest));
}

void count_terms(TermCounter& self, const Int64s& offsets, nb::handle data) {
  const TextView view(offsets, data);
  nb::gil_scoped_release nogil;
  self.add(view.texts());
}

void add_term_counts(TermCounter& self, const Int64s& offsets, nb::handle data, const Int64s& counts,
                     const Int64s& texts) {
  const TextView view(offsets, data);
  const std::size_t rows = view.texts().count();
  if (counts.shape(0) != rows || texts.shape(0) != rows) throw nb::value_error("counts must have one number a term");
  nb::gil_scoped_release nogil;
  self.add_counts(view.texts(), {counts.data(), rows}, {texts.data(), rows});
}

// (offsets, data, counts, texts) of the terms, most frequent first.
nb::tuple ranked_terms(const TermCounter& self) {
  std::vector<std::int64_t> offsets{0}, counts, texts;
  std::vector<std::uint8_t> data;
  {
    nb::gil_scoped_release nogil;
    for (const TermCounter::Entry& entry : self.ranked()) {
      const Bytes term = self.term(entry);
      data.insert(data.end(), term.begin(), term.end());
      offsets.push_back(static_cast<std::int64_t>(data.size()));
      counts.push_back(entry.count);
      texts.push_back(entry.texts);
    }
  }
  return nb::make_tuple(copy_to_array(offsets, {offsets.size()}), copy_to_array(data, {data.size()}),
                        copy_to_array(counts, {counts.size()}), copy_to_array(texts, {texts.size()}));
}

// (indices, values, splits)
nb::tuple to_tuple(SparseRows&& rows) {
  nb::object indices =
      rows.indices.data() ? to_array<std::int64_t>(std::move(rows.indices)) : copy_to_array<std::int64_t>({}, {0});
  nb::object values = rows.values.data() ? to_array<float>(std::move(rows.values)) : copy_to_array<float>({}, {0});
  return nb::make_tuple(indices, values, to_array<std::int64_t>(std::move(rows.splits)));
}

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::tuple weigh_texts(const Int64s& offsets, nb::handle data, const std::string& unit,
                      std::pair<std::size_t, std::size_t> ngrams, const Vocabulary& vocabulary, const Doubles& weights,
                      const std::string& norm, bool sublinear, bool binary) {
  const TextView view(offsets, data);
  const TermsOf terms = terms_of(unit, ngrams.first, ngrams.second);
  const Weighing weighing = weighing_of(norm, sublinear, binary);
  if (weights.shape(0) != vocabulary.size()) throw nb::value_error("weights must have one number a term");
  SparseRows made;
  {
    nb::gil_scoped_release nogil;
    made = weigh_terms(view.texts(), terms, vocabulary, {weights.data(), weights.shape(0)}, weighing);
  }
  return to_tuple(std::move(made));
}

nb::tuple hash_texts(const Int64s& offsets, nb::handle data, const std::string& unit,
                     std::pair<std::size_t, std::size_t> ngrams, std::int64_t size, bool is_signed,
                     const std::string& norm, bool binary) {
  const TextView view(offsets, data);
  const TermsOf terms = terms_of(unit, ngrams.first, ngrams.second);
  const Weighing weighing = weighing_of(norm, false, binary);
  if (size < 1 || size > std::numeric_limits<std::int32_t>::max())
    throw nb::value_error("size must be at least 1 and below 2^31");
  SparseRows made;
  {
    nb::gil_scoped_release nogil;
    made = hash_terms(view.texts(), terms, size, is_signed, weighing);
  }
  return to_tuple(std::move(made));
}

nb::list to_list(std::span<const CodeRange> ranges) {
  nb::list out;
  for (const CodeRange& range : ranges) out.append(nb::make_tuple(range.first, range.last));
  return out;
}

nb::list to_list(const Sightings& places) {
  nb::list first;
  for (const Sighting& place : places.first) first.append(nb::make_tuple(place.file, place.record));
  nb::list out;
  out.append(places.count);
  out.append(first);
  return out;
}

// {value: (count, file, record)}, and whether there were more.
nb::tuple to_tuple(const Tally& tally) {
  nb::dict counts;
  for (const auto& [value, count] : tally.counts) {
    const Sighting place = tally.where.at(value);
    counts[nb::cast(value)] = nb::make_tuple(count, place.file, place.record);
  }
  return nb::make_tuple(counts, tally.full);
}

template <typename Sightings, std::size_t n>
nb::list to_list(const std::array<Sightings, n>& all) {
  nb::list out;
  for (const auto& one : all) {
    if constexpr (std::is_integral_v<Sightings>) {
      out.append(one);
    } else {
      out.append(to_list(one));
    }
  }
  return out;
}

nb::dict to_dict(const FeatureProfile& profile) {
  nb::dict out;
  out["name"] = to_str(profile.name);
  out["sequence"] = profile.sequence;
  out["records"] = profile.records;
  out["values"] = profile.values;
  out["kinds"] = to_list(profile.kinds);
  out["kind_places"] = to_list(profile.kind_places);
  out["lengths"] = to_tuple(profile.lengths);
  out["min_count"] = profile.min_count;
  out["max_count"] = profile.max_count;
  out["nans"] = to_list(profile.nans);
  out["infinities"] = to_list(profile.infinities);
  out["finite"] = profile.finite;
  out["zeros"] = profile.zeros;
  out["min"] = profile.min;
  out["max"] = profile.max;
  out["at_min"] = profile.at_min;
  out["at_max"] = profile.at_max;
  out["min_place"] = nb::make_tuple(profile.min_place.file, profile.min_place.record);
  out["max_place"] = nb::make_tuple(profile.max_place.file, profile.max_place.record);
  out["sum"] = profile.sum;
  out["squares"] = profile.squares;
  out["sample"] = copy_to_array(profile.sample.values, {profile.sample.values.size()});
  out["scalars"] = to_tuple(profile.scalars);
  out["position_min"] = copy_to_array(profile.position_min, {profile.positions ? profile.position_min.size() : 0});
  out["position_max"] = copy_to_array(profile.position_max, {profile.positions ? profile.position_max.size() : 0});
  out["min_size"] = profile.min_size;
  out["max_size"] = profile.max_size;
  out["texts"] = profile.texts;
  out["numeric_texts"] = profile.numeric_texts;
  out["formats"] = to_list(profile.formats);
  out["format_places"] = to_list(profile.format_places);
  out["not_text"] = to_list(profile.not_text);
  out["empty"] = to_list(profile.empty);
  out["padded"] = to_list(profile.padded);
  out["sizes"] = to_tuple(profile.sizes);
  nb::dict texts;
  for (const auto& [hash, text] : profile.texts_by_hash) texts[nb::cast(hash)] = to_str(text);
  out["texts_by_hash"] = texts;
  return out;
}

std::vector<std::string> strings_of(nb::sequence names) {
  std::vector<std::string> result;
  for (const nb::handle name : names) result.push_back(from_str(name));
  return result;
}

// (faults, arrays of the columns asked for, hashes of the contents).
nb::tuple add_to_profile(Profile& profile, nb::handle file, const Extents& extents, std::uint32_t file_id,
                         std::uint64_t first) {
  const View view(file);
  ProfileRows rows;
  {
    nb::gil_scoped_release nogil;
    rows = profile.add(view.bytes(), span_of(extents), file_id, first);
  }
  nb::list columns;
  for (const std::vector<std::int64_t>& column : rows.columns) columns.append(copy_to_array(column, {column.size()}));
  return nb::make_tuple(to_list(rows.faults), columns, copy_to_array(rows.hashes, {rows.hashes.size() / 2, 2}));
}

nb::dict profile_result(const Profile& profile) {
  nb::list features;
  for (const FeatureProfile& feature : profile.features()) features.append(to_dict(feature));
  nb::dict names;
  for (const auto& [signature, texts] : profile.signature_names()) {
    nb::list list;
    for (const std::string& text : texts) list.append(to_str(text));
    names[nb::cast(signature)] = list;
  }
  nb::dict out;
  out["records"] = profile.records();
  out["with_lists"] = profile.with_lists();
  out["malformed"] = to_list(profile.malformed());
  out["empty"] = to_list(profile.empty());
  out["signatures"] = to_tuple(profile.signatures());
  out["signature_names"] = names;
  out["features"] = features;
  return out;
}

using Codes = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::tuple simulate_order(const Codes& labels, std::size_t classes, std::size_t buffer, std::size_t batch,
                         std::uint64_t seed) {
  Mixing mixing;
  {
    nb::gil_scoped_release nogil;
    mixing = simulate({labels.data(), labels.shape(0)}, classes, buffer, batch, seed);
  }
  return nb::make_tuple(mixing.classes, mixing.single_class, mixing.batches);
}

nb::bytes save_profile(const Profile& profile) {
  const std::string saved = profile.save();
  return nb::bytes(saved.data(), saved.size());
}

void merge_saved(Profile& profile, nb::handle saved) {
  Profile other{ProfileRequest{}};
  if (!Profile::load(View(saved).bytes(), other)) throw nb::value_error("saved must be what a profile saved");
  profile.merge(other);
}

void make_profile(Profile* place, nb::sequence columns, nb::sequence identity, bool verify, bool values, bool hashes) {
  new (place) Profile(ProfileRequest{strings_of(columns), strings_of(identity), verify, values, hashes});
}

}  // namespace
}  // namespace bushel

NB_MODULE(_native, m) {
  using namespace bushel;
  m.doc() = "The C++ core of bushel.";
  nb::set_leak_warnings(false);  // what a script still holds when Python ends is no leak
  m.def("crc32c", [](nb::handle data) { return crc32c(View(data).bytes()); }, "data"_a, "CRC-32C of `data`, unmasked.");
  m.def("crc32c_engine", &crc32c_engine, "How checksums are computed here: sse4.2, armv8 or table.");
  m.def(
      "xxh64", [](nb::handle data, std::uint64_t seed) { return xxh64(View(data).bytes(), seed); }, "data"_a,
      "seed"_a = 0, "XXH64 of `data`.");
  m.def("hash_column", &hash_column, "offsets"_a, "data"_a, "seed"_a = 0, "XXH64 of each row of a bytes column.");
  m.def("scan", &scan_file, "file"_a, "begin"_a, "max_records"_a, "max_bytes"_a,
        "(extents of the records from byte `begin` on, fault that stopped it, where it stopped).");
  m.def("verify", &verify_records, "file"_a, "extents"_a, "threads"_a,
        "(row, fault, -1) of each record that does not hold what it should.");
  m.def("resynchronise", &resynchronise_file, "file"_a, "begin"_a,
        "First offset from `begin` on where a whole record stands; the file's size if none does.");
  m.def("decode", &decode_records, "file"_a, "extents"_a, "names"_a, "verify"_a = true, "threads"_a = 1,
        "note_others"_a = false,
        "(columns, faults, names not asked for) of the features `names`, each (name, is a feature list, kind).");
  m.def("encode", &encode_columns, "columns"_a, "rows"_a, "threads"_a, "order"_a = nb::none(),
        "(pieces of framed records, lengths), or the number of a record that is too large. Record i is row i, or row "
        "order[i].");
  m.def("order_of", &order_of, "keys"_a, "threads"_a, "The order that sorts `keys`; equal ones stay as they are.");
  m.def("gather", &gather_ranges, "pieces"_a, "which"_a, "starts"_a, "lengths"_a,
        "Ranges of several buffers, one behind the other.");
  m.def("read_files", &read_files, "folder"_a, "offsets"_a, "data"_a, "sizes"_a, "threads"_a,
        "(the files below `folder` whose paths are a bytes column, one behind the other; of each 0, an errno, or -1 if "
        "it has another size).");
  m.def("jpeg_headers", &jpeg_headers, "offsets"_a, "data"_a,
        "Height, width and channels of each plain JPEG of a bytes column; zeros of what is none.");
  m.def("frame", &frame_data, "data"_a, "`data` as a record.");
  m.def("parse", &parse_message, "data"_a, "(features, feature lists) of one message, or None if it is malformed.");
  nb::class_<PySampleEncoder>(m, "SampleEncoder", "Encodes samples whose features it was told.")
      .def(nb::init<>())
      .def("add", &PySampleEncoder::add, "name"_a, "kind"_a, "shape"_a, "required"_a, "Adds or replaces a feature.")
      .def("encode", &PySampleEncoder::encode, "sample"_a, "The framed record, or why there is none.")
      .def("narrowings", &PySampleEncoder::narrowings, "What float32 did not hold exactly.");
  nb::class_<Survey>(m, "Survey", "Facts about the features of records.")
      .def(nb::init<>())
      .def("add", &add_to_survey, "file"_a, "extents"_a, "verify"_a,
           "Looks at more records; (row, fault, feature) of those at fault.")
      .def("result", &survey_result, "The facts so far.");
  m.def("permute", &permute, "positions"_a, "size"_a, "key"_a,
        "Where each position of 0 .. size - 1 goes in the permutation chosen by `key`.");
  nb::class_<PyMapping>(m, "Mapping", "Files mapped behind each other; [(path, size)].")
      .def(nb::init<nb::sequence, bool>(), "files"_a, "own"_a = false)
      .def_prop_ro("starts", &PyMapping::starts, "Where each file begins in the memory.")
      .def_prop_ro("memory", &memory_of, "All of them as one array of bytes, which keeps the mapping.");
  nb::class_<PyShards>(m, "Shards", "Records of mapped shards by number; [(offsets, lengths, start)].")
      .def(nb::init<nb::object, nb::sequence>(), "mapping"_a, "indexes"_a)
      .def("__len__", &PyShards::records)
      .def("extents", &PyShards::extents, "rows"_a, "Where in the mapping the records are.")
      .def("decode", &PyShards::decode_rows, "rows"_a, "names"_a, "verify"_a = true,
           "(columns, faults, seconds it took to have the records in memory) of the features `names`.");
  nb::class_<PyPool>(m, "Pool", "Keeps up to `most` buffers that nothing holds any more, to use them again.")
      .def(nb::init<std::size_t>(), "most"_a)
      .def("empty", &PyPool::empty, "size"_a, "So many bytes, not filled, aligned to 64.");
  m.def("pad", &pad_rows, "values"_a, "splits"_a, "length"_a, "fill"_a,
        "(values, mask), flat, of rows cut or filled up to `length`.");
  m.def("pack", &pack_lengths, "lengths"_a, "capacity"_a, "(bin of each row, number of bins).");
  m.def("lay_out", &lay_out_rows, "values"_a, "splits"_a, "bins"_a, "count"_a, "length"_a, "fill"_a,
        "(values, segments, positions), flat, of rows laid side by side in their bins.");
  m.def("tokenise", &tokenise_texts, "offsets"_a, "data"_a, "unit"_a, "vocabulary"_a.none(), "length"_a,
        "(ids, splits, (tokens, unknown, rows cut, tokens cut)); splits is None where there is a length, -1 is none.");
  m.def("lower_ascii", &lower_texts, "offsets"_a, "data"_a,
        "(data with ASCII letters made small, rows that hold more).");
  m.def("first_not_utf8", &find_not_utf8, "offsets"_a, "data"_a, "The first such row; the number of rows if none is.");
  m.def("word_ranges", [] { return to_list(word_ranges()); }, "First and last of the characters that make words.");
  m.def(
      "space_ranges", [] { return to_list(space_ranges()); }, "First and last of the characters that are whitespace.");
  nb::class_<Vocabulary>(m, "Vocabulary", "The ids of tokens: 2 and up, in the order given; 1 is any other.")
      .def("__init__", &make_vocabulary, "offsets"_a, "data"_a)
      .def("__len__", &Vocabulary::size);
  nb::class_<TermCounter>(m, "TermCounter", "How often each term occurs, and in how many texts.")
      .def("__init__", &make_counter, "unit"_a, "shortest"_a = 1, "longest"_a = 1)
      .def("add", &count_terms, "offsets"_a, "data"_a, "Counts the terms of more texts.")
      .def("add_counts", &add_term_counts, "offsets"_a, "data"_a, "counts"_a, "texts"_a,
           "Takes over what was counted elsewhere.")
      .def("ranked", &ranked_terms, "(offsets, data, counts, texts), most frequent first, then by code point.")
      .def("__len__", &TermCounter::size);
  m.def("weigh_terms", &weigh_texts, "offsets"_a, "data"_a, "unit"_a, "ngrams"_a, "vocabulary"_a, "weights"_a, "norm"_a,
        "sublinear"_a, "binary"_a, "(indices, values, splits) of counts times weights.");
  m.def("hash_terms", &hash_texts, "offsets"_a, "data"_a, "unit"_a, "ngrams"_a, "size"_a, "is_signed"_a, "norm"_a,
        "binary"_a, "(indices, values, splits) of counts by hash.");
  nb::enum_<Kernel>(m, "Kernel", "How values between pixels are made.")
      .value("BILINEAR", Kernel::kBilinear)
      .value("AREA", Kernel::kArea)
      .value("BICUBIC", Kernel::kBicubic);
  m.def("resize_to_bytes", &resize_image<std::uint8_t, std::uint8_t>, "image"_a, "height"_a, "width"_a,
        "antialias"_a = false, "kernel"_a = Kernel::kBilinear,
        "A uint8 image of height x width x channels, resized and rounded.");
  m.def("resize_to_floats", &resize_image<std::uint8_t, float>, "image"_a, "height"_a, "width"_a, "antialias"_a = false,
        "kernel"_a = Kernel::kBilinear, "A uint8 image, resized, as float32.");
  m.def("resize_floats", &resize_image<float, float>, "image"_a, "height"_a, "width"_a, "antialias"_a = false,
        "kernel"_a = Kernel::kBilinear, "A float32 image, resized.");
  constexpr auto into = "An image resized into `out`, which other threads see when this returns.";
  m.def("resize_into", &resize_image_into<std::uint8_t, std::uint8_t>, "image"_a.noconvert(), "out"_a.noconvert(),
        "antialias"_a, "kernel"_a = Kernel::kBilinear, into);
  m.def("resize_into", &resize_image_into<std::uint8_t, float>, "image"_a.noconvert(), "out"_a.noconvert(),
        "antialias"_a, "kernel"_a = Kernel::kBilinear, into);
  m.def("resize_into", &resize_image_into<float, float>, "image"_a.noconvert(), "out"_a.noconvert(), "antialias"_a,
        "kernel"_a = Kernel::kBilinear, into);
  nb::class_<Profile>(m, "Profile", "All that checks need to know of records, from one pass.")
      .def("__init__", &make_profile, "columns"_a, "identity"_a, "verify"_a, "values"_a, "hashes"_a)
      .def("add", &add_to_profile, "file"_a, "extents"_a, "file_id"_a, "first"_a,
           "Looks at more records; (faults, columns asked for, hashes of contents).")
      .def("merge", &Profile::merge, "other"_a, "Takes over what another profile has seen.")
      .def("save", &save_profile, "What was seen so far, for another process.")
      .def("merge_saved", &merge_saved, "saved"_a, "Takes over what a profile of another process has saved.")
      .def("result", &profile_result, "What was seen so far.");
  m.def("simulate_order", &simulate_order, "labels"_a, "classes"_a, "buffer"_a, "batch"_a, "seed"_a,
        "(classes in a batch, share of batches of one class, batches) behind a shuffle buffer. `labels` must be codes "
        "below `classes`.");
}
