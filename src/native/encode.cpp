#include "encode.h"

#include <algorithm>
#include <string>

#include "threads.h"

namespace bushel {

namespace {

constexpr std::size_t kMaxVarint = 10, kMaxLength = 5;

std::size_t field_size(std::size_t length) { return 1 + varint_size(length) + length; }

std::uint8_t* write_field(std::uint8_t* out, std::uint32_t field, std::size_t length) {
  *out++ = static_cast<std::uint8_t>(tag(field, WireType::length));
  return write_varint(out, length);
}

std::uint8_t* write_raw(std::uint8_t* out, const void* data, std::size_t size) {
  if (size != 0) std::memcpy(out, data, size);
  return out + size;
}

// Values of a row, or steps of a record.
struct Run {
  std::size_t begin, end;
  std::size_t count() const { return end - begin; }
};

Run run_of(const std::int64_t* splits, std::size_t row) {
  return {static_cast<std::size_t>(splits[row]), static_cast<std::size_t>(splits[row + 1])};
}

inline Run values_of(const ColumnView& column, std::size_t row) {
  return column.splits ? run_of(column.splits, row) : Run{row * column.width, (row + 1) * column.width};
}

inline bool is_present(const ColumnView& column, std::size_t row) {
  return !column.present || column.present[row] != 0;
}

std::size_t bytes_size(const ColumnView& column, std::size_t value) {
  return static_cast<std::size_t>(column.ends[value + 1] - column.ends[value]);
}

// Of what stands in a list: the packed numbers alone, or the values of a BytesList with their tags.
inline std::size_t payload_size(const ColumnView& column, Run values) {
  if (column.kind == Kind::floats) return values.count() * sizeof(float);
  std::size_t size = 0;
  if (column.kind == Kind::int64s) {
    for (std::size_t i = values.begin; i < values.end; ++i)
      size += varint_size(static_cast<std::uint64_t>(column.ints[i]));
  } else {
    for (std::size_t i = values.begin; i < values.end; ++i) size += field_size(bytes_size(column, i));
  }
  return size;
}

inline std::size_t list_size(const ColumnView& column, std::size_t payload) {
  return column.kind == Kind::bytes || payload == 0 ? payload : field_size(payload);
}

inline std::size_t feature_size(const ColumnView& column, std::size_t payload) {
  return field_size(list_size(column, payload));
}

std::uint8_t* write_payload(std::uint8_t* out, const ColumnView& column, Run values) {
  if (column.kind == Kind::floats) return write_raw(out, column.floats + values.begin, values.count() * sizeof(float));
  if (column.kind == Kind::int64s) {
    for (std::size_t i = values.begin; i < values.end; ++i)
      out = write_varint_unbranched(out, static_cast<std::uint64_t>(column.ints[i]));
    return out;
  }
  for (std::size_t i = values.begin; i < values.end; ++i) {
    const std::size_t size = bytes_size(column, i);
    out = write_raw(write_field(out, 1, size), column.data + column.ends[i], size);
  }
  return out;
}

inline std::uint8_t* write_feature(std::uint8_t* out, const ColumnView& column, Run values, std::size_t payload) {
  out = write_field(out, static_cast<std::uint32_t>(column.kind), list_size(column, payload));
  if (column.kind != Kind::bytes && payload != 0) out = write_field(out, 1, payload);
  return write_payload(out, column, values);
}

// Of a step, which holds a Feature without a kind where it is not present.
std::size_t step_size(const ColumnView& column, std::size_t step) {
  return is_present(column, step) ? feature_size(column, payload_size(column, values_of(column, step))) : 0;
}

std::size_t steps_size(const ColumnView& column, std::size_t record) {
  const Run steps = run_of(column.step_splits, record);
  std::size_t size = 0;
  for (std::size_t step = steps.begin; step < steps.end; ++step) size += field_size(step_size(column, step));
  return size;
}

std::uint8_t* write_steps(std::uint8_t* out, const ColumnView& column, std::size_t record) {
  const Run steps = run_of(column.step_splits, record);
  for (std::size_t step = steps.begin; step < steps.end; ++step) {
    out = write_field(out, 1, step_size(column, step));
    if (!is_present(column, step)) continue;
    const Run values = values_of(column, step);
    out = write_feature(out, column, values, payload_size(column, values));
  }
  return out;
}

// A column, what stands before its value in every entry, and its sizes in the record at hand.
struct Writer {
  ColumnView column;
  std::string key;       // tag and length, the name, the tag of the value
  bool written = false;  // columns are left out of records that do not have them; feature lists are always there
  std::size_t payload = 0;
  std::size_t value = 0;  // the Feature, or the FeatureList

  explicit Writer(const ColumnView& view) : column(view) {
    std::uint8_t length[kMaxVarint];
    std::uint8_t* const end = write_varint(length, view.name.size());
    key.push_back(static_cast<char>(tag(1, WireType::length)));
    key.append(length, end).append(view.name);
    key.push_back(static_cast<char>(tag(2, WireType::length)));
  }

