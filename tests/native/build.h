// Messages and files built byte by byte, in memory that ends where they end: an over-read is seen by ASan.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "columns.h"
#include "encode.h"

namespace build {

using bushel::Bytes;

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

inline std::string field(unsigned number, std::string_view data) {
  return varint(number << 3 | 2) + varint(data.size()) + std::string(data);
}

inline std::string ints(const std::vector<std::int64_t>& values) {
  std::string packed;
  for (const std::int64_t value : values) packed += varint(static_cast<std::uint64_t>(value));
  return field(3, values.empty() ? "" : field(1, packed));
}

inline std::string floats(const std::vector<float>& values) {
  const std::string_view packed(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return field(2, values.empty() ? "" : field(1, packed));
}

inline std::string strings(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += field(1, value);
  return field(1, list);
}

inline std::string entry(std::string_view key, std::string_view value) {
  return field(1, field(1, key) + field(2, value));
}

// Of entries, as entry() makes them.
inline std::string example(std::string_view entries) { return field(1, entries); }
inline std::string lists(std::string_view entries) { return field(2, entries); }
// Of Features, as ints() and the like make them.
inline std::string steps(const std::vector<std::string>& features) {
  std::string list;
  for (const std::string& feature : features) list += field(1, feature);
  return list;
}

// A copy that owns exactly its bytes.
class Exact {
 public:
  explicit Exact(std::string_view data) : data_(new std::uint8_t[data.size()]), size_(data.size()) {
    if (!data.empty()) std::memcpy(data_.get(), data.data(), data.size());
  }
  Bytes bytes() const { return {data_.get(), size_}; }
  std::uint8_t* data() { return data_.get(); }
  const std::uint8_t* data_end() const { return data_.get() + size_; }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<std::uint8_t[]> data_;
  std::size_t size_;
};

inline std::string framed(std::string_view data) {
  std::string out(bushel::kHeader + data.size() + bushel::kFooter, '\0');
  out.replace(bushel::kHeader, data.size(), data);
  bushel::frame(reinterpret_cast<std::uint8_t*>(out.data()), data.size());
  return out;
}

inline std::string file_of(const std::vector<std::string>& records) {
  std::string file;
  for (const std::string& record : records) file += framed(record);
  return file;
}

inline std::string_view text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Numbers that do not depend on the machine or its library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }
  std::uint64_t next() { return engine_(); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  // Of any number of bits.
  std::int64_t any_int() { return static_cast<std::int64_t>(engine_() >> below(64)); }
  std::string any_text(std::size_t max_size) {
    std::string out(below(max_size + 1), '\0');
    for (char& c : out) c = static_cast<char>(engine_());
    return out;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace build
