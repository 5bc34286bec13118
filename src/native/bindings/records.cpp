// Records as bytes: checksums, framing, and one message as Python values.
#include <algorithm>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "crc32c.h"
#include "example.h"
#include "hash.h"
#include "record.h"
#include "threads.h"

namespace bushel {
namespace {

nb::tuple scan_file(nb::handle file, std::uint64_t begin, std::uint64_t max_records, std::uint64_t max_bytes) {
  const View view(file);
  Scan found;
  {
    const Nogil nogil;
    found = scan(view.bytes(), begin, max_records, max_bytes);
  }
  return nb::make_tuple(copy_to_array(found.extents, {found.extents.size(), 2}), static_cast<int>(found.fault),
                        found.end);
}

nb::list verify_records(nb::handle file, const Extents& extents, std::size_t threads) {
  const View view(file);
  std::vector<std::vector<RowFault>> faults(std::max<std::size_t>(threads, 1));
  {
    const Nogil nogil;
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
  const Nogil nogil;
  return resynchronise(view.bytes(), begin);
}

nb::object frame_data(nb::handle data) {
  const View view(data);
  const Bytes bytes = view.bytes();
  PyObject* made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(kHeader + bytes.size() + kFooter));
  if (!made) throw nb::python_error();
  auto* out = reinterpret_cast<std::uint8_t*>(PyBytes_AsString(made));
  if (!bytes.empty()) std::memcpy(out + kHeader, bytes.data(), bytes.size());
  frame(out, bytes.size());
  return nb::steal(made);
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

std::uint32_t crc32c_after(nb::handle data, std::uint32_t before) {
  const View view(data);
  return crc32c_joined(before, crc32c(view.bytes()), view.bytes().size());
}

nb::object framing_of(nb::handle file, const Offsets& offsets, const Lengths& lengths) {
  const std::size_t count = offsets.shape(0);
  if (count != lengths.shape(0)) throw nb::value_error("offsets and lengths must be as long as each other");
  const View view(file);
  Buffer out(count * (kHeader + kFooter));
  bool is_within;
  {
    const Nogil nogil;
    is_within = copy_framing(view.bytes(), {offsets.data(), count}, {lengths.data(), count}, out.data());
  }
  return is_within ? to_array<std::uint8_t>(std::move(out)) : nb::none();
}

}  // namespace

void bind_records(nb::module_& m) {
  m.def("crc32c", &crc32c_after, "data"_a, "before"_a = 0,
        "CRC-32C of `data`, unmasked, or of what has the checksum `before` and then `data`.");
  m.def("crc32c_engine", &crc32c_engine, "How checksums are computed here: sse4.2, armv8 or table.");
  m.def(
      "xxh64", [](nb::handle data, std::uint64_t seed) { return xxh64(View(data).bytes(), seed); }, "data"_a,
      "seed"_a = 0, "XXH64 of `data`.");
  m.def("scan", &scan_file, "file"_a, "begin"_a, "max_records"_a, "max_bytes"_a,
        "(extents of the records from byte `begin` on, fault that stopped it, where it stopped).");
  m.def("verify", &verify_records, "file"_a, "extents"_a, "threads"_a,
        "(row, fault, -1) of each record that does not hold what it should.");
  m.def("resynchronise", &resynchronise_file, "file"_a, "begin"_a,
        "First offset from `begin` on where there is a whole record; the size of the file if there is none.");
  m.def("framing", &framing_of, "file"_a, "offsets"_a, "lengths"_a,
        "Header and footer of each record, one after the other; None if a record is not within the file.");
  m.def("frame", &frame_data, "data"_a, "`data` as a record.");
  m.def("parse", &parse_message, "data"_a, "(features, feature lists) of one message, or None if it is malformed.");
}

}  // namespace bushel
