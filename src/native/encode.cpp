#include "encode.h"

#include <algorithm>
#include <numeric>

#include "threads.h"

namespace bushel {

namespace {

std::size_t field_size(std::size_t length) { return 1 + varint_size(length) + length; }

std::uint8_t* write_field(std::uint8_t* out, std::uint32_t field, std::size_t length) {
  *out++ = static_cast<std::uint8_t>(tag(field, WireType::length));
  return write_varint(out, length);
}

std::uint8_t* write_raw(std::uint8_t* out, const void* data, std::size_t size) {
  if (size != 0) std::memcpy(out, data, size);
  return out + size;
}

struct Values {
  std::size_t begin, end;
  std::size_t count() const { return end - begin; }
};

Values values_of(const ColumnView& column, std::size_t row) {
  if (!column.splits) return {row * column.width, (row + 1) * column.width};
  return {static_cast<std::size_t>(column.splits[row]), static_cast<std::size_t>(column.splits[row + 1])};
}

bool is_present(const ColumnView& column, std::size_t row) { return !column.present || column.present[row] != 0; }

std::size_t bytes_size(const ColumnView& column, std::size_t value) {
  return static_cast<std::size_t>(column.ends[value + 1] - column.ends[value]);
}

// Of what stands in a list: the packed numbers alone, or the values of a BytesList with their tags.
std::size_t payload_size(const ColumnView& column, Values values) {
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

std::size_t list_size(const ColumnView& column, std::size_t payload) {
  return column.kind == Kind::bytes || payload == 0 ? payload : field_size(payload);
}

std::size_t feature_size(const ColumnView& column, std::size_t row) {
  if (!is_present(column, row)) return 0;
  return field_size(list_size(column, payload_size(column, values_of(column, row))));
}

std::uint8_t* write_payload(std::uint8_t* out, const ColumnView& column, Values values) {
  if (column.kind == Kind::floats) return write_raw(out, column.floats + values.begin, values.count() * sizeof(float));
  if (column.kind == Kind::int64s) {
    for (std::size_t i = values.begin; i < values.end; ++i)
      out = write_varint(out, static_cast<std::uint64_t>(column.ints[i]));
    return out;
  }
  for (std::size_t i = values.begin; i < values.end; ++i) {
    const std::size_t size = bytes_size(column, i);
    out = write_raw(write_field(out, 1, size), column.data + column.ends[i], size);
  }
  return out;
}

// Writes what feature_size() measured.
std::uint8_t* write_feature(std::uint8_t* out, const ColumnView& column, std::size_t row) {
  if (!is_present(column, row)) return out;
  const Values values = values_of(column, row);
  const std::size_t payload = payload_size(column, values);
  out = write_field(out, static_cast<std::uint32_t>(column.kind), list_size(column, payload));
  if (column.kind != Kind::bytes && payload != 0) out = write_field(out, 1, payload);
  return write_payload(out, column, values);
}

Values steps_of(const ColumnView& column, std::size_t row) {
  return {static_cast<std::size_t>(column.step_splits[row]), static_cast<std::size_t>(column.step_splits[row + 1])};
}

std::size_t value_size(const ColumnView& column, std::size_t row) {
  if (!column.sequence) return feature_size(column, row);
  std::size_t size = 0;
  const Values steps = steps_of(column, row);
  for (std::size_t step = steps.begin; step < steps.end; ++step) size += field_size(feature_size(column, step));
  return size;
}

std::uint8_t* write_value(std::uint8_t* out, const ColumnView& column, std::size_t row) {
  if (!column.sequence) return write_feature(out, column, row);
  const Values steps = steps_of(column, row);
  for (std::size_t step = steps.begin; step < steps.end; ++step)
    out = write_feature(write_field(out, 1, feature_size(column, step)), column, step);
  return out;
}

// A column is left out of records that do not have it; a feature list is always there.
bool is_written(const ColumnView& column, std::size_t row) { return column.sequence || is_present(column, row); }

class Encoder {
 public:
  explicit Encoder(std::vector<ColumnView> columns) : columns_(std::move(columns)) {
    const auto before = [](const ColumnView& a, const ColumnView& b) {
      return a.sequence != b.sequence ? b.sequence : a.name < b.name;
    };
    if (!std::is_sorted(columns_.begin(), columns_.end(), before)) std::sort(columns_.begin(), columns_.end(), before);
    first_list_ = static_cast<std::size_t>(
        std::find_if(columns_.begin(), columns_.end(), [](const ColumnView& c) { return c.sequence; }) -
        columns_.begin());
  }

  std::size_t record_size(std::size_t row) const {
    const std::size_t features = map_size(0, first_list_, row), lists = map_size(first_list_, columns_.size(), row);
    return (features ? field_size(features) : 0) + (lists ? field_size(lists) : 0);
  }

  void write_record(std::uint8_t* out, std::size_t row) const {
    if (const std::size_t features = map_size(0, first_list_, row))
      out = write_map(write_field(out, 1, features), 0, first_list_, row);
    if (const std::size_t lists = map_size(first_list_, columns_.size(), row))
      write_map(write_field(out, 2, lists), first_list_, columns_.size(), row);
  }

 private:
  static std::size_t entry_size(const ColumnView& column, std::size_t value) {
    return field_size(column.name.size()) + field_size(value);
  }

  std::size_t map_size(std::size_t begin, std::size_t end, std::size_t row) const {
    std::size_t size = 0;
    for (std::size_t c = begin; c < end; ++c)
      if (is_written(columns_[c], row)) size += field_size(entry_size(columns_[c], value_size(columns_[c], row)));
    return size;
  }

  std::uint8_t* write_map(std::uint8_t* out, std::size_t begin, std::size_t end, std::size_t row) const {
    for (std::size_t c = begin; c < end; ++c) {
      const ColumnView& column = columns_[c];
      if (!is_written(column, row)) continue;
      const std::size_t value = value_size(column, row);
      out = write_field(out, 1, entry_size(column, value));
      out = write_raw(write_field(out, 1, column.name.size()), column.name.data(), column.name.size());
      out = write_value(write_field(out, 2, value), column, row);
    }
    return out;
  }

  std::vector<ColumnView> columns_;
  std::size_t first_list_ = 0;
};

}  // namespace

Encoded encode(std::vector<ColumnView> columns, std::size_t rows, std::size_t threads) {
  const Encoder encoder(std::move(columns));
  Encoded out;
  out.lengths = Buffer(rows * sizeof(std::uint64_t));
  std::uint64_t* lengths = out.lengths.as<std::uint64_t>();
  const std::vector<Range> ranges = cut(rows, std::clamp<std::size_t>(threads, 1, std::max<std::size_t>(rows, 1)));
  std::vector<std::size_t> sizes(ranges.size() + 1, 0);
  in_threads(ranges.size(), [&](std::size_t i) {
    for (std::size_t row = ranges[i].begin; row < ranges[i].end; ++row) {
      lengths[row] = encoder.record_size(row);
      sizes[i + 1] += kHeader + lengths[row] + kFooter;
    }
  });
  const std::uint64_t* large = std::find_if(lengths, lengths + rows, [](std::uint64_t n) { return n > kMaxRecord; });
  if (large != lengths + rows) {
    out.too_large = true;
    out.too_large_row = static_cast<std::size_t>(large - lengths);
    return out;
  }
  std::partial_sum(sizes.begin(), sizes.end(), sizes.begin());
  out.bytes = Buffer(sizes.back());
  in_threads(ranges.size(), [&](std::size_t i) {
    std::uint8_t* at = out.bytes.data() + sizes[i];
    for (std::size_t row = ranges[i].begin; row < ranges[i].end; ++row) {
      encoder.write_record(at + kHeader, row);
      frame(at, lengths[row]);
      at += kHeader + lengths[row] + kFooter;
    }
  });
  return out;
}

}  // namespace bushel
