#include "columns.h"

#include <algorithm>
#include <memory>
#include <tuple>

#include "pause.h"
#include "threads.h"

namespace bushel {

namespace {

// What a column is expected to hold, judging by the first records. Rows that match are written straight to their place
// in the result; from the first row that does not, the rest of the part takes the general path.
struct Guess {
  Kind kind = Kind::none;
  std::size_t width = 0;
  bool dense = false;
  bool held = false;  // by every row: `numbers` became the result
  Buffer numbers;
};

// One column in one range of rows.
struct Part {
  std::size_t dense_rows = 0;         // written straight
  std::vector<Slice> slices;          // the Features of the rows, or steps, after those
  std::vector<std::uint32_t> counts;  // of their values
  std::vector<std::uint32_t> steps;   // of each row of a feature list
  Kind kind = Kind::none;
  bool dense = false;
  bool some_absent = false;
  bool fault_of_no_kind = false;                               // a list was at fault before the kind was known
  std::vector<std::uint8_t> text;                              // of the rows written straight, if they are bytes
  std::vector<std::size_t> text_ends;                          // one for each of them
  std::size_t data_size = 0;                                   // of all bytes
  std::size_t first_row = 0, first_value = 0, first_byte = 0;  // place in the result

  std::size_t rows() const { return dense_rows + slices.size(); }
};

// A column of one number per row, while that holds: these are most of the columns of wide records.
template <typename T>
struct One {
  std::size_t column;
  T* out;
};

struct Worker {
  Range range;
  Locator locator;
  Feature feature;
  std::vector<Part> parts;
  std::vector<One<float>> floats;
  std::vector<One<std::int64_t>> ints;
  std::vector<std::size_t> general;  // all other columns, in order
  std::vector<RowFault> faults;
  Worker(Range r, const std::vector<Name>& names, Locator::Others others)
      : range(r), locator(names, others), parts(names.size()) {}
};

class Decoder {
 public:
  Decoder(Bytes file, std::span<const Extent> extents, const std::vector<Name>& names, DecodeOptions options)
      : file_(file), extents_(extents), names_(names), options_(options), guesses_(names.size()) {}

  Decoded run();

 private:
  Fault check_bounds(Extent extent) const;
  Bytes data_of(Extent extent) const { return {file_.data() + extent.offset + kHeader, extent.length}; }

  void guess();
  void locate_rows(Worker& worker);
  Fault locate_row(Worker& worker, std::size_t row);
  void begin(Worker& worker);
  template <typename T>
  void take_ones(Worker& worker, std::vector<One<T>>& ones, std::size_t row);
  void skip_row(Worker& worker, std::size_t row, int column);
  Fault take_row(Worker& worker, std::size_t row, int& column);
  bool take_dense(Worker& worker, std::size_t column, std::size_t row, Slice slice);
  Fault take_slice(Worker& worker, std::size_t column, Slice slice);
  Fault take_steps(Worker& worker, std::size_t column, Slice list);

  void settle_kinds();
  void place(std::size_t column, Column& out);
  void fill_part(Worker& worker, std::size_t column, Column& out);
  void fill_rows(Worker& worker, Decoded& out);
  void fill_slice(Worker& worker, std::size_t column, std::size_t slice, Column& out);
  void copy_dense_rows(const Part& part, const Guess& guess, Column& out);
  void write_splits(const Part& part, const Column& out, std::size_t width);

