// One sample, as Python values, to a record.
#include <deque>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "sample.h"

namespace bushel {
namespace {

// Turns Python values into what SampleEncoder takes, and keeps their memory for one sample.
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

// One Python scalar, after the others of the same value; false if its type differs from theirs.
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
    doubles_.back().push_back(PyFloat_AsDouble(object));
    out.doubles = doubles_.back();
    return true;
  }
  Bytes text;
  if (PyBytes_Check(object)) {
    text = {reinterpret_cast<const std::uint8_t*>(PyBytes_AsString(object)),
            static_cast<std::size_t>(PyBytes_Size(object))};
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
  const bool is_list = PyList_Check(value.ptr());
  const auto item = is_list ? PyList_GetItem : PyTuple_GetItem;
  const Py_ssize_t size = is_list ? PyList_Size(value.ptr()) : PyTuple_Size(value.ptr());
  for (Py_ssize_t i = 0; i < size; ++i)
    if (!take(out, item(value.ptr(), i))) return false;
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

}  // namespace

void bind_samples(nb::module_& m) {
  nb::class_<PySampleEncoder>(m, "SampleEncoder", "Encodes samples of the features that were added.")
      .def(nb::init<>())
      .def("add", &PySampleEncoder::add, "name"_a, "kind"_a, "shape"_a, "required"_a, "Adds or replaces a feature.")
      .def("encode", &PySampleEncoder::encode, "sample"_a, "The framed record, or why there is none.")
      .def("narrowings", &PySampleEncoder::narrowings, "What float32 did not hold exactly.");
}

}  // namespace bushel
