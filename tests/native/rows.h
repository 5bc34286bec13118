// Decoded columns as text, row by row: what tests compare, whatever the layout in memory.
#pragma once

#include <string>

#include "columns.h"
#include "encode.h"

namespace rows {

using namespace bushel;

// What columns.h promises of the arrays of a column.
inline bool is_sound(const Column& column) {
  const auto splits_hold = [](const Buffer& splits, std::size_t count, std::size_t last) {
    const std::int64_t* at = splits.as<std::int64_t>();
    if (splits.size() != (count + 1) * sizeof *at || at[0] != 0) return false;
    for (std::size_t i = 0; i < count; ++i)
      if (at[i] > at[i + 1]) return false;
    return at[count] == static_cast<std::int64_t>(last);
  };
  if (column.uniform && column.width * column.rows != column.values) return false;
  if (!column.uniform && column.rows > 0 && !splits_hold(column.splits, column.rows, column.values)) return false;
  if (column.present.data() && column.present.size() != column.rows) return false;
  if (column.kind == Kind::bytes) return splits_hold(column.ends, column.values, column.data.size());
  if (column.kind == Kind::floats) return column.numbers.size() >= column.values * sizeof(float);
  if (column.kind == Kind::int64s) return column.numbers.size() >= column.values * sizeof(std::int64_t);
  return column.values == 0;
}

inline std::string value(const Column& column, std::size_t i) {
  if (column.kind == Kind::bytes) {
    const std::int64_t* ends = column.ends.as<std::int64_t>();
    const auto* data = reinterpret_cast<const char*>(column.data.data());
    return "<" + std::string(data + ends[i], data + ends[i + 1]) + ">";
  }
  if (column.kind == Kind::int64s) return std::to_string(column.numbers.as<std::int64_t>()[i]) + ",";
  return std::to_string(load32(column.numbers.data() + 4 * i)) + "f,";
}

inline std::string feature(const Column& column, std::size_t row) {
  if (column.kind == Kind::none || (column.present.data() && !column.present.data()[row])) return "absent;";
  std::size_t begin = row * column.width, end = begin + column.width;
  if (!column.uniform) {
    begin = static_cast<std::size_t>(column.splits.as<std::int64_t>()[row]);
    end = static_cast<std::size_t>(column.splits.as<std::int64_t>()[row + 1]);
  }
  std::string out = std::to_string(static_cast<int>(column.kind)) + "[";
  for (std::size_t i = begin; i < end; ++i) out += value(column, i);
  return out + "];";
}

inline std::string cell(const Column& column, bool sequence, std::size_t row) {
  if (!sequence) return feature(column, row);
  const std::int64_t* steps = column.step_splits.as<std::int64_t>();
  std::string out = "{";
  for (std::int64_t i = steps[row]; i < steps[row + 1]; ++i) out += feature(column, static_cast<std::size_t>(i));
  return out + "};";
}

// One text a record. A row at fault is its fault, and the column it is in.
inline std::vector<std::string> of(const Decoded& decoded, const std::vector<Name>& names, std::size_t records) {
  std::vector<std::string> out(records);
  for (std::size_t c = 0; c < names.size(); ++c)
    for (std::size_t row = 0; row < records; ++row) out[row] += cell(decoded.columns[c], names[c].sequence, row);
  for (const RowFault& fault : decoded.faults)
    out[fault.row] = "fault " + std::to_string(static_cast<int>(fault.fault)) + " in " + std::to_string(fault.column);
  return out;
}

// A decoded column as one to encode; it must outlive the view.
inline ColumnView view(const Column& column, const Name& name) {
  ColumnView view;
  view.name = name.text;
  view.sequence = name.sequence;
  view.kind = column.kind;
  view.ints = column.numbers.as<std::int64_t>();
  view.floats = column.numbers.as<float>();
  view.ends = column.ends.as<std::int64_t>();
  view.data = column.data.data();
  view.splits = column.uniform ? nullptr : column.splits.as<std::int64_t>();
  view.width = column.width;
  view.present = column.present.data();
  view.step_splits = column.step_splits.as<std::int64_t>();
  return view;
}

inline std::string bytes_of(const Encoded& encoded) {
  std::string out;
  for (const Piece& piece : encoded.pieces) out.append(reinterpret_cast<const char*>(piece.memory.data()), piece.size);
  return out;
}

inline Decoded decode_all(Bytes file, const std::vector<Name>& names, std::size_t threads = 1, bool verify = true) {
  const Scan found = scan(file, 0, UINT64_MAX, UINT64_MAX);
  return decode(file, found.extents, names, {verify, threads, false});
}

}  // namespace rows