  Bytes file_;
  std::span<const Extent> extents_;
  const std::vector<Name>& names_;
  DecodeOptions options_;
  std::vector<Guess> guesses_;
  std::vector<std::unique_ptr<Worker>> workers_;
  bool verify_late_ = false;
};

template <typename T>
Buffer array(std::size_t count) {
  return Buffer(count * sizeof(T));
}

std::size_t size_of(Kind kind) { return kind == Kind::floats ? sizeof(float) : sizeof(std::int64_t); }

Fault Decoder::check_bounds(Extent extent) const {
  if (extent.length > kMaxRecord) return Fault::too_large;
  if (extent.offset > file_.size() || file_.size() - extent.offset < kHeader) return Fault::truncated_header;
  if (file_.size() - extent.offset - kHeader < extent.length + kFooter) return Fault::truncated_data;
  return Fault::none;
}

// Looks at the first records only: what they hold, and whether payloads are so large that checksums are better computed
// when the payload is copied than when the record is first read.
void Decoder::guess() {
  constexpr std::size_t kLarge = 4096;
  const std::size_t probe = std::min<std::size_t>(16, (extents_.size() + 15) / 16);
  Locator locator(names_);
  Feature feature;
  std::vector<bool> varies(names_.size(), false);
  for (std::size_t c = 0; c < names_.size(); ++c) guesses_[c].kind = names_[c].kind;
  std::size_t bytes = 0, rows = 0;
  for (; rows < probe; ++rows) {
    const Extent extent = extents_[rows];
    // A damaged record says nothing about the others.
    if (check_bounds(extent) != Fault::none || (options_.verify && !is_intact(file_, extent))) continue;
    if (!locator.locate(data_of(extent))) continue;
    bytes += extent.length;
    for (std::size_t c = 0; c < names_.size(); ++c) {
      if (names_[c].sequence || !feature.open(locator.slices()[c], file_)) continue;
      Guess& guess = guesses_[c];
      if (rows == 0 || guess.kind == Kind::none) {
        varies[c] = rows > 0;
        guess.kind = guess.kind == Kind::none ? feature.kind() : guess.kind;
        guess.width = feature.count();
      }
      varies[c] = varies[c] || feature.kind() != guess.kind || feature.count() != guess.width;
    }
  }
  std::uint64_t most_bytes = 0;  // that all records have together
  for (const Extent extent : extents_) most_bytes += std::min<std::uint64_t>(extent.length, kMaxRecord);
  most_bytes = std::min<std::uint64_t>(most_bytes, file_.size());
  // A damaged record must not decide the kind of a column, so while that is open, records are verified first.
  bool some_bytes = false, some_lists = false, all_known = true;
  for (std::size_t c = 0; c < names_.size(); ++c) {
    Guess& guess = guesses_[c];
    some_bytes |= guess.kind == Kind::bytes;
    some_lists |= names_[c].sequence;
    all_known &= guess.kind != Kind::none;
    guess.dense = (guess.kind == Kind::floats || guess.kind == Kind::int64s) && guess.width > 0 && !varies[c];
    // The width that one record claims must not take more memory than all records can fill.
    guess.dense = guess.dense && guess.width <= most_bytes / std::max<std::size_t>(extents_.size(), 1);
    if (guess.dense) guess.numbers = Buffer(extents_.size() * guess.width * size_of(guess.kind));
  }
  verify_late_ = some_bytes && !some_lists && all_known && rows > 0 && bytes / rows >= kLarge;
  // Short values are collected at once; long ones are copied later, when their place is known.
  for (std::size_t c = 0; c < names_.size() && !verify_late_; ++c)
    if (guesses_[c].kind == Kind::bytes && guesses_[c].width == 1 && !varies[c]) guesses_[c].dense = true;
}

bool Decoder::take_dense(Worker& worker, std::size_t column, std::size_t row, Slice slice) {
  const Guess& guess = guesses_[column];
  Feature& feature = worker.feature;
  if (guess.kind == Kind::bytes) {
    Bytes value;
    if (!read_one(slice, value)) return false;
    Part& part = worker.parts[column];
    part.text.insert(part.text.end(), value.begin(), value.end());
    part.text_ends.push_back(part.text.size());
    part.data_size += value.size();
    return true;
  }
  if (!feature.open(slice, file_) || feature.kind() != guess.kind || feature.count() != guess.width) return false;
  if (guess.kind == Kind::floats) {
    feature.fill(guess.numbers.as<float>() + row * guess.width);
    return true;
  }
  return feature.fill(guess.numbers.as<std::int64_t>() + row * guess.width);
}

Fault Decoder::take_slice(Worker& worker, std::size_t column, Slice slice) {
  Part& part = worker.parts[column];
  Feature& feature = worker.feature;
  if (Bytes value; part.kind == Kind::bytes && read_one(slice, value)) {
    part.slices.push_back(slice);
    part.counts.push_back(1);
    part.data_size += value.size();
    return Fault::none;
  }
  if (!feature.open(slice, file_)) return Fault::malformed;
  const Kind kind = feature.kind();
  if (kind == Kind::none) {
    part.some_absent = true;
    part.slices.push_back({});
    part.counts.push_back(0);
    return Fault::none;
  }
  if (part.kind == Kind::none) part.kind = kind;
  if (kind != part.kind) return Fault::wrong_kind;
  part.slices.push_back(slice);
  part.counts.push_back(static_cast<std::uint32_t>(feature.count()));
  if (kind == Kind::bytes) feature.for_each_bytes([&](Bytes value) { part.data_size += value.size(); });
  return Fault::none;
}

Fault Decoder::take_steps(Worker& worker, std::size_t column, Slice list) {
  Part& part = worker.parts[column];
  const std::size_t before = part.slices.size(), data_size = part.data_size;
  const Kind kind = part.kind;
  Fault fault = Fault::none;
  const bool whole = for_each_step(list.bytes(), [&](Slice step) {
    if (fault == Fault::none) fault = take_slice(worker, column, step);
  });
  if (fault == Fault::none && !whole) fault = Fault::malformed;
  if (fault != Fault::none) {
    part.slices.resize(before);
    part.counts.resize(before);
    part.data_size = data_size;
    part.fault_of_no_kind |= kind == Kind::none;
    part.kind = kind;
    return fault;
  }
  part.steps.push_back(static_cast<std::uint32_t>(part.slices.size() - before));
  return Fault::none;
}

// Hands the located features of `row` to their columns. On a fault, `column` is where it is, and columns before it have
// taken the row.
Fault Decoder::take_row(Worker& worker, std::size_t row, int& column) {
  take_ones(worker, worker.floats, row);
  take_ones(worker, worker.ints, row);
  for (const std::size_t c : worker.general) {
    Part& part = worker.parts[c];
    const Slice slice = worker.locator.slices()[c];
    column = static_cast<int>(c);
    if (part.dense) {
      if (take_dense(worker, c, row, slice)) {
        ++part.dense_rows;
        continue;
      }
      part.dense = false;
    }
    const Fault fault = names_[c].sequence ? take_steps(worker, c, slice) : take_slice(worker, c, slice);
    if (fault != Fault::none) return fault;
  }
  column = -1;
  return Fault::none;
}

// Writes one number per row straight to its place. A column that holds anything else takes the general path from there.
template <typename T>
void Decoder::take_ones(Worker& worker, std::vector<One<T>>& ones, std::size_t row) {
  const Slice* const slices = worker.locator.slices().data();
  for (std::size_t i = 0; i < ones.size();) {
    const One<T> one = ones[i];
    if (read_one(slices[one.column], one.out[row]) || take_dense(worker, one.column, row, slices[one.column])) {
      ++i;
      continue;
    }
    ones.erase(ones.begin() + static_cast<std::ptrdiff_t>(i));
    worker.parts[one.column].dense = false;
    worker.parts[one.column].dense_rows = row - worker.range.begin;
    worker.general.insert(std::lower_bound(worker.general.begin(), worker.general.end(), one.column), one.column);
  }
}

// Leaves an empty place for a row at fault in `column` and all columns after it; in all if `column` is -1. Columns of
// one number per row, which have no such place, take the general path.
void Decoder::skip_row(Worker& worker, std::size_t row, int column) {
  const auto stop = [&](std::size_t c) {
    worker.parts[c].dense_rows = row - worker.range.begin;
    worker.parts[c].some_absent = true;
    worker.parts[c].slices.push_back({});
    worker.parts[c].counts.push_back(0);
    worker.parts[c].dense = false;
  };
  for (const auto& one : worker.floats) stop(one.column);
  for (const auto& one : worker.ints) stop(one.column);
  for (const std::size_t c : worker.general) {
    if (static_cast<int>(c) < column) continue;
    Part& part = worker.parts[c];
    if (names_[c].sequence) {
      part.steps.push_back(0);
      continue;
    }
    part.dense = false;
    part.some_absent = true;
    part.slices.push_back({});
    part.counts.push_back(0);
  }
  for (const auto& one : worker.floats) worker.general.push_back(one.column);
  for (const auto& one : worker.ints) worker.general.push_back(one.column);
  worker.floats.clear();
  worker.ints.clear();
  std::sort(worker.general.begin(), worker.general.end());
}

Fault Decoder::locate_row(Worker& worker, std::size_t row) {
  const Extent extent = extents_[row];
  if (const Fault fault = check_bounds(extent); fault != Fault::none) return fault;
  const bool verify_now = options_.verify && !verify_late_;
  if (verify_now) {
    if (const Fault fault = verify(file_, extent); fault != Fault::none) return fault;
  }
  return worker.locator.locate(data_of(extent)) ? Fault::none : Fault::malformed;
}

void Decoder::begin(Worker& worker) {
  const std::size_t rows = worker.range.end - worker.range.begin;
  worker.floats.clear();
  worker.ints.clear();
  worker.general.clear();
  for (std::size_t c = 0; c < names_.size(); ++c) {
    const Guess& guess = guesses_[c];
    Part& part = worker.parts[c];
    part.dense = guess.dense;
    part.kind = guess.kind;
    if (guess.dense && guess.width == 1 && guess.kind == Kind::floats) {
      worker.floats.push_back({c, guess.numbers.as<float>()});
    } else if (guess.dense && guess.width == 1 && guess.kind == Kind::int64s) {
      worker.ints.push_back({c, guess.numbers.as<std::int64_t>()});
    } else {
      worker.general.push_back(c);
    }
    if (guess.dense && guess.kind == Kind::bytes) part.text_ends.reserve(rows);
    if (guess.dense || names_[c].sequence) continue;
    part.slices.reserve(rows);
    part.counts.reserve(rows);
  }
}

void Decoder::locate_rows(Worker& worker) {
  begin(worker);
  for (std::size_t row = worker.range.begin; row < worker.range.end; ++row) {
    int column = -1;
    breathe(kHeader + extents_[row].length);
    Fault fault = locate_row(worker, row);
    if (fault == Fault::none) fault = take_row(worker, row, column);
    if (fault == Fault::none) continue;
    // If a record cannot be read because it is damaged, report the damage, whatever it looks like.
    const bool unverified = fault == Fault::malformed || fault == Fault::wrong_kind;
    if (unverified && options_.verify && verify_late_) {
      if (const Fault damage = verify(file_, extents_[row]); damage != Fault::none) fault = damage;
    }
    const bool is_of_column = fault == Fault::malformed || fault == Fault::wrong_kind;
    worker.faults.push_back({row, fault, is_of_column ? column : -1});
    skip_row(worker, row, column);
  }
  for (const auto& one : worker.floats) worker.parts[one.column].dense_rows = worker.range.end - worker.range.begin;
  for (const auto& one : worker.ints) worker.parts[one.column].dense_rows = worker.range.end - worker.range.begin;
}

// The kind of the first row that has one is the column's. A part that began with another is located again, now that
// the kinds of all rows before it are known: the result must not depend on how the rows were divided.
void Decoder::settle_kinds() {
  for (const auto& worker : workers_) {
    bool agrees = true;
    for (std::size_t c = 0; c < names_.size(); ++c) {
      const Part& part = worker->parts[c];
      const Kind known = guesses_[c].kind;
      const bool agrees_here = !part.fault_of_no_kind && (part.kind == Kind::none || part.kind == known);
      agrees = agrees && (known == Kind::none || agrees_here);
    }
    if (!agrees) {
      worker->parts.assign(names_.size(), Part());
      worker->faults.clear();
      locate_rows(*worker);
    }
    for (std::size_t c = 0; c < names_.size(); ++c)
      if (guesses_[c].kind == Kind::none) guesses_[c].kind = worker->parts[c].kind;
  }
}

// Adds up what the parts hold, assigns their places, and allocates the result.
void Decoder::place(std::size_t column, Column& out) {
  const Guess& guess = guesses_[column];
  out.kind = guess.kind;
  bool all_dense = guess.dense && guess.kind != Kind::bytes, same_width = true, some_absent = false,
       some_counts = false;
  std::size_t bytes = 0;
  for (const auto& worker : workers_) {
    Part& part = worker->parts[column];
    part.first_row = out.rows;
    part.first_value = out.values;
    part.first_byte = bytes;
    all_dense = all_dense && part.slices.empty();
    some_absent |= part.some_absent;
    if (part.dense_rows > 0) {
      if (!some_counts) out.width = guess.width;
      same_width = same_width && out.width == guess.width;
      some_counts = true;
    }
    for (const std::uint32_t count : part.counts) {
      if (!some_counts) out.width = count;
      some_counts = true;
      same_width = same_width && count == out.width;
      out.values += count;
    }
    out.values += part.dense_rows * guess.width;
    out.rows += part.rows();
    bytes += part.data_size;
  }
  out.uniform = same_width && !some_absent && out.rows > 0;
  if (all_dense) {
    guesses_[column].held = true;
    out.numbers = std::move(guesses_[column].numbers);
    return;
  }
  if (!out.uniform) {
    out.splits = array<std::int64_t>(out.rows + 1);
    out.splits.as<std::int64_t>()[out.rows] = static_cast<std::int64_t>(out.values);
  }
  if (some_absent) out.present = array<std::uint8_t>(out.rows);
  if (out.kind == Kind::bytes) {
    out.ends = array<std::int64_t>(out.values + 1);
    out.data = Buffer(bytes);
    out.ends.as<std::int64_t>()[out.values] = static_cast<std::int64_t>(bytes);
  } else {
    out.numbers = Buffer(out.values * size_of(out.kind));
  }
}

void Decoder::write_splits(const Part& part, const Column& out, std::size_t width) {
  if (out.splits.size() == 0) return;
  std::int64_t* splits = out.splits.as<std::int64_t>() + part.first_row;
  std::int64_t at = static_cast<std::int64_t>(part.first_value);
  for (std::size_t i = 0; i < part.dense_rows; ++i, at += static_cast<std::int64_t>(width)) *splits++ = at;
  for (const std::uint32_t count : part.counts) {
    *splits++ = at;
    at += count;
  }
}

void Decoder::copy_dense_rows(const Part& part, const Guess& guess, Column& out) {
  if (part.dense_rows == 0) return;
  if (guess.kind == Kind::bytes) {
    std::int64_t* ends = out.ends.as<std::int64_t>() + part.first_value;
    std::size_t at = part.first_byte;
    for (const std::size_t end : part.text_ends) {
      *ends++ = static_cast<std::int64_t>(at);
      at = part.first_byte + end;
    }
    if (!part.text.empty()) std::memcpy(out.data.data() + part.first_byte, part.text.data(), part.text.size());
    return;
  }
  const std::size_t value = size_of(guess.kind), row = guess.width * value;
  std::memcpy(out.numbers.data() + part.first_value * value, guess.numbers.data() + part.first_row * row,
              part.dense_rows * row);
}

void Decoder::fill_slice(Worker& worker, std::size_t column, std::size_t slice, Column& out) {
  Part& part = worker.parts[column];
  Feature& feature = worker.feature;
  if (!part.slices[slice].data) return;
  if (out.kind == Kind::bytes) {
    std::int64_t* ends = out.ends.as<std::int64_t>() + part.first_value;
    const auto take = [&](Bytes value) {
      *ends++ = static_cast<std::int64_t>(part.first_byte);
      if (!value.empty()) std::memcpy(out.data.data() + part.first_byte, value.data(), value.size());
      part.first_byte += value.size();
    };
    if (Bytes value; read_one(part.slices[slice], value)) {
      take(value);
    } else if (feature.open(part.slices[slice], file_)) {
      feature.for_each_bytes(take);
    }
    part.first_value += part.counts[slice];
    return;
  }
  if (!feature.open(part.slices[slice], file_)) return;
  if (out.kind == Kind::floats) {
    feature.fill(out.numbers.as<float>() + part.first_value);
  } else if (!feature.fill(out.numbers.as<std::int64_t>() + part.first_value)) {
    // Only a varint of more than ten bytes is found as late as this. Its row is at fault, which is reported once.
    std::memset(out.numbers.as<std::int64_t>() + part.first_value, 0, part.counts[slice] * sizeof(std::int64_t));
    std::size_t row = part.dense_rows + slice;
    if (names_[column].sequence) {
      std::size_t seen = 0;
      for (row = 0; seen + part.steps[row] <= slice; ++row) seen += part.steps[row];
    }
    worker.faults.push_back({worker.range.begin + row, Fault::malformed, static_cast<int>(column)});
  }
  part.first_value += part.counts[slice];
}

void Decoder::fill_part(Worker& worker, std::size_t column, Column& out) {
  Part& part = worker.parts[column];
  if (out.present.size() > 0) {
    std::uint8_t* present = out.present.data() + part.first_row;
    std::fill_n(present, part.dense_rows, std::uint8_t{1});
    present += part.dense_rows;
    for (const Slice& slice : part.slices) *present++ = slice.data != nullptr;
  }
  write_splits(part, out, guesses_[column].width);
  copy_dense_rows(part, guesses_[column], out);
  part.first_value += part.dense_rows * guesses_[column].width;
  part.first_byte += part.text.size();
}

// Fills in the rest, record by record, so that a record is read while its checksum keeps it in the cache.
void Decoder::fill_rows(Worker& worker, Decoded& out) {
  std::vector<std::size_t> general;
  for (std::size_t c = 0; c < names_.size(); ++c) {
    if (guesses_[c].held) continue;
    fill_part(worker, c, out.columns[c]);
    if (!worker.parts[c].slices.empty()) general.push_back(c);
  }
  std::vector<std::size_t> next(names_.size(), 0);
  for (std::size_t row = worker.range.begin; row < worker.range.end; ++row) {
    const Extent extent = extents_[row];
    breathe(kHeader + extent.length);
    if (verify_late_ && options_.verify && check_bounds(extent) == Fault::none) {
      if (const Fault fault = verify(file_, extent); fault != Fault::none) worker.faults.push_back({row, fault, -1});
    }
    for (const std::size_t c : general) {
      const Part& part = worker.parts[c];
      const std::size_t at = row - worker.range.begin;
      if (!names_[c].sequence && at < part.dense_rows) continue;
      const std::size_t steps = names_[c].sequence ? part.steps[at] : 1;
      for (std::size_t i = 0; i < steps; ++i) fill_slice(worker, c, next[c]++, out.columns[c]);
    }
  }
}

void write_step_splits(const std::vector<std::unique_ptr<Worker>>& workers, std::size_t column, std::size_t records,
                       Column& out) {
  out.step_splits = array<std::int64_t>(records + 1);
  std::int64_t* splits = out.step_splits.as<std::int64_t>();
  std::int64_t at = 0;
  for (const auto& worker : workers)
    for (const std::uint32_t steps : worker->parts[column].steps) {
      *splits++ = at;
      at += steps;
    }
  *splits = at;
}

// One fault per row: that of the first column that found one.
std::vector<RowFault> join_faults(const std::vector<std::unique_ptr<Worker>>& workers) {
  std::vector<RowFault> faults;
  for (const auto& worker : workers) faults.insert(faults.end(), worker->faults.begin(), worker->faults.end());
  const auto before = [](const RowFault& a, const RowFault& b) {
    return a.row != b.row ? a.row < b.row : a.column < b.column;
  };
  std::sort(faults.begin(), faults.end(), before);
  const auto same_row = [](const RowFault& a, const RowFault& b) { return a.row == b.row; };
  faults.erase(std::unique(faults.begin(), faults.end(), same_row), faults.end());
  return faults;
}

std::vector<Name> join_others(const std::vector<std::unique_ptr<Worker>>& workers) {
  std::vector<Name> all;
  for (const auto& worker : workers)
    for (const Name& name : worker->locator.others()) all.push_back(name);
  const auto key = [](const Name& name) { return std::tie(name.sequence, name.text); };
  std::sort(all.begin(), all.end(), [&](const Name& a, const Name& b) { return key(a) < key(b); });
  all.erase(std::unique(all.begin(), all.end(), [&](const Name& a, const Name& b) { return key(a) == key(b); }),
            all.end());
  return all;
}

Decoded Decoder::run() {
  guess();
  const std::size_t threads = std::clamp<std::size_t>(options_.threads, 1, std::max<std::size_t>(extents_.size(), 1));
  const Locator::Others others = options_.note_others ? Locator::Others::note : Locator::Others::ignore;
  for (const Range range : cut(extents_.size(), threads))
    workers_.push_back(std::make_unique<Worker>(range, names_, others));
  in_threads(threads, [&](std::size_t i) { locate_rows(*workers_[i]); });
  settle_kinds();

  Decoded out;
  out.columns.resize(names_.size());
  bool finished = !verify_late_;
  for (std::size_t c = 0; c < names_.size(); ++c) {
    place(c, out.columns[c]);
    if (names_[c].sequence) write_step_splits(workers_, c, extents_.size(), out.columns[c]);
    for (const auto& worker : workers_)
      finished = finished && worker->parts[c].slices.empty() && worker->parts[c].text_ends.empty();
  }
  if (!finished) in_threads(threads, [&](std::size_t i) { fill_rows(*workers_[i], out); });
  out.faults = join_faults(workers_);
  if (options_.note_others) out.others = join_others(workers_);
  return out;
}

}  // namespace

Decoded decode(Bytes file, std::span<const Extent> extents, const std::vector<Name>& names, DecodeOptions options) {
  return Decoder(file, extents, names, options).run();
}

}  // namespace bushel
