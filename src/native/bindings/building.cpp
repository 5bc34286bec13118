// What a build needs: files read whole, and samples put in order.
#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "sort.h"
#include "wholes.h"

namespace bushel {
namespace {

nb::object order_of(const nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>& keys,
                    std::size_t threads) {
  Buffer order(keys.shape(0) * sizeof(std::int64_t));
  {
    const Nogil nogil;
    sort_order({keys.data(), keys.shape(0)}, threads, order.as<std::int64_t>());
  }
  return to_array<std::int64_t>(std::move(order));
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

}  // namespace

void bind_building(nb::module_& m) {
  m.def("read_files", &read_files, "folder"_a, "offsets"_a, "data"_a, "sizes"_a, "threads"_a,
        "(the files below `folder` whose paths are a bytes column, one behind the other; of each 0, an errno, or -1 if "
        "it has another size).");
  m.def("order_of", &order_of, "keys"_a, "threads"_a, "The order that sorts `keys`; equal keys keep their order.");
}

}  // namespace bushel
