// Mapped shards, their records by number, records in pieces of memory, and the order in which they are read.
#include "shards.h"

#include <cerrno>
#include <chrono>
#include <deque>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "gather.h"
#include "order.h"

namespace bushel {
namespace {

nb::object permute(const Int64s& positions, std::uint64_t size, std::uint64_t key) {
  const std::span<const std::int64_t> asked{positions.data(), positions.shape(0)};
  Buffer out(asked.size() * sizeof(std::int64_t));
  bool inside = true;
  {
    const Nogil nogil;
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

// Files mapped one after the other: [(path, size)].
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

// The records of mapped shards, by one number over all of them: [(offsets, lengths, start in the mapping)].
class PyShards {
 public:
  PyShards(nb::object mapping, nb::sequence indexes)
      : mapping_(mapping), memory_(nb::cast<PyMapping&>(mapping).mapping().bytes()), places_(take(indexes)) {}

  std::uint64_t records() const { return places_.records(); }

  nb::object extents(const Int64s& rows) const {
    std::vector<Extent> found;
    {
      const Nogil nogil;
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
      const Nogil nogil;
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

constexpr const char* kNotWithin = "a range is not within its piece";

// Ranges of several buffers, held while they are used. `which`, `starts` and `lengths` have one number per range: its
// piece, and where it is in that piece.
class Ranges {
 public:
  Ranges(nb::sequence pieces, const Int64s& which, const Int64s& starts, const Int64s& lengths) {
    if (which.shape(0) != starts.shape(0) || which.shape(0) != lengths.shape(0))
      throw nb::value_error("which, starts and lengths must be as long as each other");
    for (const nb::handle piece : pieces) views_.push_back(held_.emplace_back(piece).bytes());
    for (std::size_t i = 0; i < which.shape(0); ++i) {
      if (lengths.data()[i] < 0) throw nb::index_error(kNotWithin);
      places_.push_back({static_cast<std::uint32_t>(which.data()[i]), static_cast<std::uint64_t>(starts.data()[i]),
                         static_cast<std::uint64_t>(lengths.data()[i])});
      size_ += places_.back().length;
    }
  }

  const std::vector<Bytes>& pieces() const { return views_; }
  const std::vector<Place>& places() const { return places_; }
  std::uint64_t size() const { return size_; }

 private:
  std::deque<View> held_;
  std::vector<Bytes> views_;
  std::vector<Place> places_;
  std::uint64_t size_ = 0;
};

nb::object gather_ranges(nb::sequence pieces, const Int64s& which, const Int64s& starts, const Int64s& lengths) {
  const Ranges ranges(pieces, which, starts, lengths);
  Buffer out;
  bool is_within = true;
  {
    const Nogil nogil;
    out = Buffer(ranges.size());
    is_within = gather(ranges.pieces(), ranges.places(), out.data());
  }
  if (!is_within) throw nb::index_error(kNotWithin);
  return to_array<std::uint8_t>(std::move(out));
}

// (offsets, data) of rows of several bytes columns, each (offsets, data).
nb::tuple gather_rows(nb::sequence columns, const Int64s& which, const Int64s& rows) {
  if (which.shape(0) != rows.shape(0)) throw nb::value_error("which must be as long as rows");
  std::vector<Int64s> held;
  std::deque<View> views;
  std::vector<std::span<const std::int64_t>> offsets;
  std::vector<Bytes> pieces;
  for (const nb::handle column : columns) {
    held.push_back(nb::cast<Int64s>(column[0]));
    offsets.emplace_back(held.back().data(), held.back().shape(0));
    pieces.push_back(views.emplace_back(column[1]).bytes());
  }
  const std::size_t count = rows.shape(0);
  Buffer ends((count + 1) * sizeof(std::int64_t)), data;
  bool is_within;
  {
    const Nogil nogil;
    std::vector<Place> places;
    is_within = find_rows(offsets, {which.data(), count}, {rows.data(), count}, places);
    std::int64_t end = *ends.as<std::int64_t>() = 0;
    for (std::size_t i = 0; i < places.size(); ++i)
      ends.as<std::int64_t>()[i + 1] = end += static_cast<std::int64_t>(places[i].length);
    data = Buffer(static_cast<std::size_t>(end));
    is_within = is_within && gather(pieces, places, data.data());
  }
  if (!is_within) throw nb::index_error("a row is not within its column");
  return nb::make_tuple(to_array<std::int64_t>(std::move(ends)), to_array<std::uint8_t>(std::move(data)));
}

// (columns, faults) of records that are not copied before, unless they are cut. `records` are their lengths.
nb::tuple decode_ranges(nb::sequence pieces, const Int64s& which, const Int64s& starts, const Int64s& lengths,
                        const Int64s& records, nb::sequence names) {
  const Ranges ranges(pieces, which, starts, lengths);
  const std::vector<Name> wanted = names_of(names);
  Decoded decoded;
  bool is_within = true;
  {
    const Nogil nogil;
    Scattered found;
    is_within = find_scattered(ranges.pieces(), ranges.places(), {records.data(), records.shape(0)}, found);
    if (is_within) decoded = decode(found.span, found.extents, wanted, {true, 1, false});
  }
  if (!is_within) throw nb::index_error(kNotWithin);
  nb::list columns;
  for (Column& column : decoded.columns) columns.append(to_dict(std::move(column)));
  return nb::make_tuple(columns, to_list(decoded.faults));
}

}  // namespace

void bind_shards(nb::module_& m) {
  m.def("permute", &permute, "positions"_a, "size"_a, "key"_a,
        "Where each position of 0 .. size - 1 goes in the permutation chosen by `key`.");
  m.def("gather", &gather_ranges, "pieces"_a, "which"_a, "starts"_a, "lengths"_a,
        "Ranges of several buffers, one after the other.");
  m.def("gather_rows", &gather_rows, "columns"_a, "which"_a, "rows"_a,
        "(offsets, data) of a bytes column: row rows[i] of the column which[i], each (offsets, data).");
  m.def("decode_ranges", &decode_ranges, "pieces"_a, "which"_a, "starts"_a, "lengths"_a, "records"_a, "names"_a,
        "(columns, faults) of framed records of the lengths `records`, which are these ranges of several buffers.");
  nb::class_<PyMapping>(m, "Mapping", "Files mapped one after the other; [(path, size)].")
      .def(nb::init<nb::sequence, bool>(), "files"_a, "own"_a = false)
      .def_prop_ro("starts", &PyMapping::starts, "Where each file begins in the memory.")
      .def_prop_ro("memory", &memory_of, "All of them as one array of bytes, which keeps the mapping.");
  nb::class_<PyShards>(m, "Shards", "Records of mapped shards by number; [(offsets, lengths, start)].")
      .def(nb::init<nb::object, nb::sequence>(), "mapping"_a, "indexes"_a)
      .def("__len__", &PyShards::records)
      .def("extents", &PyShards::extents, "rows"_a, "Where in the mapping the records are.")
      .def("decode", &PyShards::decode_rows, "rows"_a, "names"_a, "verify"_a = true,
           "(columns, faults, seconds it took to have the records in memory) of the features `names`.");
}

}  // namespace bushel