  void measure(std::size_t row) {
    written = column.sequence || is_present(column, row);
    if (column.sequence) {
      value = steps_size(column, row);
    } else if (written) {
      payload = payload_size(column, values_of(column, row));
      value = feature_size(column, payload);
    }
  }

  std::size_t entry_size() const { return key.size() + varint_size(value) + value; }

  std::uint8_t* write(std::uint8_t* out, std::size_t row) const {
    out = write_field(out, 1, entry_size());
    out = write_varint(write_raw(out, key.data(), key.size()), value);
    return column.sequence ? write_steps(out, column, row)
                           : write_feature(out, column, values_of(column, row), payload);
  }
};

// What rows [begin, end) of a column take at the most.
std::size_t bound(const Writer& writer, Range rows) {
  const ColumnView& column = writer.column;
  constexpr std::size_t kTagsAndLengths = 4 * (1 + kMaxLength);
  std::size_t features = rows.end - rows.begin;
  Run steps = {rows.begin, rows.end};
  if (column.sequence) {
    steps = {run_of(column.step_splits, rows.begin).begin, run_of(column.step_splits, rows.end - 1).end};
    features += steps.count();
  }
  if (steps.count() == 0) return features * (writer.key.size() + kTagsAndLengths);
  const Run values = {values_of(column, steps.begin).begin, values_of(column, steps.end - 1).end};
  std::size_t payload = values.count() * (column.kind == Kind::floats ? sizeof(float) : 1 + kMaxVarint);
  if (column.kind == Kind::bytes)
    payload += static_cast<std::size_t>(column.ends[values.end] - column.ends[values.begin]);
  return features * (writer.key.size() + kTagsAndLengths) + payload;
}

// Encodes one record after another into one piece.
class RangeEncoder {
 public:
  explicit RangeEncoder(const std::vector<ColumnView>& columns) {
    for (const ColumnView& column : columns) (column.sequence ? lists_ : features_).emplace_back(column);
  }

  // False if `row`, which is set then, is too large.
  bool run(Range rows, std::uint64_t* lengths, Piece& out, std::size_t& row) {
    std::size_t size = (rows.end - rows.begin) * (kHeader + kFooter + 2 * (1 + kMaxVarint)) + kMaxVarint;
    for (const Writer& writer : features_) size += bound(writer, rows);
    for (const Writer& writer : lists_) size += bound(writer, rows);
    out.memory = Buffer(size);
    std::uint8_t* at = out.memory.data();
    for (row = rows.begin; row < rows.end; ++row) {
      const std::size_t features = measure(features_, row), lists = measure(lists_, row);
      const std::size_t length = (features ? field_size(features) : 0) + (lists ? field_size(lists) : 0);
      if (length > kMaxRecord) return false;
      std::uint8_t* const end = write_map(write_map(at + kHeader, 1, features_, features, row), 2, lists_, lists, row);
      frame(at, length);
      lengths[row] = length;
      at = end + kFooter;
    }
    out.size = static_cast<std::size_t>(at - out.memory.data());
    return true;
  }

 private:
  static std::size_t measure(std::vector<Writer>& writers, std::size_t row) {
    std::size_t size = 0;
    for (Writer& writer : writers) {
      writer.measure(row);
      if (writer.written) size += field_size(writer.entry_size());
    }
    return size;
  }

  static std::uint8_t* write_map(std::uint8_t* out, std::uint32_t field, const std::vector<Writer>& writers,
                                 std::size_t size, std::size_t row) {
    if (size == 0) return out;
    out = write_field(out, field, size);
    for (const Writer& writer : writers)
      if (writer.written) out = writer.write(out, row);
    return out;
  }

  std::vector<Writer> features_, lists_;
};

}  // namespace

Encoded encode(std::vector<ColumnView> columns, std::size_t rows, std::size_t threads) {
  const auto before = [](const ColumnView& a, const ColumnView& b) { return a.name < b.name; };
  if (!std::is_sorted(columns.begin(), columns.end(), before)) std::sort(columns.begin(), columns.end(), before);
  Encoded out;
  out.lengths = Buffer(rows * sizeof(std::uint64_t));
  if (rows == 0) return out;
  const std::vector<Range> ranges = cut(rows, std::clamp<std::size_t>(threads, 1, rows));
  std::vector<std::size_t> too_large(ranges.size(), rows);
  out.pieces.resize(ranges.size());
  in_threads(ranges.size(), [&](std::size_t i) {
    std::size_t row = 0;
    if (!RangeEncoder(columns).run(ranges[i], out.lengths.as<std::uint64_t>(), out.pieces[i], row)) too_large[i] = row;
  });
  out.too_large_row = *std::min_element(too_large.begin(), too_large.end());
  out.too_large = out.too_large_row < rows;
  return out;
}

}  // namespace bushel
