// Reading Example and SequenceExample. Their .proto, in short:
//   Example          { Features features = 1; }
//   SequenceExample  { Features context = 1; FeatureLists feature_lists = 2; }
//   Features         { map<string, Feature> feature = 1; }
//   FeatureLists     { map<string, FeatureList> feature_list = 1; }
//   FeatureList      { repeated Feature feature = 1; }
//   Feature          { oneof kind { BytesList = 1; FloatList = 2; Int64List = 3; } }   each list: repeated value = 1
//   a map's entry    { key = 1; value = 2; }
// Odd messages are read as protobuf reads them; FORMAT.md has the table.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "record.h"
#include "wire.h"

namespace bushel {

// The numbers are Feature's field numbers.
enum class Kind : std::uint8_t { none = 0, bytes = 1, floats = 2, int64s = 3 };

// How many bytes can be read after a slice of a framed record, though they are not part of it: at least the footer.
inline constexpr std::size_t kReadable = 4;

// A serialized Feature or FeatureList; no data if the record does not have it.
struct Slice {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
  Bytes bytes() const { return {data, size}; }
};

// Behind the name of a feature of the context whose name a feature list has, too. Asked for by this name, it is found.
inline constexpr std::string_view kContext = " (context)";

struct Name {
  std::string text;
  bool sequence = false;   // a feature list of a SequenceExample; else a feature of an Example or of the context
  Kind kind = Kind::none;  // what it must hold; none: the first kind that is found
};

struct RowFault {
  std::size_t row;
  Fault fault;
  int column;  // if the fault is in one feature; else -1
};

// Finds features by name in one record after another. Records of a file mostly hold the same names in the same order,
// so the name that came after this one last time is tried before the table.
class Locator {
 public:
  // What to do with other names that are found: ignore them, remember them, or look for them from then on.
  enum class Others { ignore, note, add };

  explicit Locator(const std::vector<Name>& names, Others others = Others::ignore);
  Locator(const Locator&) = delete;
  Locator& operator=(const Locator&) = delete;

  // False if `record` is malformed, as far as it had to be read: the values of other names are not read.
  bool locate(Bytes record);

  // One per name, of the last record located. They point into the record, or into memory of this Locator.
  const std::vector<Slice>& slices() const { return slices_; }
  const std::vector<Name>& names() const { return names_; }
  // The other names found so far; empty if they are ignored.
  std::vector<Name> others() const;

 private:
  // A name, and the pattern between the length of an entry and the length of its value: tag and length, name, tag.
  struct Key {
    std::uint64_t head[2];  // of the pattern: compared as two words, where `mask` says
    std::uint64_t mask[2];
    std::size_t size;     // of the pattern
    int column;           // or -1 for another name
    std::uint32_t after;  // the key that came after this one last time
    std::string pattern;
    Key(std::string_view name, int column);
    std::string_view text() const;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Group {
    bool sequence;
    std::vector<Key> keys;  // [0] stands for the start of a message
    std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> table;
    std::uint32_t last = 0;
  };

  bool read_map(Bytes map, Group& group);
  bool read_expected_entry(Cursor& in, Group& group);
  bool read_entry(Bytes entry, Group& group);
  bool read_odd_entry(Bytes entry, Group& group);
  int column_of(std::string_view key, Group& group);
  int look_up(std::string_view key, Group& group);
  std::uint32_t add_key(std::string_view key, int column, Group& group);

  std::vector<Name> names_;
  std::vector<Slice> slices_;
  Group features_, lists_;
  Others others_;
  bool reads_lists_;
  std::deque<std::string> merged_;  // values that came in pieces
};

// The values of one Feature.
class Feature {
 public:
  // Reads a serialized Feature, usually one inside `memory`. False if it is malformed.
  // The common form (one packed list) is only inspected here and decoded by fill(); any other is decoded here.
  bool open(Slice feature, Bytes memory);

  Kind kind() const { return kind_; }
  std::size_t count() const { return count_; }

  // Call the one for the right kind, with room for count() values. False if the list is malformed.
  bool fill(std::int64_t* out) const;
  void fill(float* out) const;
  template <typename Take>
  void for_each_bytes(Take&& take) const;

 private:
  bool open_odd(Bytes feature);
  bool read_list(Kind kind, Bytes list);
  bool read_value(Kind kind, std::uint32_t tag, Cursor& in);

  Kind kind_ = Kind::none;
  std::size_t count_ = 0;
  Bytes packed_;  // of the common form: packed numbers, or a BytesList
  const std::uint8_t* readable_end_ = nullptr;
  bool odd_ = false;
  std::vector<std::int64_t> ints_;
  std::vector<float> floats_;
  std::vector<Bytes> strings_;
};

// One value of a framed record, in the form that all writers use. False if anything else is there.
inline bool read_one(Slice feature, float& out) {
  constexpr std::uint32_t kBefore = 0x040a0612;  // a FloatList of 6 bytes, in it 4 packed
  if (feature.size != 8 || load32(feature.data) != kBefore) return false;
  std::memcpy(&out, feature.data + 4, sizeof out);
  return true;
}

inline bool read_one(Slice feature, std::int64_t& out) {
  const std::size_t size = feature.size - 4;
  if (feature.size < 5 || feature.size > 12) return false;
  const std::uint32_t before =
      0x000a001au | static_cast<std::uint32_t>(size + 2) << 8 | static_cast<std::uint32_t>(size) << 24;
  if (load32(feature.data) != before) return false;
  constexpr std::uint64_t kContinued = 0x8080808080808080u;
  // Loads eight bytes that end at most kReadable after the value, and so may begin before it.
  const std::size_t begin = size < kReadable ? size : kReadable;
  const std::uint64_t used = ~std::uint64_t{0} >> (64 - 8 * size);
  const std::uint64_t word = load64(feature.data + begin) >> (8 * (4 - begin)) & used;
  if ((word & kContinued) != (kContinued & (used >> 8))) return false;
  out = static_cast<std::int64_t>(join_sevens(word));
  return true;
}

inline bool read_one(Slice feature, Bytes& out) {
  Cursor in(feature.bytes());
  Bytes list;
  if (feature.size < 4 || *in.p++ != tag(1, WireType::length) || !read_bytes(in, list) || !in.done()) return false;
  Cursor value(list);
  return !value.done() && *value.p++ == tag(1, WireType::length) && read_bytes(value, out) && value.done();
}

// Calls `take` with each Feature of a serialized FeatureList. False if the list is malformed.
template <typename Take>
bool for_each_step(Bytes list, Take&& take) {
  for (Cursor in(list); !in.done();) {
    std::uint32_t key = 0;
    Bytes step;
    if (!read_tag(in, key)) return false;
    if (key == tag(1, WireType::length)) {
      if (!read_bytes(in, step)) return false;
      take(Slice{step.data(), step.size()});
    } else if (!skip(in, key)) {
      return false;
    }
  }
  return true;
}

template <typename Take>
void Feature::for_each_bytes(Take&& take) const {
  if (odd_) {
    for (const Bytes& value : strings_) take(value);
    return;
  }
  for (Cursor in(packed_); !in.done();) {
    Bytes value;
    ++in.p;  // the tag, which open() has seen
    if (!read_bytes(in, value)) return;
    take(value);
  }
}

}  // namespace bushel
