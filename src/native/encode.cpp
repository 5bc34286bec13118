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
Range range_of(const std::int64_t* splits, std::size_t row) {
  return {static_cast<std::size_t>(splits[row]), static_cast<std::size_t>(splits[row + 1])};
}

inline Range values_of(const ColumnView& column, std::size_t row) {
  return column.splits ? range_of(column.splits, row) : Range{row * column.width, (row + 1) * column.width};
}

inline bool is_present(const ColumnView& column, std::size_t row) {
  return !column.present || column.present[row] != 0;
}

std::size_t bytes_size(const ColumnView& column, std::size_t value) {
  return static_cast<std::size_t>(column.ends[value + 1] - column.ends[value]);
}

// Size of the content of a list: only the packed numbers, or the values of a BytesList with their tags.
inline std::size_t payload_size(const ColumnView& column, Range values) {
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

std::uint8_t* write_payload(std::uint8_t* out, const ColumnView& column, Range values) {
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

inline std::uint8_t* write_feature(std::uint8_t* out, const ColumnView& column, Range values, std::size_t payload) {
  out = write_field(out, static_cast<std::uint32_t>(column.kind), list_size(column, payload));
  if (column.kind != Kind::bytes && payload != 0) out = write_field(out, 1, payload);
  return write_payload(out, column, values);
}

// Size of a step; one that is not present holds a Feature without a kind.
std::size_t step_size(const ColumnView& column, std::size_t step) {
  return is_present(column, step) ? feature_size(column, payload_size(column, values_of(column, step))) : 0;
}

std::size_t steps_size(const ColumnView& column, std::size_t record) {
  const Range steps = range_of(column.step_splits, record);
  std::size_t size = 0;
  for (std::size_t step = steps.begin; step < steps.end; ++step) size += field_size(step_size(column, step));
  return size;
}

std::uint8_t* write_steps(std::uint8_t* out, const ColumnView& column, std::size_t record) {
  const Range steps = range_of(column.step_splits, record);
  for (std::size_t step = steps.begin; step < steps.end; ++step) {
    out = write_field(out, 1, step_size(column, step));
    if (!is_present(column, step)) continue;
    const Range values = values_of(column, step);
    out = write_feature(out, column, values, payload_size(column, values));
  }
  return out;
}

// The bytes before the value of an entry, if they are the same for many records. All of them are copied, whatever
// their number: a copy of constant size is one instruction. The surplus is overwritten.
struct Prefix {
  static constexpr std::size_t kRoom = 32;
  std::uint8_t bytes[kRoom] = {};
  std::uint8_t size = 0;

  std::uint8_t* write(std::uint8_t* out) const {
    std::memcpy(out, bytes, kRoom);
    return out + size;
  }
};

// In most tables, the entries of a column are alike except for the value.
enum class Form { general, floats, one_int, one_text };

// A column, the bytes before its value in every entry, and its sizes in the current record.
struct Writer {
  ColumnView column;
  std::string key;  // tag and length, the name, the tag of the value
  Form form = Form::general;
  bool written = false;  // columns are left out of records that do not have them; feature lists are always there
  std::size_t payload = 0;
  std::size_t value = 0;        // the Feature, or the FeatureList
  Prefix prefix;                // of floats; of a text too short for a length of two bytes, without its lengths
  std::vector<Prefix> by_size;  // of one integer, by the bytes that it takes

  Writer(const ColumnView& view, std::size_t records) : column(view) {
    std::uint8_t length[kMaxVarint];
    std::uint8_t* const end = write_varint(length, view.name.size());
    key.push_back(static_cast<char>(tag(1, WireType::length)));
    key.append(length, end).append(view.name);
    key.push_back(static_cast<char>(tag(2, WireType::length)));
    if (records >= kManyRecords) choose_form();
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

  // Size of the whole field that holds the entry; 0 if there is none.
  std::size_t measure_field(std::size_t row) {
    if (form == Form::one_int) {
      payload = varint_size(static_cast<std::uint64_t>(column.ints[row]));
      return by_size[payload].size + payload;
    }
    if (form == Form::one_text) {
      payload = bytes_size(column, row);
      if (is_short(payload)) return prefix.size + payload;
      value = feature_size(column, field_size(payload));
      return field_size(entry_size());
    }
    measure(row);
    return written ? field_size(entry_size()) : 0;
  }

  std::uint8_t* write(std::uint8_t* out, std::size_t row) const {
    switch (form) {
      case Form::floats: {
        const std::size_t size = column.width * sizeof(float);
        const float* const values = column.floats + row * column.width;
        out = prefix.write(out);
        return size == sizeof(float) ? write_raw(out, values, sizeof(float)) : write_raw(out, values, size);
      }
      case Form::one_int:
        return write_varint_unbranched(by_size[payload].write(out), static_cast<std::uint64_t>(column.ints[row]));
      case Form::one_text:
        return write_text(out, row);
      case Form::general:
        break;
    }
    if (!written) return out;
    out = write_field(out, 1, entry_size());
    out = write_varint(write_raw(out, key.data(), key.size()), value);
    return column.sequence ? write_steps(out, column, row)
                           : write_feature(out, column, values_of(column, row), payload);
  }

 private:
  static constexpr std::size_t kManyRecords = 16;  // from which preparing pays off
  // After the key of a short text: its value, list and bytes, each a length of one byte after a tag, except the first.
  static constexpr std::size_t kTextLengths = 5;

  bool is_short(std::size_t text) const { return key.size() + kTextLengths + text < 0x80; }

  void choose_form() {
    if (column.sequence || column.splits || column.present || column.width == 0) return;
    if (column.kind == Kind::floats) {
      if (make_prefix(column.width * sizeof(float), prefix)) form = Form::floats;
    } else if (column.width != 1) {
      return;
    } else if (column.kind == Kind::int64s) {
      by_size.resize(kMaxVarint + 1);
      bool fits = true;
      for (std::size_t size = 1; size <= kMaxVarint; ++size) fits = fits && make_prefix(size, by_size[size]);
      if (fits) form = Form::one_int;
    } else if (2 + key.size() + kTextLengths <= Prefix::kRoom) {
      make_text_prefix();
      form = Form::one_text;
    }
  }

  // For numbers that take `size` bytes. False if it is too long.
  bool make_prefix(std::size_t size, Prefix& out) {
    payload = size;
    value = feature_size(column, payload);
    std::string made(key.size() + 6 * (1 + kMaxVarint), 0);
    auto* const begin = reinterpret_cast<std::uint8_t*>(made.data());
    std::uint8_t* at = write_field(begin, 1, entry_size());
    at = write_varint(write_raw(at, key.data(), key.size()), value);
    at = write_field(at, static_cast<std::uint32_t>(column.kind), list_size(column, payload));
    at = write_field(at, 1, payload);
    const auto length = static_cast<std::size_t>(at - begin);
    if (length > Prefix::kRoom) return false;
    std::memcpy(out.bytes, begin, length);
    out.size = static_cast<std::uint8_t>(length);
    return true;
  }

  void make_text_prefix() {
    std::uint8_t* at = prefix.bytes;
    *at++ = static_cast<std::uint8_t>(tag(1, WireType::length));
    at = write_raw(at + 1, key.data(), key.size()) + 1;
    *at = static_cast<std::uint8_t>(tag(static_cast<std::uint32_t>(Kind::bytes), WireType::length));
    at[2] = static_cast<std::uint8_t>(tag(1, WireType::length));
    prefix.size = static_cast<std::uint8_t>(2 + key.size() + kTextLengths);
  }

  std::uint8_t* write_text(std::uint8_t* out, std::size_t row) const {
    const std::uint8_t* const text = column.data + column.ends[row];
    if (!is_short(payload)) {
      out = write_field(out, 1, entry_size());
      out = write_varint(write_raw(out, key.data(), key.size()), value);
      return write_feature(out, column, values_of(column, row), field_size(payload));
    }
    std::uint8_t* const end = prefix.write(out);
    out[1] = static_cast<std::uint8_t>(key.size() + kTextLengths + payload);
    end[-5] = static_cast<std::uint8_t>(payload + 4);
    end[-3] = static_cast<std::uint8_t>(payload + 2);
    end[-1] = static_cast<std::uint8_t>(payload);
    return write_raw(end, text, payload);
  }
};

// The rows of records [begin, end).
struct Rows {
  Range records;
  const std::int64_t* order;

  std::size_t count() const { return records.end - records.begin; }
  std::size_t operator[](std::size_t record) const { return order ? static_cast<std::size_t>(order[record]) : record; }
};

// The most bytes that a row, or a range of rows, of a column can take.
std::size_t bound_of(const Writer& writer, Range rows) {
  const ColumnView& column = writer.column;
  constexpr std::size_t kTagsAndLengths = 4 * (1 + kMaxLength);
  std::size_t features = rows.end - rows.begin;
  Range steps = {rows.begin, rows.end};
  if (column.sequence) {
    steps = {range_of(column.step_splits, rows.begin).begin, range_of(column.step_splits, rows.end - 1).end};
    features += steps.count();
  }
  if (steps.count() == 0) return features * (writer.key.size() + kTagsAndLengths);
  const Range values = {values_of(column, steps.begin).begin, values_of(column, steps.end - 1).end};
  std::size_t payload = values.count() * (column.kind == Kind::floats ? sizeof(float) : 1 + kMaxVarint);
  if (column.kind == Kind::bytes)
    payload += static_cast<std::size_t>(column.ends[values.end] - column.ends[values.begin]);
  return features * (writer.key.size() + kTagsAndLengths) + payload;
}

std::size_t bound(const Writer& writer, const Rows& rows) {
  if (writer.form == Form::floats) return rows.count() * (writer.prefix.size + writer.column.width * sizeof(float));
  if (writer.form == Form::one_int) return rows.count() * (writer.by_size[kMaxVarint].size + kMaxVarint);
  if (!rows.order) return bound_of(writer, rows.records);
  std::size_t size = 0;
  for (std::size_t i = rows.records.begin; i < rows.records.end; ++i) {
    const std::size_t row = rows[i];
    size += bound_of(writer, {row, row + 1});
  }
  return size;
}

// Encodes one record after another into one piece.
class RangeEncoder {
 public:
  RangeEncoder(const std::vector<ColumnView>& columns, std::size_t records) {
    for (const ColumnView& column : columns) (column.sequence ? lists_ : features_).emplace_back(column, records);
    for (const Writer& writer : features_)
      if (writer.form == Form::floats) floats_size_ += writer.prefix.size + writer.column.width * sizeof(float);
  }

  // False if a record is too large; `at` is then its number.
  bool run(const Rows& rows, std::uint64_t* lengths, Piece& out, std::size_t& at) {
    std::size_t size = rows.count() * (kHeader + kFooter + 2 * (1 + kMaxVarint)) + kMaxVarint + Prefix::kRoom;
    for (const Writer& writer : features_) size += bound(writer, rows);
    for (const Writer& writer : lists_) size += bound(writer, rows);
    out.memory = Buffer(size);
    std::uint8_t* to = out.memory.data();
    for (at = rows.records.begin; at < rows.records.end; ++at) {
      const std::size_t row = rows[at];
      if (rows.order && at + kAhead < rows.records.end) fetch(rows[at + kAhead]);
      const std::size_t features = measure(features_, row) + floats_size_, lists = measure(lists_, row);
      const std::size_t length = (features ? field_size(features) : 0) + (lists ? field_size(lists) : 0);
      if (length > kMaxRecord) return false;
      std::uint8_t* const end = write_map(write_map(to + kHeader, 1, features_, features, row), 2, lists_, lists, row);
      frame(to, length);
      lengths[at] = length;
      to = end + kFooter;
    }
    out.size = static_cast<std::size_t>(to - out.memory.data());
    return true;
  }

 private:
  static constexpr std::size_t kAhead = 8;

  // Rows that are not in the order of memory are far apart: prefetch the next ones while this one is written.
  void fetch(std::size_t row) const {
    for (const Writer& writer : features_) {
      const ColumnView& column = writer.column;
      if (writer.form == Form::floats) __builtin_prefetch(column.floats + row * column.width);
      if (writer.form == Form::one_int) __builtin_prefetch(column.ints + row);
      if (writer.form == Form::one_text) __builtin_prefetch(column.ends + row);
    }
  }

  static std::size_t measure(std::vector<Writer>& writers, std::size_t row) {
    std::size_t size = 0;
    for (Writer& writer : writers)
      if (writer.form != Form::floats) size += writer.measure_field(row);
    return size;
  }

  static std::uint8_t* write_map(std::uint8_t* out, std::uint32_t field, const std::vector<Writer>& writers,
                                 std::size_t size, std::size_t row) {
    if (size == 0) return out;
    out = write_field(out, field, size);
    for (const Writer& writer : writers) out = writer.write(out, row);
    return out;
  }

  std::vector<Writer> features_, lists_;
  std::size_t floats_size_ = 0;  // of all columns whose entries have one size
};

}  // namespace

Encoded encode(std::vector<ColumnView> columns, std::size_t rows, std::size_t threads, const std::int64_t* order) {
  const auto before = [](const ColumnView& a, const ColumnView& b) { return a.name < b.name; };
  if (!std::is_sorted(columns.begin(), columns.end(), before)) std::sort(columns.begin(), columns.end(), before);
  Encoded out;
  out.lengths = Buffer(rows * sizeof(std::uint64_t));
  if (rows == 0) return out;
  const std::vector<Range> ranges = cut(rows, std::clamp<std::size_t>(threads, 1, rows));
  std::vector<std::size_t> too_large(ranges.size(), rows);
  out.pieces.resize(ranges.size());
  in_threads(ranges.size(), [&](std::size_t i) {
    std::size_t at = 0;
    RangeEncoder encoder(columns, ranges[i].end - ranges[i].begin);
    if (!encoder.run({ranges[i], order}, out.lengths.as<std::uint64_t>(), out.pieces[i], at)) too_large[i] = at;
  });
  out.too_large_row = *std::min_element(too_large.begin(), too_large.end());
  out.too_large = out.too_large_row < rows;
  return out;
}

}  // namespace bushel
