// Many records as columns, and columns as records.
#include "columns.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <charconv>
#include <deque>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "encode.h"
#include "hash.h"
#include "pause.h"
#include "threads.h"

namespace bushel {
namespace {

nb::tuple decode_records(nb::handle file, const Extents& extents, nb::sequence names, bool verify, std::size_t threads,
                         bool note_others) {
  const View view(file);
  const std::vector<Name> wanted = names_of(names);
  Decoded decoded;
  {
    const Nogil nogil;
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
    const Nogil nogil;
    encoded = encode(std::move(views), order ? order->shape(0) : rows, threads, order ? order->data() : nullptr);
  }
  if (encoded.too_large) return nb::int_(encoded.too_large_row);
  nb::list pieces;
  for (Piece& piece : encoded.pieces) pieces.append(to_array<std::uint8_t>(std::move(piece.memory), piece.size));
  return nb::make_tuple(pieces, to_array<std::uint64_t>(std::move(encoded.lengths)));
}

constexpr std::size_t kManyRows = std::size_t{1} << 16;  // for which threads pay

// Calls hash(i) for each of `rows` rows, in threads where there are many, and returns the hashes.
template <typename Hash>
nb::object hash_rows(std::size_t rows, std::size_t threads, Hash&& hash) {
  Buffer hashes(rows * sizeof(std::uint64_t));
  {
    const Nogil nogil;
    const std::vector<Range> parts = cut(rows, rows < kManyRows ? 1 : std::max<std::size_t>(threads, 1));
    in_threads(parts.size(), [&](std::size_t part) {
      for (std::size_t i = parts[part].begin; i < parts[part].end; ++i) hashes.as<std::uint64_t>()[i] = hash(i);
    });
  }
  return to_array<std::uint64_t>(std::move(hashes));
}

// `offsets` must be in order and within `data`, as those of a BytesColumn are.
nb::object hash_column(const Int64s& offsets, nb::handle data, std::uint64_t seed, std::size_t threads) {
  const View view(data);
  const std::size_t rows = offsets.shape(0) == 0 ? 0 : offsets.shape(0) - 1;
  return hash_rows(rows, threads, [&](std::size_t i) {
    const auto begin = static_cast<std::size_t>(offsets.data()[i]),
               end = static_cast<std::size_t>(offsets.data()[i + 1]);
    breathe(end - begin);
    return xxh64(view.bytes().subspan(begin, end - begin), seed);
  });
}

nb::object hash_words(nb::handle words, std::uint64_t seed, std::size_t threads) {
  const View view(words);
  return hash_rows(view.bytes().size() / 8, threads, [&](std::size_t i) {
    breathe(8);
    return xxh64(load64(view.bytes().data() + 8 * i), seed);
  });
}

// (offsets, data) of the decimal digits of each number, after a prefix.
nb::tuple digits_of(const Int64s& numbers, nb::bytes prefix) {
  constexpr std::size_t kMostDigits = 20;
  const std::string_view before(prefix.c_str(), prefix.size());
  const std::size_t count = numbers.shape(0);
  Buffer ends((count + 1) * sizeof(std::int64_t)), data(count * (before.size() + kMostDigits));
  char* const begin = data.as<char>();
  char* at = begin;
  {
    const Nogil nogil;
    ends.as<std::int64_t>()[0] = 0;
    for (std::size_t i = 0; i < count; ++i) {
      breathe(before.size() + kMostDigits);
      at = std::copy(before.begin(), before.end(), at);
      at = std::to_chars(at, at + kMostDigits, numbers.data()[i]).ptr;
      ends.as<std::int64_t>()[i + 1] = at - begin;
    }
  }
  const auto size = static_cast<std::size_t>(at - begin);
  return nb::make_tuple(to_array<std::int64_t>(std::move(ends)), to_array<std::uint8_t>(std::move(data), size));
}

}  // namespace

void bind_columns(nb::module_& m) {
  m.def("decode", &decode_records, "file"_a, "extents"_a, "names"_a, "verify"_a = true, "threads"_a = 1,
        "note_others"_a = false,
        "(columns, faults, names not asked for) of the features `names`, each (name, is a feature list, kind).");
  m.def("encode", &encode_columns, "columns"_a, "rows"_a, "threads"_a, "order"_a = nb::none(),
        "(pieces of framed records, lengths), or the number of a record that is too large. Record i is row i, or row "
        "order[i].");
  m.def("hash_column", &hash_column, "offsets"_a, "data"_a, "seed"_a = 0, "threads"_a = 1,
        "XXH64 of each row of a bytes column.");
  m.def("digits_of", &digits_of, "numbers"_a, "prefix"_a,
        "(offsets, data) of a bytes column: the decimal digits of each number, after a prefix.");
  m.def("hash_words", &hash_words, "words"_a, "seed"_a = 0, "threads"_a = 1, "XXH64 of each eight bytes.");
}

}  // namespace bushel
