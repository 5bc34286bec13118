// What batches are made of: reused memory, and rows padded and packed.
#include <memory>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "pad.h"
#include "pool.h"

namespace bushel {
namespace {

// Buffers that are reused, while this lives, once nothing holds their arrays any more.
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

// Whether an array is contiguous and begins at a multiple of 64 bytes; false too where it does not show its memory.
bool is_aligned(nb::handle array) {
  Py_buffer view{};
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    return false;
  }
  const bool found = reinterpret_cast<std::uintptr_t>(view.buf) % Buffer::kAlignment == 0;
  PyBuffer_Release(&view);
  return found;
}

// (address, bytes) of the large block that an array lies in, or None.
nb::object kept_block(nb::handle array) {
  const View view(array, PyBUF_C_CONTIGUOUS);
  const std::span<std::uint8_t> block = keep_block(view.bytes().data());
  if (block.empty()) return nb::none();
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(block.data()), block.size());
}

// (splits of the rows [begin, end), which begin with 0; where the values of these rows begin; and where they end)
nb::tuple cut_splits(const Int64s& splits, std::size_t begin, std::size_t end) {
  if (begin > end || end >= splits.shape(0)) throw nb::index_error("begin and end must be in order and within splits");
  const auto first = static_cast<std::uint64_t>(splits.data()[begin]);
  Buffer own((end - begin + 1) * sizeof(std::int64_t));
  for (std::size_t i = begin; i <= end; ++i)  // unsigned: splits that a file claims may be anything
    own.as<std::uint64_t>()[i - begin] = static_cast<std::uint64_t>(splits.data()[i]) - first;
  return nb::make_tuple(to_array<std::int64_t>(std::move(own)), splits.data()[begin], splits.data()[end]);
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
    const Nogil nogil;
    padded = pad(rows, length, filling.bytes().data());
  }
  return nb::make_tuple(to_array<std::uint8_t>(std::move(padded.values)), to_array<bool>(std::move(padded.mask)));
}

// (bin of each row, number of bins)
nb::tuple pack_lengths(const Int64s& lengths, std::int64_t capacity) {
  std::vector<std::int64_t> bin_of;
  std::int64_t bins = 0;
  {
    const Nogil nogil;
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
    const Nogil nogil;
    packed = lay_out(rows, {bins.data(), bins.shape(0)}, count, length, filling.bytes().data());
  }
  return nb::make_tuple(to_array<std::uint8_t>(std::move(packed.values)),
                        to_array<std::int32_t>(std::move(packed.segments)),
                        to_array<std::int32_t>(std::move(packed.positions)));
}

}  // namespace

void bind_batches(nb::module_& m) {
  nb::class_<PyPool>(m, "Pool", "Keeps up to `most` buffers that nothing holds any more, for reuse.")
      .def(nb::init<std::size_t>(), "most"_a)
      .def("empty", &PyPool::empty, "size"_a, "This many uninitialised bytes, aligned to 64.");
  m.def("is_aligned", &is_aligned, "array"_a, "Whether an array is contiguous and begins at a multiple of 64 bytes.");
  m.def("keep_block", &kept_block, "array"_a,
        "(address, bytes) of the large block of the core that an array lies in, which the system never gets back from "
        "now on; None if it lies elsewhere.");
  m.def("cut_splits", &cut_splits, "splits"_a, "begin"_a, "end"_a,
        "(splits of the rows [begin, end), from 0 on, and where their values begin and end).");
  m.def("pad", &pad_rows, "values"_a, "splits"_a, "length"_a, "fill"_a,
        "(values, mask), flat, of rows cut or filled up to `length`.");
  m.def("pack", &pack_lengths, "lengths"_a, "capacity"_a, "(bin of each row, number of bins).");
  m.def("lay_out", &lay_out_rows, "values"_a, "splits"_a, "bins"_a, "count"_a, "length"_a, "fill"_a,
        "(values, segments, positions), flat, of rows laid side by side in their bins.");
}

}  // namespace bushel
