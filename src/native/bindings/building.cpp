// What a build needs: files read whole, and samples put in order.
#include <nanobind/stl/optional.h>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "sort.h"
#include "wholes.h"

namespace bushel {
namespace {

using Hashes = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Memory = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object order_of(const Hashes& keys, std::size_t threads) {
  Buffer order(keys.shape(0) * sizeof(std::int64_t));
  {
    const Nogil nogil;
    sort_order({keys.data(), keys.shape(0)}, threads, order.as<std::int64_t>());
  }
  return to_array<std::int64_t>(std::move(order));
}

// Both fill arrays that are given, since large ones lie in files.
void order_drawn_rows(const Hashes& hashes, const std::optional<Int64s>& rows, std::uint64_t seed, std::size_t threads,
                      std::size_t at_once, const Out& out) {
  const Drawn drawn{{hashes.data(), hashes.shape(0)}, rows ? rows->data() : nullptr, out.shape(0)};
  if ((rows ? rows->shape(0) : hashes.shape(0)) != out.shape(0))
    throw nb::value_error("out must have one place per row");
  bool is_within;
  {
    const Nogil nogil;
    is_within = order_drawn(drawn, seed, {threads, at_once}, out.data());
  }
  if (!is_within) throw nb::index_error("rows must be below the number of hashes");
}

void invert_order(const Int64s& order, std::size_t threads, const Out& out) {
  bool is_within;
  {
    const Nogil nogil;
    is_within = invert({order.data(), order.shape(0)}, threads, {out.data(), out.shape(0)});
  }
  if (!is_within) throw nb::index_error("order must hold places of out");
}

nb::object repeated(const Hashes& hashes, std::size_t threads, std::size_t at_once) {
  std::vector<std::uint64_t> found;
  {
    const Nogil nogil;
    found = find_repeated({hashes.data(), hashes.shape(0)}, {threads, at_once});
  }
  return copy_to_array(found, {found.size()});
}

// (offsets, data)
nb::tuple number_keys(std::int64_t first, std::size_t count, nb::bytes prefix) {
  if (first < 0) throw nb::value_error("first must not be negative");
  if (count > static_cast<std::size_t>(INT64_MAX - first))
    throw nb::value_error("count must be such that keys fit int64");
  const Bytes before(static_cast<const std::uint8_t*>(prefix.data()), prefix.size());
  NumberKeys keys;
  {
    const Nogil nogil;
    keys = make_number_keys(static_cast<std::uint64_t>(first), count, before);
  }
  nb::object data = count == 0 ? copy_to_array<std::uint8_t>({}, {0}) : to_array<std::uint8_t>(std::move(keys.data));
  return nb::make_tuple(to_array<std::int64_t>(std::move(keys.offsets)), data);
}

// (bytes of all files, one after the other; a fault per file). `offsets` and `data` are the paths, below `folder`.
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
    const Nogil nogil;
    read_wholes(top, paths, lengths, threads, out.data(), faults.as<std::int32_t>());
  }
  return nb::make_tuple(to_array<std::uint8_t>(std::move(out)), to_array<std::int32_t>(std::move(faults)));
}

// None, or (number of the range that cannot be read, an errno or -1 if the file ends early).
nb::object read_file_ranges(nb::sequence paths, const Int64s& offsets, const Int64s& sizes, const Memory& out) {
  std::vector<std::string> held;
  for (const nb::handle path : paths) held.emplace_back(nb::cast<nb::bytes>(path).c_str());
  if (offsets.shape(0) != held.size() || sizes.shape(0) != held.size())
    throw nb::value_error("offsets and sizes must have one number per path");
  std::vector<FileRange> ranges;
  std::size_t total = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (offsets.data()[i] < 0 || sizes.data()[i] < 0) throw nb::value_error("offsets and sizes must not be negative");
    ranges.push_back(
        {held[i], static_cast<std::uint64_t>(offsets.data()[i]), static_cast<std::size_t>(sizes.data()[i])});
    total += ranges.back().size;
  }
  if (total > out.shape(0)) throw nb::value_error("out must have room for all ranges");
  std::int32_t fault = 0;
  std::size_t failed;
  {
    const Nogil nogil;
    failed = read_ranges(ranges, out.data(), fault);
  }
  if (failed == ranges.size()) return nb::none();
  return nb::make_tuple(failed, fault);
}

}  // namespace

void bind_building(nb::module_& m) {
  m.def("read_files", &read_files, "folder"_a, "offsets"_a, "data"_a, "sizes"_a, "threads"_a,
        "(the files below `folder` whose paths are a bytes column, one after the other; of each 0, an errno, or -1 if "
        "it has another size).");
  m.def("read_ranges", &read_file_ranges, "paths"_a, "offsets"_a, "sizes"_a, "out"_a.noconvert(),
        "Fill `out` with ranges of files, one after the other; paths are bytes. None, or (number of the range that "
        "cannot "
        "be read, an errno or -1 if the file ends early).");
  m.def("order_of", &order_of, "keys"_a, "threads"_a, "The order that sorts `keys`; equal keys keep their order.");
  m.def("order_drawn", &order_drawn_rows, "hashes"_a, "rows"_a.none(), "seed"_a, "threads"_a, "at_once"_a,
        "out"_a.noconvert(),
        "Fill `out` with the rows, all if they are None, by the XXH64 of their hashes; equal ones keep their order.");
  m.def("repeated", &repeated, "hashes"_a, "threads"_a, "at_once"_a, "The hashes that are there twice, in order.");
  m.def("number_keys", &number_keys, "first"_a, "count"_a, "prefix"_a,
        "(offsets, data) of the keys of rows that are numbered: a prefix and the digits.");
  m.def("invert", &invert_order, "order"_a, "threads"_a, "out"_a.noconvert(),
        "Set out[order[i]] to i, and the rest of `out` to -1.");
  m.def("give_back_buffers", &give_back_buffers, "Give the memory that is kept for the next buffers to the system.");
}

}  // namespace bushel
